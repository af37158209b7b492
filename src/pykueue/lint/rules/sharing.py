"""Fair sharing: weights of zero or without effect, and settings that turn it off silently."""

from collections.abc import Iterator

from msgspec import structs

from pykueue.api.manifest_validation import Severity
from pykueue.api.times import SECOND_NS
from pykueue.engine import values
from pykueue.engine.policy import AdmissionFairSharing, FairSharing
from pykueue.lint import quotas
from pykueue.lint.findings import LintFinding, LintRule, LintSubject
from pykueue.lint.queue_set import QueueSet
from pykueue.lint.world import SmallWorld

ZERO_FAIR_WEIGHT = LintRule(
    id="zero-fair-weight",
    severity=Severity.WARNING,
    summary="A fair-sharing weight of zero makes everybody else go first, always.",
    remedy="Use a small positive weight, such as 0.1, unless the queue shall only get what nobody wants.",
)
WEIGHT_WITHOUT_EFFECT = LintRule(
    id="weight-without-effect",
    severity=Severity.WARNING,
    summary="A fair-sharing weight is set, but the Configuration does not turn fair sharing on.",
    remedy="Add fairSharing to the Configuration, or remove the weight.",
)
HALF_LIFE_ZERO = LintRule(
    id="half-life-zero",
    severity=Severity.WARNING,
    summary="A usageHalfLifeTime of zero forgets all usage, which turns admission fair sharing off.",
    remedy="Set admissionFairSharing.usageHalfLifeTime to the time after which usage counts half, such as 168h.",
)
ADMISSION_SCOPE_WITHOUT_EFFECT = LintRule(
    id="admission-scope-without-effect",
    severity=Severity.WARNING,
    summary="A ClusterQueue orders jobs by usage, but the Configuration has no admissionFairSharing.",
    remedy="Add admissionFairSharing to the Configuration, or remove spec.admissionScope.",
)
RULES = (ZERO_FAIR_WEIGHT, WEIGHT_WITHOUT_EFFECT, HALF_LIFE_ZERO, ADMISSION_SCOPE_WITHOUT_EFFECT)

_WEIGHT = "spec.fairSharing.weight"
_HOUR_NS = 3600 * SECOND_NS


def check(queue_set: QueueSet) -> Iterator[LintFinding]:
    yield from _weights(queue_set)
    yield from _local_weights(queue_set)
    yield from _half_life(queue_set)
    yield from _scopes(queue_set)


def _weights(queue_set: QueueSet) -> Iterator[LintFinding]:
    is_off = queue_set.configuration is not None and queue_set.policy.fair_sharing is None
    for owner in queue_set.owners:
        subject = LintSubject(kind=type(owner).__name__, name=owner.name)
        if owner.fair_weight == 0:
            example = _last(queue_set, owner) if isinstance(owner, values.ClusterQueue) else ()
            message = "its weight is 0: whoever else wants to borrow goes first"
            yield LintFinding(rule=ZERO_FAIR_WEIGHT, subject=subject, field=_WEIGHT, message=message, example=example)
        elif is_off and owner.fair_weight not in (None, 1):
            message = f"its weight is {owner.fair_weight:g}, and fair sharing is off"
            yield LintFinding(rule=WEIGHT_WITHOUT_EFFECT, subject=subject, field=_WEIGHT, message=message)


def _last(queue_set: QueueSet, queue: values.ClusterQueue) -> tuple[str, ...]:
    """Its job comes first and is admitted last; nothing if there is nobody to compete with."""
    policy = structs.replace(queue_set.policy, fair_sharing=queue_set.policy.fair_sharing or FairSharing())
    probe = SmallWorld(queue_set, policy=policy)
    for other in queue_set.tree_of(queue):
        for pair, quota in quotas.pairs(queue):
            foreign = quotas.quota_of(other, pair)
            mine, theirs = probe.capacity(queue.name, pair), probe.capacity(other.name, pair)
            if other is queue or foreign is None or mine <= quota.nominal or theirs <= foreign.nominal:
                continue
            world = SmallWorld(queue_set, policy=policy)
            world.submit("of-weight-zero", queue.name, {pair.resource: mine}, flavor=pair.flavor)
            world.submit("other", other.name, {pair.resource: theirs}, flavor=pair.flavor)
            world.play()
            if world.is_admitted("other") and not world.is_admitted("of-weight-zero"):
                world.add_waiting()
                return tuple(world.story)
    return ()


def _local_weights(queue_set: QueueSet) -> Iterator[LintFinding]:
    for key, local_queue in sorted(queue_set.local_queues.items()):
        if local_queue.fair_weight == 0:
            namespace, _, name = key.partition("/")
            yield LintFinding(
                rule=ZERO_FAIR_WEIGHT,
                subject=LintSubject(kind="LocalQueue", name=name, namespace=namespace),
                field=_WEIGHT,
                message="its weight is 0: jobs of all other LocalQueues go first",
            )


def _half_life(queue_set: QueueSet) -> Iterator[LintFinding]:
    sharing = queue_set.policy.admission_fair_sharing
    if sharing is None or sharing.half_life_ns:
        return
    queue = next((queue for queue in queue_set.cluster_queues.values() if queue.uses_admission_fair_sharing), None)
    yield LintFinding(
        rule=HALF_LIFE_ZERO,
        subject=LintSubject(kind="Configuration", name=""),
        field="admissionFairSharing.usageHalfLifeTime",
        message="usageHalfLifeTime is 0: no usage is remembered, and jobs are admitted in order of arrival",
        example=() if queue is None else _forgotten(queue_set, queue, sharing),
    )


def _forgotten(queue_set: QueueSet, queue: values.ClusterQueue, sharing: AdmissionFairSharing) -> tuple[str, ...]:
    """The same jobs twice: with the half-life of the set, and with an hour."""
    story = _two_queues(queue_set, queue, sharing)
    other = _two_queues(queue_set, queue, structs.replace(sharing, half_life_ns=_HOUR_NS))
    return (*story, "with a half-life of 1h instead:", *other[len(story) - 1 :]) if story != other else ()


def _two_queues(queue_set: QueueSet, queue: values.ClusterQueue, sharing: AdmissionFairSharing) -> tuple[str, ...]:
    pair = max(quotas.pairs(queue), key=lambda share: share[1].nominal)[0]
    world = SmallWorld(queue_set, policy=structs.replace(queue_set.policy, admission_fair_sharing=sharing))
    capacity = world.capacity(queue.name, pair)
    for name in ("busy", "quiet"):
        world.add_local_queue(name, queue.name)
    world.submit("busy-1", "busy", {pair.resource: capacity}, flavor=pair.flavor)
    world.play()
    world.submit("busy-2", "busy", {pair.resource: capacity}, flavor=pair.flavor)
    world.submit("quiet-1", "quiet", {pair.resource: capacity}, flavor=pair.flavor)
    world.finish("busy-1")
    world.play()
    return tuple(world.story)


def _scopes(queue_set: QueueSet) -> Iterator[LintFinding]:
    if queue_set.configuration is None or queue_set.policy.admission_fair_sharing is not None:
        return
    for queue in queue_set.cluster_queues.values():
        if queue.uses_admission_fair_sharing:
            yield LintFinding(
                rule=ADMISSION_SCOPE_WITHOUT_EFFECT,
                subject=LintSubject(kind="ClusterQueue", name=queue.name),
                field="spec.admissionScope",
                message="it orders jobs by usage, and the Configuration has no admissionFairSharing",
            )
