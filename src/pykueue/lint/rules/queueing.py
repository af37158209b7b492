"""Order of jobs: what blocks a StrictFIFO queue, and what starves in a BestEffortFIFO queue."""

from collections.abc import Iterator

from pykueue.api.manifest_validation import Severity
from pykueue.engine import values
from pykueue.lint import quotas
from pykueue.lint.findings import LintFinding, LintRule, LintSubject
from pykueue.lint.queue_set import QueueSet
from pykueue.lint.world import SmallWorld

STRICT_QUEUE_BLOCKED = LintRule(
    id="strict-queue-blocked",
    severity=Severity.NOTE,
    summary="A job that can never be admitted blocks every job behind it (StrictFIFO).",
    remedy="Use BestEffortFIFO, or give each namespace a ClusterQueue of its own.",
)
LARGE_JOB_STARVES = LintRule(
    id="large-job-starves",
    severity=Severity.NOTE,
    summary="A large job waits for ever while smaller jobs keep coming (BestEffortFIFO).",
    remedy="Let it preempt (withinClusterQueue: LowerPriority, with a higher priority), or use StrictFIFO.",
)
RULES = (STRICT_QUEUE_BLOCKED, LARGE_JOB_STARVES)

_ROUNDS = 4


def check(queue_set: QueueSet) -> Iterator[LintFinding]:
    probe = SmallWorld(queue_set)
    for queue in queue_set.cluster_queues.values():
        if not probe.is_active(queue.name) or not queue_set.has_users(queue.name):
            continue
        capacities = ((pair, probe.capacity(queue.name, pair)) for pair, _ in quotas.pairs(queue))
        pair, capacity = next((share for share in capacities if share[1] > 1), (None, 0))
        if pair is None:
            continue
        if queue.queueing_strategy is values.QueueingStrategy.STRICT_FIFO:
            yield from _blocked(queue_set, queue, pair, capacity)
        else:
            yield from _starved(queue_set, queue, pair, capacity)


def _blocked(
    queue_set: QueueSet, queue: values.ClusterQueue, pair: values.FlavorResource, capacity: int
) -> Iterator[LintFinding]:
    """One of several namespaces can block the others; a namespace alone blocks itself only."""
    world = SmallWorld(queue_set)
    world.submit("too-large", queue.name, {pair.resource: _above(queue_set, queue, pair, capacity)})
    world.submit("small", queue.name, {pair.resource: 1})
    world.play()
    if world.is_admitted("small"):
        return
    world.add_waiting()
    namespaces = sorted(
        {key.partition("/")[0] for key, local in queue_set.local_queues.items() if _leads(local, queue)}
    )
    shared = f", which {len(namespaces)} namespaces share" if len(namespaces) > 1 else ""
    yield LintFinding(
        rule=STRICT_QUEUE_BLOCKED,
        subject=LintSubject(kind="ClusterQueue", name=queue.name),
        field="spec.queueingStrategy",
        message=f"one job that is too large blocks the queue{shared}",
        example=tuple(world.story),
        severity=Severity.WARNING if shared else None,
    )


def _leads(local_queue: values.LocalQueue, queue: values.ClusterQueue) -> bool:
    return local_queue.cluster_queue == queue.name


def _above(queue_set: QueueSet, queue: values.ClusterQueue, pair: values.FlavorResource, capacity: int) -> int:
    """More than the queue may have of the resource in any of its flavors."""
    probe = SmallWorld(queue_set)
    others = [other for other, _ in quotas.pairs(queue) if other.resource == pair.resource]
    return max([capacity, *(probe.capacity(queue.name, other) for other in others)]) + 1


def _starved(
    queue_set: QueueSet, queue: values.ClusterQueue, pair: values.FlavorResource, capacity: int
) -> Iterator[LintFinding]:
    """Small jobs overlap, so that the quota is never free at once.

    It is a warning if the set has priority classes and no queue preempts: then its author expects
    the large job to go first, and it does not.
    """
    low, high = (min(queue_set.priorities), max(queue_set.priorities)) if queue_set.priorities else (0, 0)
    world = SmallWorld(queue_set)
    half = {pair.resource: capacity // 2}
    for number in (1, 2):
        world.submit(f"small-{number}", queue.name, half, priority=low, flavor=pair.flavor)
    world.play()
    world.submit("large", queue.name, {pair.resource: capacity}, priority=high, flavor=pair.flavor)
    world.play()
    for number in range(1, _ROUNDS + 1):
        if world.is_admitted("large") or not world.is_admitted(f"small-{number}"):
            return
        world.submit(f"small-{number + 2}", queue.name, half, priority=low, flavor=pair.flavor)
        world.finish(f"small-{number}")
        world.play()
    if world.is_admitted("large"):
        return
    world.add_waiting()
    yield LintFinding(
        rule=LARGE_JOB_STARVES,
        subject=LintSubject(kind="ClusterQueue", name=queue.name),
        field="spec.preemption.withinClusterQueue",
        message=(
            f"a job of priority {high} waits for ever while jobs of priority {low} go past it"
            if high > low
            else "a large job waits for ever while smaller jobs go past it"
        ),
        example=tuple(world.story),
        severity=Severity.WARNING if high > low and not _preempts(queue_set) else None,
    )


def _preempts(queue_set: QueueSet) -> bool:
    return any(queue.preemption != values.Preemption() for queue in queue_set.cluster_queues.values())
