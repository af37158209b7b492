"""The scheduling equivalence hash: workloads that the scheduler cannot tell apart have the same one.

When one of them does not fit, its equals in the same queue need not be tried. Only what scheduling looks at goes in. Called
when a workload is translated for the engine.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pykueue.api.rules.jobs import pod
from pykueue.api.scheme import Object
from pykueue.engine import values

_ENCODER = msgspec.json.Encoder(order="deterministic")


def of_workload(templates: Sequence[Object], pod_sets: Sequence[values.PodSet], effective_priority: int) -> str:
    """`templates` are the pod sets as the object has them, `pod_sets` what was counted of them."""
    shape = {
        "priority": effective_priority,
        "podSets": [
            {
                "name": pod_set.name,
                "spec": of_pod(template["template"]["spec"]),
                "count": pod_set.count,
                "requests": pod_set.requests,
                "minCount": pod_set.min_count,
                "topologyRequest": template.get("topologyRequest"),
            }
            for template, pod_set in zip(templates, pod_sets, strict=True)
        ],
    }
    return hashlib.sha256(_ENCODER.encode(shape)).hexdigest()[:16]


def of_pod(pod_spec: Object) -> Mapping[str, Any]:
    """The parts of a pod spec that decide where it may run."""
    shape = {name: pod_spec.get(name) for name in pod.ROLE_FIELDS}
    for name in ("initContainers", "containers"):
        shape[name] = [
            {"requests": (container.get("resources") or {}).get("requests"), "ports": container.get("ports")}
            for container in pod_spec.get(name) or ()
        ]
    if pod_spec.get("resources") is not None:
        shape["resources"] = pod_spec["resources"].get("requests")
    return shape
