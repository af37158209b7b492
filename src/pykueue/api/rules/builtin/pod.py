"""Pods: defaults of the type, the built-in admission plugins, and what an update may change.

The plugins run before Kueue's webhook, as in Kubernetes, so that role hashes include priority and
tolerations.
"""

from collections.abc import Callable, Iterator, Mapping

from pykueue.api import errors, resource_lists, resources
from pykueue.api.errors import FieldError
from pykueue.api.json_copy import copied
from pykueue.api.quantity import Quantity
from pykueue.api.rules import faults, reading
from pykueue.api.rules.builtin import (
    containers,
    pod_annotations,
    pod_resources,
    pod_spec,
    pod_update,
    scheduling,
)
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

_SYSTEM_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_LIMIT_RANGER = "kubernetes.io/limit-ranger"
_UNTIMED_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def default(request: AdmissionRequest) -> None:
    spec = request.object.get("spec")
    if request.subresource == "ephemeralcontainers":
        for container in reading.mappings(reading.mapping(spec).get("ephemeralContainers")):
            pod_spec.default_container(container)
        return
    if (
        request.subresource
        or not isinstance(spec, dict)
        or not reading.has_changed(request.object, request.old, "spec")
    ):
        return
    pod_spec.default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in _containers(spec):
        _take_requests_from_limits(container)
    pod_resources.default_pod_requests(spec)
    if request.operation == "CREATE":
        _apply_limit_ranges(request, spec)
        _apply_runtime_class(request, spec)
        if spec.get("serviceAccountName") in (None, ""):
            spec["serviceAccountName"] = spec["serviceAccount"] = "default"
        _apply_priority(request, spec)
        _add_default_tolerations(spec)
        request.object.setdefault("status", {"phase": "Pending", "qosClass": qos_class(spec)})


def select_by_own_labels(request: AdmissionRequest) -> None:
    """Complete the selectors of a new pod, as the API server does after all admission."""
    spec = request.object.get("spec")
    if request.operation == "CREATE" and isinstance(spec, dict):
        scheduling.select_by_own_labels(spec, reading.labels(request.object))


def validate(request: AdmissionRequest) -> ValidationResult:
    old, spec = request.old, reading.mapping(request.object.get("spec"))
    if request.subresource == "binding" and old is not None:
        pod_update.check_binding(request.object, old)
    if request.subresource not in _CHECKED_SUBRESOURCES:
        return ValidationResult()
    field_errors = [*_check_annotations(request.object, old)]
    if not reading.has_changed(request.object, old, "spec"):
        return ValidationResult(invalid=tuple(field_errors))
    field_errors += pod_spec.check_pod_spec("spec", spec, pod_name=_name(request), is_pod=True)
    for name in ("containers", "initContainers"):
        for index, container in enumerate(reading.mappings(spec.get(name))):
            field_errors += containers.check_image_text(f"spec.{name}[{index}]", container)
    if old is not None:
        before = reading.mapping(old.get("spec"))
        if request.subresource == "ephemeralcontainers" and pod_annotations.MIRROR_POD in reading.annotations(old):
            error = faults.forbidden("", "static pods do not support ephemeral containers")
            return ValidationResult(invalid=(error,))
        field_errors += _CHECKED_SUBRESOURCES[request.subresource](spec, before)
        if request.subresource == "resize" and qos_class(spec) != qos_class(before):
            detail = "Pod QOS Class may not change as a result of resizing"
            field_errors.append(faults.invalid("spec", qos_class(before), detail))
        return ValidationResult(invalid=tuple(field_errors))
    field_errors += _check_new(spec)
    field_errors += pod_annotations.check_profiles("spec", reading.annotations(request.object), spec)
    if not field_errors:
        _enforce_limit_ranges(request, spec)
        _enforce_overhead(request, spec)
    return ValidationResult(invalid=tuple(field_errors))


_CHECKED_SUBRESOURCES: Mapping[str, Callable[[Object, Object], Iterator[FieldError]]] = {
    "": pod_update.check_update,
    "resize": pod_update.check_resize,
    "ephemeralcontainers": pod_update.check_ephemeral_containers,
}
"""The writes that may change a pod's spec, and what each may change."""


def _check_annotations(pod: Object, old: Object | None) -> Iterator[FieldError]:
    annotations, before = reading.annotations(pod), reading.annotations(old or {})
    if old is not None and annotations == before:
        return
    yield from pod_annotations.check("metadata.annotations", annotations, reading.mapping(pod.get("spec")))
    if old is not None:
        yield from pod_annotations.check_update(annotations, before)


