"""All small clusters of a few kinds, run until nothing more is decided."""

import itertools

import pytest
from msgspec import structs
from tests.engine import builders as b

from pykueue.engine import decisions, events, invariants
from pykueue.engine.cycle.entries import CycleEntry
from pykueue.engine.cycle.nominate import best_nomination
from pykueue.engine.reasons import Mode

pytestmark = pytest.mark.untraced

LIMIT = 40


def play(cluster, workloads):
    """Until nothing is decided twice in a row; evicted workloads stop at once."""
    current = {workload.key: workload for workload in workloads}
    cluster.add(*workloads)
    for _ in range(LIMIT):
        decided = cluster.cycle()
        for decision in decided:
            if isinstance(decision, decisions.Admit):
                admission = {"admission": decision.admission, "reserved_at_ns": decision.reserved_at_ns}
                current[decision.workload] = structs.replace(current[decision.workload], **admission)
                cluster.handle(events.WorkloadChanged(workload=current[decision.workload]))
            elif isinstance(decision, decisions.Preempt):
                for target in decision.targets:
                    current[target.workload] = structs.replace(current[target.workload], admission=None)
                    cluster.handle(events.WorkloadChanged(workload=current[target.workload]))
        invariants.check(cluster.engine)
        if not decided:
            return
    raise AssertionError(f"still busy after {LIMIT} cycles")


def sizes_and_priorities(count):
    """Size and priority of each workload."""
    return itertools.combinations_with_replacement(itertools.product((1, 2), (0, 1)), count)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("within", ["Never", "LowerPriority", "LowerOrNewerEqualPriority"])
def test_one_queue_leaves_nobody_waiting_who_fits(strict, within):
    for nominal, chosen in itertools.product(range(4), sizes_and_priorities(3)):
        cluster = b.Cluster(b.cluster_queue(nominal=nominal, strict=strict, within=within))
        play(
            cluster,
            [
                b.workload(f"w{number}", cpu=cpu, priority=priority, created=number)
                for number, (cpu, priority) in enumerate(chosen)
            ],
        )
        queue = cluster.state.cluster_queues["queue"]
        waiting = queue.pending.in_heap()[:1] if strict else [*queue.pending.in_heap(), *queue.pending.inadmissible()]
        for pending in waiting:
            entry = CycleEntry(pending, queue)
            nomination = best_nomination(cluster.state, entry)
            assert nomination.assignment.mode is not Mode.FIT, (nominal, chosen, pending.key)


@pytest.mark.parametrize("reclaim", ["Never", "LowerPriority", "Any"])
@pytest.mark.parametrize("limits", [(None, None), (1, None), (None, 1)])
def test_two_queues_of_a_cohort_come_to_rest(reclaim, limits):
    for first, second, chosen in itertools.product(range(3), range(3), sizes_and_priorities(3)):
        queues = [
            b.cluster_queue(
                name,
                "cohort",
                groups=[b.group({"default": b.quota(nominal, limits[0], limits[1] and min(limits[1], nominal))})],
                reclaim=reclaim,
                within="LowerPriority",
            )
            for name, nominal in (("left", first), ("right", second))
        ]
        play(
            b.Cluster(*queues),
            [
                b.workload(f"w{number}", ("left", "right")[number % 2], cpu=cpu, priority=priority, created=number)
                for number, (cpu, priority) in enumerate(chosen)
            ],
        )
