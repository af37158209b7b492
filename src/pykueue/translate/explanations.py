"""The output of `pykueue explain`: the engine's `Explanation` as lines of text and as JSON.

Texts use Kueue's words where Kueue has them; quantities are written as Kubernetes writes them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import structs

from pykueue.api import times
from pykueue.engine import values
from pykueue.engine.explain.explanation import (
    Activate,
    CoverResources,
    CreateFlavors,
    DropChecks,
    DropRequests,
    Explanation,
    FewerPods,
    FlavorFit,
    HigherPriority,
    Holder,
    MoreQuota,
    Obstacle,
    PodSetFit,
    ReduceRequests,
    Remedy,
    ResourceFit,
    ResumeQueue,
    SelectNamespace,
    Standing,
    UseLocalQueue,
)
from pykueue.translate import amounts, messages, outcomes

ELSEWHERE = "a workload of another namespace"
"""Stands for the name of a workload that the user may not see."""
_MAX_NAMES = 5
_QUOTA_REMEDIES = (MoreQuota, CoverResources)

_OBSTACLES = {
    Obstacle.DEACTIVATED: "it is deactivated (spec.active is false)",
    Obstacle.ON_HOLD: "its job is on hold",
    Obstacle.ADMISSION_GATED: "an admission gate holds it back (annotation kueue.x-k8s.io/admission-gated-by)",
    Obstacle.HAS_VARIANTS: "its variants are queued, one for each flavor (concurrent admission)",
    Obstacle.WAITING_FOR_PODS: "it waits for replacement pods",
    Obstacle.LOCAL_QUEUE_MISSING: "its LocalQueue does not exist",
    Obstacle.LOCAL_QUEUE_STOPPED: "its LocalQueue is stopped",
    Obstacle.CLUSTER_QUEUE_MISSING: "the ClusterQueue of its LocalQueue does not exist",
}


def lines(explanation: Explanation, *, now_ns: int) -> Iterator[str]:
    yield headline(explanation)
    yield from details(explanation, now_ns=now_ns)


def advises_quota(explanation: Explanation) -> bool:
    return any(isinstance(remedy, _QUOTA_REMEDIES) for remedy in explanation.remedies)


def details(explanation: Explanation, *, now_ns: int, quota_note: str = "") -> Iterator[str]:
    """What follows the first line; the note is added to remedies that only add quota."""
    if explanation.standing in (Standing.QUEUED, Standing.INADMISSIBLE):
        yield from _pending(explanation, now_ns=now_ns)
    if explanation.remedies:
        yield ""
        yield "Any one of these would let it in now:"
        for remedy in explanation.remedies:
            note = f" ({quota_note})" if quota_note and isinstance(remedy, _QUOTA_REMEDIES) else ""
            yield f"  - {_remedy(remedy, explanation)}{note}"
    if explanation.repairs:
        yield ""
        subject = "this" if len(explanation.repairs) == 1 else "one of these"
        yield f"It needs {subject}, and is then admitted as soon as there is quota:"
        for alternative in explanation.repairs:
            yield f"  - {', and '.join(_remedy(remedy, explanation) for remedy in alternative)}"


def remedies(explanation: Explanation) -> list[str]:
    """What would let it in, one sentence each."""
    return [
        ", and ".join(_remedy(remedy, explanation) for remedy in together)
        for together in (*((remedy,) for remedy in explanation.remedies), *explanation.repairs)
    ]


def _pending(explanation: Explanation, *, now_ns: int) -> Iterator[str]:
    if explanation.pending is None:
        yield "It fits now and will be admitted at its turn."
    else:
        yield f"Why not now: {messages.pending(explanation.pending, outcomes.amount_text)}"
    yield from _ahead(explanation)
    for pod_set in explanation.pod_sets:
        yield ""
        yield from _pod_set(pod_set, now_ns)
    yield from _preemption(explanation, now_ns)
    if explanation.unschedulable:
        yield ""
        yield "Admitted, but no node is large enough for their pods:"
        for holder in explanation.unschedulable[:_MAX_NAMES]:
            yield f"  {_holder(holder, now_ns)}: delete it"


def _ahead(explanation: Explanation) -> Iterator[str]:
    stuck = explanation.stuck_ahead
    if others := tuple(key for key in explanation.ahead if key not in stuck):
        yield f"Ahead of it: {_named(others)}"
    if stuck:
        effect = "block the queue, which is StrictFIFO" if explanation.is_strict else "do not block it"
        yield f"Also ahead of it are workloads that can never start as things are, and {effect}: {_named(stuck)}"


def without_other_namespaces(explanation: Explanation, namespace: str) -> Explanation:
    """The explanation without the names of workloads outside the namespace."""
    prefix = f"{namespace}/"

    def key(name: values.WorkloadKey) -> values.WorkloadKey:
        return name if name.startswith(prefix) else values.WorkloadKey(ELSEWHERE)

    def holder(value: Holder) -> Holder:
        return structs.replace(value, workload=key(value.workload))

    def resource(fit: ResourceFit) -> ResourceFit:
        return structs.replace(fit, holders=tuple(map(holder, fit.holders)))

    def flavor(fit: FlavorFit) -> FlavorFit:
        return structs.replace(fit, resources=tuple(map(resource, fit.resources)))

    def pod_set(fit: PodSetFit) -> PodSetFit:
        return structs.replace(fit, flavors=tuple(map(flavor, fit.flavors)))

    return structs.replace(
        explanation,
        ahead=tuple(map(key, explanation.ahead)),
        stuck_ahead=tuple(map(key, explanation.stuck_ahead)),
        pod_sets=tuple(map(pod_set, explanation.pod_sets)),
        unschedulable=tuple(map(holder, explanation.unschedulable)),
        victims=tuple(structs.replace(victim, holder=holder(victim.holder)) for victim in explanation.victims),
        spared=tuple(structs.replace(spared, holder=holder(spared.holder)) for spared in explanation.spared),
    )


def headline(explanation: Explanation) -> str:
    name, queue = explanation.workload.key, explanation.cluster_queue
    match explanation.standing:
        case Standing.ADMITTED | Standing.RESERVED:
            assert explanation.admission is not None
            flavors = sorted({name for pod_set in explanation.admission.pod_sets for name in pod_set.flavors.values()})
            words = (
                "is admitted" if explanation.standing is Standing.ADMITTED else "holds quota, its checks are pending,"
            )
            return f"Workload {name} {words} in ClusterQueue {queue} on {', '.join(flavors) or 'no flavor'}."
        case Standing.OUTSIDE:
            why = _OBSTACLES[explanation.obstacle] if explanation.obstacle else "nothing leads it to a ClusterQueue"
            return f"Workload {name} is in no queue: {why}."
    position = f"{explanation.position} of {explanation.queue_length}"
    return f"Workload {name} is pending in ClusterQueue {queue}, {position} (priority {explanation.workload.priority})."


def _pod_set(pod_set: PodSetFit, now_ns: int) -> Iterator[str]:
    pods = "1 pod" if pod_set.count == 1 else f"{pod_set.count} pods"
    yield f"Pod set {pod_set.name} ({pods}) asks for {_quantities(pod_set.requests)}"
    for resource in pod_set.undeclared:
        yield f"  {resource}: not covered by the ClusterQueue"
    for flavor in pod_set.flavors:
        yield from _flavor(flavor, now_ns)


def _flavor(flavor: FlavorFit, now_ns: int) -> Iterator[str]:
    if flavor.mismatch is not None:
        yield f"  {flavor.flavor}: {messages.flavor_reason(flavor.mismatch, outcomes.amount_text)}"
        return
    yield f"  {flavor.flavor}: {'fits' if flavor.fits else 'short'}"
    for fit in flavor.resources:
        yield f"    {fit.resource}: {_amounts(fit)}"
        if fit.short and fit.holders:
            yield f"      held by {_holders(fit.holders, now_ns)}"


def _amounts(fit: ResourceFit) -> str:
    def text(amount: int) -> str:
        return messages.amount(fit.resource, amount, outcomes.amount_text)

    requested = f"{text(fit.requested)} asked, {text(fit.unused)} unused"
    limits = f"nominal {text(fit.nominal)}, at most {text(fit.capacity)}"
    return f"{requested}, {text(fit.short)} short ({limits})" if fit.short else f"{requested} ({limits})"


def _preemption(explanation: Explanation, now_ns: int) -> Iterator[str]:
    if explanation.victims:
        yield ""
        yield "To make room it would preempt:"
        for victim in explanation.victims:
            yield f"  {_holder(victim.holder, now_ns)}: {victim.reason.value}"
    if explanation.spared:
        yield ""
        yield "Not preempted:"
        for spared in explanation.spared[:_MAX_NAMES]:
            yield f"  {_holder(spared.holder, now_ns)}: {messages.refusal(spared.refusal)}"
        if len(explanation.spared) > _MAX_NAMES:
            yield f"  … and {len(explanation.spared) - _MAX_NAMES} more"


def _remedy(remedy: Remedy, explanation: Explanation) -> str:
    match remedy:
        case MoreQuota(amounts=short):
            parts = [
                f"{amounts.to_text(name.resource, amount)} more {name.resource} in flavor {name.flavor}"
                for name, amount in sorted(short.items())
            ]
            return f"raise the nominal quota of ClusterQueue {explanation.cluster_queue}: {', '.join(parts)}"
        case HigherPriority(priority=priority):
            return f"give it priority {priority} (it has {explanation.workload.priority})"
        case FewerPods(counts=counts):
            return f"ask for fewer pods: {', '.join(f'{count} in {name}' for name, count in counts.items())}"
        case ReduceRequests(amounts=limits):
            return f"ask for less: {'; '.join(_reduced(limits))}"
        case _:
            return _configuration_remedy(remedy, explanation)


def _reduced(limits: Mapping[values.PodSetName, Mapping[values.ResourceName, int]]) -> Iterator[str]:
    for name, requests in limits.items():
        parts = [
            f"at most {amounts.to_text(resource, amount)} {resource}" if amount else f"no {resource}"
            for resource, amount in requests.items()
        ]
        yield f"{' and '.join(parts)} in each pod of {name}"


def _configuration_remedy(remedy: Remedy, explanation: Explanation) -> str:
    queue = explanation.cluster_queue
    match remedy:
        case CoverResources(amounts=missing):
            quotas = ", ".join(
                f"{name} (nominalQuota {amounts.to_text(name, n)} or more)" for name, n in missing.items()
            )
            return f"add to coveredResources of ClusterQueue {queue}: {quotas}"
        case DropRequests(resources=resources):
            return f"ask for no {' and no '.join(resources)}"
        case SelectNamespace():
            return f"let ClusterQueue {queue} select all namespaces: spec.namespaceSelector: {{}}"
        case UseLocalQueue(names=names):
            return f"use LocalQueue {' or '.join(names)}"
        case ResumeQueue(local_queue=local_queue, cluster_queue=cluster_queue):
            commands = [f"`pykueue resume localqueue {local_queue}`"] if local_queue else []
            commands += [f"`pykueue resume clusterqueue {cluster_queue}`"] if cluster_queue else []
            return " and ".join(commands)
        case CreateFlavors(names=names):
            return f"create ResourceFlavor {' and '.join(names)}"
        case DropChecks(names=names):
            return f"take AdmissionCheck {' and '.join(names)} out of ClusterQueue {queue}"
        case Activate():
            return f"`pykueue resume workload {explanation.workload.key.partition('/')[2]}`"
    raise AssertionError(remedy)


def _holders(holders: tuple[Holder, ...], now_ns: int) -> str:
    named = ", ".join(_holder(holder, now_ns) for holder in holders[:_MAX_NAMES])
    return named if len(holders) <= _MAX_NAMES else f"{named} and {len(holders) - _MAX_NAMES} more"


def _holder(holder: Holder, now_ns: int) -> str:
    since = "" if holder.since_ns is None else f", for {age(now_ns - holder.since_ns)}"
    used = ", ".join(amounts.to_text(name.resource, amount) for name, amount in holder.usage.items())
    return f"{holder.workload} ({used}{since}, priority {holder.priority}, {holder.cluster_queue})"


def _named(keys: tuple[values.WorkloadKey, ...]) -> str:
    named = ", ".join(keys[:_MAX_NAMES])
    return named if len(keys) <= _MAX_NAMES else f"{named} and {len(keys) - _MAX_NAMES} more"


def _quantities(requests: Mapping[values.ResourceName, int]) -> str:
    return ", ".join(f"{name} {amounts.to_text(name, amount)}" for name, amount in requests.items()) or "nothing"


def age(elapsed_ns: int) -> str:
    """The age in its two largest units, as kubectl prints it."""
    seconds = max(0, elapsed_ns // 10**9)
    parts = _split(seconds, (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)))
    return "".join(list(parts)[:2]) or "0s"


def _split(seconds: int, units: Iterable[tuple[str, int]]) -> Iterator[str]:
    for unit, size in units:
        count, seconds = divmod(seconds, size)
        if count:
            yield f"{count}{unit}"


def as_json(explanation: Explanation) -> dict[str, Any]:
    """The output of `pykueue explain -o json`."""
    pending = explanation.pending
    return {
        "workload": explanation.workload.key,
        "priority": explanation.workload.priority,
        "standing": explanation.standing.value,
        "clusterQueue": explanation.cluster_queue,
        "obstacle": explanation.obstacle and explanation.obstacle.value,
        "admission": explanation.admission and outcomes.admission(explanation.admission),
        "position": explanation.position,
        "queueLength": explanation.queue_length,
        "ahead": list(explanation.ahead),
        "stuckAhead": list(explanation.stuck_ahead),
        "message": pending and messages.pending(pending, outcomes.amount_text),
        "podSets": [_pod_set_json(pod_set) for pod_set in explanation.pod_sets],
        "unschedulable": [_holder_json(holder) for holder in explanation.unschedulable],
        "preempts": [{**_holder_json(victim.holder), "reason": victim.reason.value} for victim in explanation.victims],
        "spared": [
            {**_holder_json(spared.holder), "reason": messages.refusal(spared.refusal)} for spared in explanation.spared
        ],
        "remedies": [_remedy_json(remedy) for remedy in explanation.remedies],
        "repairs": [[_remedy_json(remedy) for remedy in alternative] for alternative in explanation.repairs],
    }


def _pod_set_json(pod_set: PodSetFit) -> dict[str, Any]:
    return {
        "name": pod_set.name,
        "count": pod_set.count,
        "requests": {name: amounts.to_text(name, amount) for name, amount in pod_set.requests.items()},
        "undeclared": list(pod_set.undeclared),
        "flavors": [_flavor_json(flavor) for flavor in pod_set.flavors],
    }


def _flavor_json(flavor: FlavorFit) -> dict[str, Any]:
    mismatch = flavor.mismatch
    return {
        "name": flavor.flavor,
        "fits": flavor.fits,
        "mismatch": mismatch and messages.flavor_reason(mismatch, outcomes.amount_text),
        "resources": [_resource_json(fit) for fit in flavor.resources],
    }


def _resource_json(fit: ResourceFit) -> dict[str, Any]:
    named = {
        "requested": fit.requested,
        "unused": fit.unused,
        "nominal": fit.nominal,
        "capacity": fit.capacity,
        "short": fit.short,
    }
    return {
        "name": fit.resource,
        **{name: messages.amount(fit.resource, amount, outcomes.amount_text) for name, amount in named.items()},
        "holders": [_holder_json(holder) for holder in fit.holders],
    }


def _holder_json(holder: Holder) -> dict[str, Any]:
    return {
        "workload": holder.workload,
        "clusterQueue": holder.cluster_queue,
        "priority": holder.priority,
        "usage": _by_flavor_json(holder.usage),
        "since": None if holder.since_ns is None else times.from_ns(holder.since_ns),
    }


def _remedy_json(remedy: Remedy) -> dict[str, Any]:
    match remedy:
        case MoreQuota(amounts=short):
            return {"kind": "MoreQuota", "amounts": _by_flavor_json(short)}
        case HigherPriority(priority=priority):
            return {"kind": "HigherPriority", "priority": priority}
        case FewerPods(counts=counts):
            return {"kind": "FewerPods", "counts": dict(counts)}
        case CoverResources(amounts=missing):
            return {
                "kind": "CoverResources",
                "amounts": {name: amounts.to_text(name, n) for name, n in missing.items()},
            }
        case DropRequests(resources=resources):
            return {"kind": "DropRequests", "resources": list(resources)}
        case ReduceRequests(amounts=limits):
            by_pod_set = {
                pod_set: {name: amounts.to_text(name, amount) for name, amount in requests.items()}
                for pod_set, requests in limits.items()
            }
            return {"kind": "ReduceRequests", "amounts": by_pod_set}
        case UseLocalQueue(names=names):
            return {"kind": "UseLocalQueue", "names": list(names)}
        case ResumeQueue(local_queue=local_queue, cluster_queue=cluster_queue):
            return {"kind": "ResumeQueue", "localQueue": local_queue, "clusterQueue": cluster_queue}
        case CreateFlavors(names=names):
            return {"kind": "CreateFlavors", "names": list(names)}
        case DropChecks(names=names):
            return {"kind": "DropChecks", "names": list(names)}
        case SelectNamespace() | Activate():
            return {"kind": type(remedy).__name__}


def _by_flavor_json(usage: Mapping[values.FlavorResource, int]) -> dict[str, dict[str, str]]:
    nested: dict[str, dict[str, str]] = {}
    for name, amount in usage.items():
        nested.setdefault(name.flavor, {})[name.resource] = amounts.to_text(name.resource, amount)
    return nested
