"""An explanation in words: what a person reads after `pykueue explain`.

Pure: the engine's `Explanation` and the time go in, lines come out. The words of Kueue are used where it has them.
"""

from collections.abc import Iterable, Iterator, Mapping

from pykueue.engine import values
from pykueue.engine.explain.explanation import (
    Explanation,
    FewerPods,
    FlavorFit,
    HigherPriority,
    Holder,
    MoreQuota,
    Obstacle,
    PodSetFit,
    Remedy,
    ResourceFit,
    Standing,
)
from pykueue.translate import amounts, messages, outcomes

_MOST_NAMED = 5

_OBSTACLES = {
    Obstacle.DEACTIVATED: "it is deactivated (spec.active is false)",
    Obstacle.ON_HOLD: "its job is on hold",
    Obstacle.ADMISSION_GATED: "an admission gate holds it back (annotation kueue.x-k8s.io/admission-gated-by)",
    Obstacle.WAITING_FOR_PODS: "it waits for replacement pods",
    Obstacle.LOCAL_QUEUE_MISSING: "its LocalQueue does not exist",
    Obstacle.LOCAL_QUEUE_STOPPED: "its LocalQueue is stopped",
    Obstacle.CLUSTER_QUEUE_MISSING: "the ClusterQueue of its LocalQueue does not exist",
}


def lines(explanation: Explanation, *, now_ns: int) -> Iterator[str]:
    yield _headline(explanation)
    if explanation.standing not in (Standing.QUEUED, Standing.INADMISSIBLE):
        return
    if explanation.pending is None:
        yield "It fits now and will be admitted at its turn."
    else:
        yield f"Why not now: {messages.pending(explanation.pending, outcomes.shown)}"
    if explanation.ahead:
        yield f"Ahead of it: {_named(explanation.ahead)}"
    for pod_set in explanation.pod_sets:
        yield ""
        yield from _pod_set(pod_set, now_ns)
    yield from _preemption(explanation, now_ns)
    if explanation.remedies:
        yield ""
        yield "Any one of these would let it in now:"
        yield from (f"  - {_remedy(remedy, explanation)}" for remedy in explanation.remedies)


def _headline(explanation: Explanation) -> str:
    name, queue = explanation.workload.key, explanation.cluster_queue
    match explanation.standing:
        case Standing.FINISHED:
            return f"Workload {name} has finished."
        case Standing.ADMITTED | Standing.RESERVED:
            assert explanation.admission is not None
            flavors = sorted({flavor for each in explanation.admission.pod_sets for flavor in each.flavors.values()})
            words = (
                "is admitted" if explanation.standing is Standing.ADMITTED else "holds quota, its checks are pending,"
            )
            return f"Workload {name} {words} in ClusterQueue {queue} on {', '.join(flavors) or 'no flavor'}."
        case Standing.OUTSIDE:
            why = _OBSTACLES[explanation.obstacle] if explanation.obstacle else "nothing leads it to a ClusterQueue"
            return f"Workload {name} is in no queue: {why}."
    parked = ", parked until something changes" if explanation.standing is Standing.INADMISSIBLE else ""
    place = f"{explanation.position} of {explanation.queue_length}"
    return f"Workload {name} is pending in ClusterQueue {queue}, {place}{parked} (priority {explanation.workload.priority})."


def _pod_set(pod_set: PodSetFit, now_ns: int) -> Iterator[str]:
    yield f"Pod set {pod_set.name} ({pod_set.count} pods) asks for {_quantities(pod_set.requests)}"
    for resource in pod_set.undeclared:
        yield f"  {resource}: not covered by the ClusterQueue"
    for flavor in pod_set.flavors:
        yield from _flavor(flavor, now_ns)


def _flavor(flavor: FlavorFit, now_ns: int) -> Iterator[str]:
    if flavor.mismatch is not None:
        yield f"  {flavor.flavor}: {messages.flavor_reason(flavor.mismatch, outcomes.shown)}"
        return
    yield f"  {flavor.flavor}: {'fits' if flavor.fits else 'short'}"
    for fit in flavor.resources:
        yield f"    {fit.resource}: {_amounts(fit)}"
        if fit.short and fit.holders:
            yield f"      held by {_holders(fit.holders, now_ns)}"


def _amounts(fit: ResourceFit) -> str:
    def shown(amount: int) -> str:
        return messages.amount(fit.resource, amount, outcomes.shown)

    asked = f"{shown(fit.requested)} asked, {shown(fit.unused)} unused"
    known = f"nominal {shown(fit.nominal)}, at most {shown(fit.capacity)}"
    return f"{asked}, {shown(fit.short)} short ({known})" if fit.short else f"{asked} ({known})"


def _preemption(explanation: Explanation, now_ns: int) -> Iterator[str]:
    if explanation.victims:
        yield ""
        yield "To make room it would preempt:"
        for victim in explanation.victims:
            yield f"  {_holder(victim.holder, now_ns)}: {victim.reason.value}"
    if explanation.spared:
        yield ""
        yield "Not preempted:"
        for spared in explanation.spared[:_MOST_NAMED]:
            yield f"  {_holder(spared.holder, now_ns)}: {messages.refusal(spared.refusal)}"
        if len(explanation.spared) > _MOST_NAMED:
            yield f"  … and {len(explanation.spared) - _MOST_NAMED} more"


def _remedy(remedy: Remedy, explanation: Explanation) -> str:
    match remedy:
        case MoreQuota(amounts=short):
            parts = [
                f"{amounts.shown(name.resource, amount)} more {name.resource} in flavor {name.flavor}"
                for name, amount in sorted(short.items())
            ]
            return f"raise the nominal quota of ClusterQueue {explanation.cluster_queue}: {', '.join(parts)}"
        case HigherPriority(priority=priority):
            return f"give it priority {priority} (it has {explanation.workload.priority})"
        case FewerPods(counts=counts):
            return f"ask for fewer pods: {', '.join(f'{count} in {name}' for name, count in counts.items())}"


def _holders(holders: tuple[Holder, ...], now_ns: int) -> str:
    named = ", ".join(_holder(holder, now_ns) for holder in holders[:_MOST_NAMED])
    return named if len(holders) <= _MOST_NAMED else f"{named} and {len(holders) - _MOST_NAMED} more"


def _holder(holder: Holder, now_ns: int) -> str:
    since = "" if holder.since_ns is None else f", for {_age(now_ns - holder.since_ns)}"
    used = ", ".join(amounts.shown(name.resource, amount) for name, amount in holder.usage.items())
    return f"{holder.workload} ({used}{since}, priority {holder.priority}, {holder.cluster_queue})"


def _named(keys: tuple[values.WorkloadKey, ...]) -> str:
    named = ", ".join(keys[:_MOST_NAMED])
    return named if len(keys) <= _MOST_NAMED else f"{named} and {len(keys) - _MOST_NAMED} more"


def _quantities(requests: Mapping[values.ResourceName, int]) -> str:
    return ", ".join(f"{name} {amounts.shown(name, amount)}" for name, amount in requests.items()) or "nothing"


def _age(elapsed_ns: int) -> str:
    """The two greatest units, as kubectl shows ages."""
    seconds = max(0, elapsed_ns // 10**9)
    parts = _split(seconds, (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)))
    return "".join(list(parts)[:2]) or "0s"


def _split(seconds: int, units: Iterable[tuple[str, int]]) -> Iterator[str]:
    for unit, size in units:
        count, seconds = divmod(seconds, size)
        if count:
            yield f"{count}{unit}"