def _check_new(spec: Object) -> Iterator[FieldError]:
    if reading.sequence(spec.get("ephemeralContainers")):
        yield faults.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and reading.sequence(spec.get("schedulingGates")):
        yield faults.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def qos_class(spec: Object) -> str:
    amounts = []
    for container in _containers(spec):
        resources = reading.mapping(container.get("resources"))
        for name in ("cpu", "memory"):
            request = reading.amount(reading.at(resources, "requests", name))
            amounts.append((request, reading.amount(reading.at(resources, "limits", name))))
    if not any(request or limit for request, limit in amounts):
        return "BestEffort"
    if all(request and limit and request.nano == limit.nano for request, limit in amounts):
        return "Guaranteed"
    return "Burstable"


def _containers(spec: Object) -> list[Object]:
    return [*reading.mappings(spec.get("containers")), *reading.mappings(spec.get("initContainers"))]


def _take_requests_from_limits(container: Object) -> None:
    resources = reading.mapping(container.get("resources"))
    if isinstance(resources.get("limits"), dict):
        resources["requests"] = resources["limits"] | reading.mapping(resources.get("requests"))


def _apply_limit_ranges(request: AdmissionRequest, spec: Object) -> None:
    defaults: Object = {}
    requests: Object = {}
    for item in _limit_items(request, "Container"):
        defaults |= reading.mapping(item.get("default"))
        requests |= reading.mapping(item.get("defaultRequest"))
    if not defaults and not requests:
        return
    notes = []
    for field, noun in (("containers", "container"), ("initContainers", "init container")):
        for container in reading.mappings(spec.get(field)):
            resources = reading.ensure_mapping(container, "resources")
            for name, limit_range_values, word in (("requests", requests, "request"), ("limits", defaults, "limit")):
                own = reading.mapping(resources.get(name))
                if added := sorted(limit_range_values.keys() - own.keys()):
                    resources[name] = {**limit_range_values, **own}
                    notes.append(f"{', '.join(added)} {word} for {noun} {container.get('name')}")
    if notes:
        annotations = reading.ensure_mapping(reading.ensure_mapping(request.object, "metadata"), "annotations")
        annotations[_LIMIT_RANGER] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _limit_items(request: AdmissionRequest, kind: str) -> Iterator[Object]:
    for limit_range in request.lookup.list(resources.LIMIT_RANGE, reading.namespace(request.object)):
        for item in reading.mappings(reading.at(limit_range, "spec", "limits")):
            if item.get("type") == kind:
                yield item


def _apply_priority(request: AdmissionRequest, spec: Object) -> None:
    name = reading.text(spec.get("priorityClassName"))
    priority_class = _priority_class(request, name)
    if name and priority_class is None:
        why = f"no PriorityClass with name {name} was found"
        raise errors.forbidden("", "pods", _name(request), why)
    if priority_class is None:
        priority, policy = 0, "PreemptLowerPriority"
    else:
        spec["priorityClassName"] = reading.text(reading.at(priority_class, "metadata", "name"))
        priority = reading.integer(priority_class.get("value"))
        policy = reading.text(priority_class.get("preemptionPolicy")) or "PreemptLowerPriority"
    priority_in_spec = spec.get("priority", priority)
    if priority_in_spec != priority:
        why = (
            f"the integer value of priority ({priority_in_spec}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name"
        )
        raise errors.forbidden("", "pods", _name(request), why)
    spec["priority"] = priority
    spec.setdefault("preemptionPolicy", policy)


def _priority_class(request: AdmissionRequest, name: str) -> Object | None:
    if name in _SYSTEM_PRIORITIES:
        return {"metadata": {"name": name}, "value": _SYSTEM_PRIORITIES[name]}
    if name:
        return request.lookup.get(resources.PRIORITY_CLASS, "", name)
    defaults = [
        priority_class
        for priority_class in request.lookup.list(resources.PRIORITY_CLASS)
        if priority_class.get("globalDefault") is True
    ]
    return min(defaults, key=lambda priority_class: reading.integer(priority_class.get("value")), default=None)


def _name(request: AdmissionRequest) -> str:
    return reading.text(reading.at(request.object, "metadata", "name"))


