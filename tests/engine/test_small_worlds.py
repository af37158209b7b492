"""Every small world of a few kinds, played to its end."""

import dataclasses
import itertools

import pytest
from tests.engine import builders as b

from pykueue.engine import decisions, events, invariants
from pykueue.engine.cycle.entries import Entry
from pykueue.engine.cycle.nominate import best_nomination
from pykueue.engine.reasons import Mode

LIMIT = 40


def play(cluster, workloads):
    """Until nothing is decided twice in a row; evicted workloads stop at once."""
    known = {each.key: each for each in workloads}
    cluster.add(*workloads)
    for _ in range(LIMIT):
        decided = cluster.cycle()
        for decision in decided:
            if isinstance(decision, decisions.Admit):
                admission = {"admission": decision.admission, "reserved_at_ns": decision.reserved_at_ns}
                known[decision.workload] = dataclasses.replace(known[decision.workload], **admission)
                cluster.tell(events.WorkloadChanged(workload=known[decision.workload]))
            elif isinstance(decision, decisions.Preempt):
                for target in decision.targets:
                    known[target.workload] = dataclasses.replace(known[target.workload], admission=None)
                    cluster.tell(events.WorkloadChanged(workload=known[target.workload]))
        invariants.check(cluster.engine)
        if not decided:
            return
    raise AssertionError(f"still busy after {LIMIT} cycles")


def shapes(count):
    """Size and priority of each workload."""
    return itertools.combinations_with_replacement(itertools.product((1, 2), (0, 1)), count)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("within", ["Never", "LowerPriority", "LowerOrNewerEqualPriority"])
def test_one_queue_leaves_nobody_waiting_who_fits(strict, within):
    for nominal, chosen in itertools.product(range(4), shapes(3)):
        cluster = b.Cluster(b.cluster_queue(nominal=nominal, strict=strict, within=within))
        play(
            cluster,
            [
                b.workload(f"w{number}", cpu=cpu, priority=priority, created=number)
                for number, (cpu, priority) in enumerate(chosen)
            ],
        )
        queue = cluster.world.cluster_queues["queue"]
        waiting = queue.pending.in_heap()[:1] if strict else [*queue.pending.in_heap(), *queue.pending.parked()]
        for pending in waiting:
            entry = Entry(pending=pending, queue=queue, is_preemptor=False, scan_before=None)
            found = best_nomination(cluster.world, entry)
            assert found.assignment.mode is not Mode.FIT, (nominal, chosen, pending.key)


@pytest.mark.parametrize("reclaim", ["Never", "LowerPriority", "Any"])
@pytest.mark.parametrize("limits", [(None, None), (1, None), (None, 1)])
def test_two_queues_of_a_cohort_come_to_rest(reclaim, limits):
    for first, second, chosen in itertools.product(range(3), range(3), shapes(3)):
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
