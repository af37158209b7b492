"""Conversions of Kubernetes' older API versions to the stored ones and back.

autoscaling/v1 knows a CPU target alone; other metrics are kept in the annotation that Kubernetes
uses. resource.k8s.io/v1beta1 writes the fields of `exactly` into the request itself, and those of
a device into `basic`; v1beta2 has the fields of v1.
"""

import json
from typing import Any

from pykueue.api import json_text, objects
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object

_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_CPU_TARGET, _CPU_NOW = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"
_OF_REQUEST = ("name", "firstAvailable")
"""The fields of a device request that v1beta1 and v1 have in the same place."""


def autoscaler_from_v1(obj: Object) -> Object:
    obj = copied(obj)
    obj["apiVersion"] = "autoscaling/v2"
    annotations = objects.nested(obj, "metadata", "annotations")
    metrics = _decoded(annotations.pop(_METRICS, ""))
    spec, status = objects.nested(obj, "spec"), objects.nested(obj, "status")
    if (percentage := spec.pop(_CPU_TARGET, None)) is not None:
        metrics.append(_cpu_metric("target", percentage))
    if metrics:
        spec["metrics"] = metrics
    if (percentage := status.pop(_CPU_NOW, None)) is not None:
        status["currentMetrics"] = [_cpu_metric("current", percentage)]
    return obj


def autoscaler_to_v1(obj: Object) -> Object:
    obj = copied(obj)
    obj["apiVersion"] = "autoscaling/v1"
    spec, status = objects.nested(obj, "spec"), objects.nested(obj, "status")
    others = []
    for metric in spec.pop("metrics", None) or ():
        percentage = _percentage(metric, "target")
        if percentage is None or _CPU_TARGET in spec:
            others.append(metric)
        else:
            spec[_CPU_TARGET] = percentage
    spec.pop("behavior", None)
    if others:
        obj["metadata"].setdefault("annotations", {})[_METRICS] = json.dumps(others, separators=(",", ":"))
    for metric in status.pop("currentMetrics", None) or ():
        if (percentage := _percentage(metric, "current")) is not None:
            status[_CPU_NOW] = percentage
    status.pop("conditions", None)
    return obj


def _decoded(text: str) -> list[Any]:
    try:
        metrics = json_text.decode_field(text) if text else []
    except ValueError:
        return []
    return metrics if isinstance(metrics, list) else []


def _cpu_metric(field: str, percentage: Any) -> Object:
    value: Object = {"averageUtilization": percentage}
    if field == "target":
        value["type"] = "Utilization"
    return {"type": "Resource", "resource": {"name": "cpu", field: value}}


def _percentage(metric: Any, field: str) -> Any:
    """The utilization of a CPU metric; None for other metrics."""
    if not isinstance(metric, dict) or objects.nested(metric, "resource").get("name") != "cpu":
        return None
    return objects.nested(metric, "resource", field).get("averageUtilization")


def devices_from_v1beta1(obj: Object) -> Object:
    """A ResourceClaim, ResourceClaimTemplate, ResourceSlice or DeviceClass in version v1."""
    obj = copied(obj)
    obj["apiVersion"] = "resource.k8s.io/v1"
    for request in _requests(obj):
        exactly = {name: request.pop(name) for name in [*request] if name not in _OF_REQUEST}
        if exactly:
            request["exactly"] = exactly
    for device in objects.nested_list(obj, "spec", "devices") if obj.get("kind") == "ResourceSlice" else ():
        device.update(device.pop("basic", None) or {})
    return obj


def devices_to_v1beta1(obj: Object) -> Object:
    obj = copied(obj)
    obj["apiVersion"] = "resource.k8s.io/v1beta1"
    for request in _requests(obj):
        request.update(request.pop("exactly", None) or {})
    for device in objects.nested_list(obj, "spec", "devices") if obj.get("kind") == "ResourceSlice" else ():
        device["basic"] = {name: device.pop(name) for name in [*device] if name != "name"}
    return obj


def _requests(obj: Object) -> list[Object]:
    """The device requests of a claim, or of the claim in a template."""
    match obj.get("kind"):
        case "ResourceClaim":
            return objects.nested_list(obj, "spec", "devices", "requests")
        case "ResourceClaimTemplate":
            return objects.nested_list(obj, "spec", "spec", "devices", "requests")
    return []


def devices_from_v1beta2(obj: Object) -> Object:
    return {**obj, "apiVersion": "resource.k8s.io/v1"}


def devices_to_v1beta2(obj: Object) -> Object:
    return {**obj, "apiVersion": "resource.k8s.io/v1beta2"}
