"""An explanation as JSON, with quantities as Kubernetes writes them: `pykueue explain -o json`."""

from collections.abc import Mapping
from typing import Any

from pykueue.api import times
from pykueue.engine import values
from pykueue.engine.explain.explanation import (
    Explanation,
    FewerPods,
    FlavorFit,
    HigherPriority,
    Holder,
    MoreQuota,
    PodSetFit,
    Remedy,
    ResourceFit,
)
from pykueue.translate import amounts, messages, outcomes


def as_json(explanation: Explanation) -> dict[str, Any]:
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
        "message": pending and messages.pending(pending, outcomes.shown),
        "podSets": [_pod_set(pod_set) for pod_set in explanation.pod_sets],
        "preempts": [{**_holder(victim.holder), "reason": victim.reason.value} for victim in explanation.victims],
        "spared": [
            {**_holder(spared.holder), "reason": messages.refusal(spared.refusal)} for spared in explanation.spared
        ],
        "remedies": [_remedy(remedy) for remedy in explanation.remedies],
    }


def _pod_set(pod_set: PodSetFit) -> dict[str, Any]:
    return {
        "name": pod_set.name,
        "count": pod_set.count,
        "requests": {name: amounts.shown(name, amount) for name, amount in pod_set.requests.items()},
        "undeclared": list(pod_set.undeclared),
        "flavors": [_flavor(flavor) for flavor in pod_set.flavors],
    }


def _flavor(flavor: FlavorFit) -> dict[str, Any]:
    mismatch = flavor.mismatch
    return {
        "name": flavor.flavor,
        "fits": flavor.fits,
        "mismatch": mismatch and messages.flavor_reason(mismatch, outcomes.shown),
        "resources": [_resource(fit) for fit in flavor.resources],
    }


def _resource(fit: ResourceFit) -> dict[str, Any]:
    named = {
        "requested": fit.requested,
        "unused": fit.unused,
        "nominal": fit.nominal,
        "capacity": fit.capacity,
        "short": fit.short,
    }
    return {
        "name": fit.resource,
        **{name: messages.amount(fit.resource, amount, outcomes.shown) for name, amount in named.items()},
        "holders": [_holder(holder) for holder in fit.holders],
    }


def _holder(holder: Holder) -> dict[str, Any]:
    return {
        "workload": holder.workload,
        "clusterQueue": holder.cluster_queue,
        "priority": holder.priority,
        "usage": _by_flavor(holder.usage),
        "since": None if holder.since_ns is None else times.from_ns(holder.since_ns),
    }


def _remedy(remedy: Remedy) -> dict[str, Any]:
    match remedy:
        case MoreQuota(amounts=short):
            return {"kind": "MoreQuota", "amounts": _by_flavor(short)}
        case HigherPriority(priority=priority):
            return {"kind": "HigherPriority", "priority": priority}
        case FewerPods(counts=counts):
            return {"kind": "FewerPods", "counts": dict(counts)}


def _by_flavor(usage: Mapping[values.FlavorResource, int]) -> dict[str, dict[str, str]]:
    nested: dict[str, dict[str, str]] = {}
    for name, amount in usage.items():
        nested.setdefault(name.flavor, {})[name.resource] = amounts.shown(name.resource, amount)
    return nested
