"""How a Go client prints a part of an object inside an error: its own field order, and a few fields even when empty.

Used where Kueue shows a whole pod set or admission that must not change.
"""

from collections.abc import Mapping
from typing import Any

_Shape = Mapping[str, Any]
"""Field name to the shape of its value, in Go's order; None prints as it is, SORTED is a map with sorted keys."""

_SORTED: _Shape = {}

_CONTAINER: _Shape = {
    "name": None,
    "image": None,
    "command": None,
    "args": None,
    "workingDir": None,
    "ports": None,
    "envFrom": None,
    "env": None,
    "resources": {"limits": _SORTED, "requests": _SORTED, "claims": None},
    "resizePolicy": None,
    "restartPolicy": None,
    "restartPolicyRules": None,
    "volumeMounts": None,
    "volumeDevices": None,
    "livenessProbe": None,
    "readinessProbe": None,
    "startupProbe": None,
    "lifecycle": None,
    "terminationMessagePath": None,
    "terminationMessagePolicy": None,
    "imagePullPolicy": None,
    "securityContext": None,
    "stdin": None,
    "stdinOnce": None,
    "tty": None,
}
_POD_SPEC: _Shape = {
    "volumes": None,
    "initContainers": _CONTAINER,
    "containers": _CONTAINER,
    "ephemeralContainers": None,
    "restartPolicy": None,
    "terminationGracePeriodSeconds": None,
    "activeDeadlineSeconds": None,
    "dnsPolicy": None,
    "nodeSelector": _SORTED,
    "serviceAccountName": None,
    "serviceAccount": None,
    "automountServiceAccountToken": None,
    "nodeName": None,
    "hostNetwork": None,
    "hostPID": None,
    "hostIPC": None,
    "shareProcessNamespace": None,
    "securityContext": None,
    "imagePullSecrets": None,
    "hostname": None,
    "subdomain": None,
    "affinity": None,
    "schedulerName": None,
    "tolerations": {"key": None, "operator": None, "value": None, "effect": None, "tolerationSeconds": None},
    "hostAliases": None,
    "priorityClassName": None,
    "priority": None,
    "dnsConfig": None,
    "readinessGates": None,
    "runtimeClassName": None,
    "enableServiceLinks": None,
    "preemptionPolicy": None,
    "overhead": _SORTED,
    "topologySpreadConstraints": None,
    "setHostnameAsFQDN": None,
    "os": None,
    "hostUsers": None,
    "schedulingGates": None,
    "resourceClaims": None,
    "resources": {"limits": _SORTED, "requests": _SORTED, "claims": None},
}
POD_SET: _Shape = {
    "name": None,
    "template": {"metadata": {"name": None, "labels": _SORTED, "annotations": _SORTED}, "spec": _POD_SPEC},
    "topologyRequest": None,
    "count": None,
    "minCount": None,
}
ADMISSION: _Shape = {
    "clusterQueue": None,
    "podSetAssignments": {
        "name": None,
        "flavors": _SORTED,
        "resourceUsage": _SORTED,
        "count": None,
        "topologyAssignment": None,
        "delayedTopologyRequest": None,
    },
}
POD_SET_UPDATE: _Shape = {
    "name": None,
    "labels": _SORTED,
    "annotations": _SORTED,
    "nodeSelector": _SORTED,
    "tolerations": None,
}

_TOLERATION = _POD_SPEC["tolerations"]
ROLE: _Shape = {
    "spec": {
        "affinity": None,
        "containers": {"ports": None, "resources": {"requests": _SORTED}},
        "initContainers": {"ports": None, "resources": {"requests": _SORTED}},
        "nodeSelector": _SORTED,
        "overhead": _SORTED,
        "priority": None,
        "resourceClaims": None,
        "resources": _SORTED,
        "runtimeClassName": None,
        "tolerations": _TOLERATION,
        "topologySpreadConstraints": None,
    }
}

_ALWAYS_PRINTED = (("metadata", POD_SET["template"]), ("resources", _CONTAINER))


def as_go_prints(value: Any, shape: _Shape | None) -> Any:
    if shape is None or value is None:
        return value
    if isinstance(value, list):
        return [as_go_prints(item, shape) for item in value]
    if not isinstance(value, dict):
        return value
    if shape is _SORTED:
        return dict(sorted(value.items()))
    empty: dict[str, Any] = {name: {} for name, owner in _ALWAYS_PRINTED if owner is shape}
    known = {name: as_go_prints((empty | value)[name], inner) for name, inner in shape.items() if name in empty | value}
    return known | {name: item for name, item in value.items() if name not in known}
