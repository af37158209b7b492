"""Preemption settings under which jobs evict each other in a circle, for ever.

Small worlds are searched: two or three jobs in two ClusterQueues of a cohort, of sizes within,
at and above their quota. If the same preemptions come again and again, the loop guard of the
Configuration (`preemptionLoopGuard`) would end them. With fair sharing, ordinary settings have
such circles of three jobs, so they are notes.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import structs

from pykueue.api.manifest_validation import Severity
from pykueue.engine import values
from pykueue.engine.values import PreemptionPolicy
from pykueue.lint import quotas
from pykueue.lint.findings import LintFinding, LintRule, LintSubject
from pykueue.lint.queue_set import QueueSet
from pykueue.lint.world import SmallWorld

PREEMPTION_CYCLE = LintRule(
    id="preemption-cycle",
    severity=Severity.WARNING,
    summary="Jobs can evict each other in a circle, for ever.",
    remedy=(
        "Use reclaimWithinCohort: LowerPriority, or remove borrowWithinCohort; with pykueue,"
        " preemptionLoopGuard: true in the Configuration ends every circle."
    ),
)
RULES = (PREEMPTION_CYCLE,)

_CYCLES = 24
_REPEATS = 3
_BUDGET = 12_000
"""How many queues may be built for one cohort tree, over all worlds."""
_PRIORITIES = ((0, 1, 2), (0, 0, 1), (0, 0, 0), (2, 1, 0))
_NEVER = (PreemptionPolicy.NEVER, PreemptionPolicy.UNSET)


_Circle = tuple[values.ClusterQueueName, tuple[str, ...]]


class _Job(NamedTuple):
    name: str
    queue: values.ClusterQueueName
    size: int
    priority: int


def check(queue_set: QueueSet) -> Iterator[LintFinding]:
    if queue_set.policy.preemption_loop_guard:
        return
    for _, queues in quotas.trees(queue_set):
        members = [queue for queue in queues if queue_set.has_users(queue.name)]
        names = {queue.name for queue in queues}
        tree = structs.replace(
            queue_set,
            cluster_queues={name: queue for name, queue in queue_set.cluster_queues.items() if name in names},
        )
        story = _search(tree, members)
        if story is not None:
            queue, example = story
            yield LintFinding(
                rule=PREEMPTION_CYCLE,
                subject=LintSubject(kind="ClusterQueue", name=queue),
                field="spec.preemption",
                message=f"jobs evict each other for ever in cohort {queue_set.cluster_queues[queue].cohort}",
                example=example,
                severity=None if queue_set.policy.fair_sharing is None else Severity.NOTE,
            )


def _search(queue_set: QueueSet, members: list[values.ClusterQueue]) -> _Circle | None:
    budget = _BUDGET
    probe = SmallWorld(queue_set)
    for one, other in itertools.permutations(_distinct(members), 2):
        if not (_may_reclaim(one) and _may_take(queue_set, other)):
            continue
        for pair, quota in quotas.pairs(one):
            if not quota.nominal or quotas.quota_of(other, pair) is None:
                continue
            for jobs in _candidates(one, other, pair, probe):
                budget -= len(queue_set.cluster_queues)
                if budget < 0:
                    return None
                story = _circle(queue_set, jobs, pair)
                if story is not None:
                    return one.name, story
    return None


def _distinct(members: list[values.ClusterQueue]) -> list[values.ClusterQueue]:
    """Two of those that differ in nothing but the name: more of them show nothing new."""
    by_settings: dict[tuple[object, ...], list[values.ClusterQueue]] = {}
    for queue in members:
        settings = (queue.preemption, queue.cohort, queue.fair_weight, str(queue.resource_groups))
        by_settings.setdefault(settings, []).append(queue)
    return [queue for queues in by_settings.values() for queue in queues[:2]]


def _may_reclaim(queue: values.ClusterQueue) -> bool:
    return queue.preemption.reclaim_within_cohort not in _NEVER


def _may_take(queue_set: QueueSet, queue: values.ClusterQueue) -> bool:
    """Whether jobs of the queue may preempt jobs of other queues while they borrow."""
    if queue_set.policy.fair_sharing is not None:
        return _may_reclaim(queue)
    return queue.preemption.borrow_within_cohort is not None or _may_reclaim(queue)


def _candidates(
    one: values.ClusterQueue, other: values.ClusterQueue, pair: values.FlavorResource, probe: SmallWorld
) -> Iterator[tuple[_Job, ...]]:
    """Jobs within the quota of one queue and beyond it, and a borrower of the other queue."""
    own, foreign = quotas.quota_of(one, pair), quotas.quota_of(other, pair)
    assert own is not None
    assert foreign is not None
    most, most_of_other = probe.capacity(one.name, pair), probe.capacity(other.name, pair)
    sizes = ((own.nominal, most, most_of_other), (own.nominal, (own.nominal + most + 1) // 2, most_of_other))
    for (small, large, borrowed), (low, middle, high) in itertools.product(dict.fromkeys(sizes), _PRIORITIES):
        if small == large and borrowed <= foreign.nominal:
            continue
        within = _Job("within", one.name, small, low)
        beyond = _Job("beyond", one.name, large, middle)
        borrower = _Job("borrower", other.name, borrowed, high)
        yield (borrower, within)
        yield (borrower, within, beyond)
        yield (beyond, borrower, within)


def _circle(queue_set: QueueSet, jobs: tuple[_Job, ...], pair: values.FlavorResource) -> tuple[str, ...] | None:
    """The story if the same preemptions come again and again after the last job arrived."""
    world = SmallWorld(queue_set)
    for job in jobs:
        if job.size:
            world.submit(job.name, job.queue, {pair.resource: job.size}, priority=job.priority, flavor=pair.flavor)
            world.play(_CYCLES)
    counts = Counter(world.preemptions)
    if not counts or counts.most_common(1)[0][1] < _REPEATS:
        return None
    return (*world.story[: 4 * len(jobs) + 4], "and so on")