def _add_default_tolerations(spec: Object) -> None:
    tolerations = reading.sequence(spec.get("tolerations"))
    for taint in _UNTIMED_TAINTS:
        if not any(_tolerates_eviction(reading.mapping(toleration), taint) for toleration in tolerations):
            added = {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations = [*tolerations, added]
    spec["tolerations"] = tolerations


def _tolerates_eviction(toleration: Object, taint: str) -> bool:
    return toleration.get("key") in (taint, None, "") and toleration.get("effect") in ("NoExecute", None, "")


def _enforce_limit_ranges(request: AdmissionRequest, spec: Object) -> None:
    broken: list[str] = []
    for item in _limit_items(request, "Container"):
        for container in _containers(spec):
            resources = reading.mapping(container.get("resources"))
            requests, limits = (reading.amounts(resources.get(name)) for name in ("requests", "limits"))
            broken += _broken_bounds("Container", item, requests, limits)
    for item in _limit_items(request, "Pod"):
        requests = resource_lists.pod_requests(spec)
        limits = resource_lists.pod_limits(spec)
        broken += _broken_bounds("Pod", item, requests, limits)
    if broken:
        why = broken[0] if len(broken) == 1 else f"[{', '.join(broken)}]"
        raise errors.forbidden("", "pods", _name(request), why)


def _broken_bounds(
    noun: str, item: Object, requests: dict[str, Quantity], limits: dict[str, Quantity]
) -> Iterator[str]:
    for name, least in reading.amounts(item.get("min")).items():
        start = f"minimum {name} usage per {noun} is {least}"
        if name not in requests:
            yield f"{start}.  No request is specified"
        elif requests[name].nano < least.nano:
            yield f"{start}, but request is {requests[name]}"
        elif name in limits and limits[name].nano < least.nano:
            yield f"{start}, but limit is {limits[name]}"
    for name, most in reading.amounts(item.get("max")).items():
        start = f"maximum {name} usage per {noun} is {most}"
        if name not in limits:
            yield f"{start}.  No limit is specified"
        elif limits[name].nano > most.nano:
            yield f"{start}, but limit is {limits[name]}"
        elif name in requests and requests[name].nano > most.nano:
            yield f"{start}, but request is {requests[name]}"
    yield from _broken_ratios(noun, item, requests, limits)


def _broken_ratios(
    noun: str, item: Object, requests: dict[str, Quantity], limits: dict[str, Quantity]
) -> Iterator[str]:
    for name, ratio in reading.amounts(item.get("maxLimitRequestRatio")).items():
        start = f"{name} max limit to request ratio per {noun} is {ratio}"
        if name not in requests or not requests[name].nano:
            yield f"{start}, but no request is specified or request is 0"
        elif name not in limits or not limits[name].nano:
            yield f"{start}, but no limit is specified or limit is 0"
        elif limits[name].nano * 10**9 > ratio.nano * requests[name].nano:
            yield f"{start}, but provided ratio is {limits[name].nano / requests[name].nano:f}"


# RuntimeClass


def _apply_runtime_class(request: AdmissionRequest, spec: Object) -> None:
    """Set overhead, node selector and tolerations of the pod's RuntimeClass."""
    runtime_class = _runtime_class(request, spec)
    overhead = reading.mapping(reading.at(runtime_class, "overhead", "podFixed"))
    if overhead and not spec.get("overhead"):
        spec["overhead"] = dict(overhead)
        pod_spec.write_canonically(spec, "overhead")
    placement = reading.mapping(reading.at(runtime_class, "scheduling"))
    for key, value in reading.text_map(placement.get("nodeSelector")).items():
        present = reading.ensure_mapping(spec, "nodeSelector").setdefault(key, value)
        if present != value:
            where = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {present}"
            raise errors.forbidden("", "pods", _name(request), f"conflict: {where}")
    tolerations = reading.sequence(spec.get("tolerations"))
    added = [item for item in reading.sequence(placement.get("tolerations")) if item not in tolerations]
    if added:
        spec["tolerations"] = [*tolerations, *copied(added)]


def _runtime_class(request: AdmissionRequest, spec: Object) -> Object | None:
    name = reading.text(spec.get("runtimeClassName"))
    if not name:
        return None
    runtime_class = request.lookup.get(resources.RUNTIME_CLASS, "", name)
    if runtime_class is None:
        raise errors.forbidden("", "pods", _name(request), f'pod rejected: RuntimeClass "{name}" not found')
    return runtime_class


def _enforce_overhead(request: AdmissionRequest, spec: Object) -> None:
    """The overhead of a pod is that of its RuntimeClass, or nothing."""
    runtime_class = _runtime_class(request, spec)
    fixed = reading.amounts(reading.at(runtime_class, "overhead", "podFixed"))
    own = reading.amounts(spec.get("overhead"))
    if not fixed and own:
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    elif {name: amount.nano for name, amount in fixed.items()} != {name: amount.nano for name, amount in own.items()}:
        why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    else:
        return
    raise errors.forbidden("", "pods", _name(request), why)
