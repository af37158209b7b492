"""Pods by themselves and in groups: held back by a scheduling gate instead of a suspend field."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from pykueue.api import go_format
from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, go_numbers, reading, syntax
from pykueue.api.rules.jobs import frameworks, generic, management, topology
from pykueue.api.scheme import Object, Request, Verdict

MANAGED = "kueue.x-k8s.io/managed"
"""The label (value "true") and the finalizer of managed pods."""
ADMISSION_GATE = "kueue.x-k8s.io/admission"
TOPOLOGY_GATE = "kueue.x-k8s.io/topology"
SUSPENDING_PARENT = "kueue.x-k8s.io/pod-suspending-parent"
GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
GROUP_TOTAL_COUNT = "kueue.x-k8s.io/pod-group-total-count"
ROLE_HASH = "kueue.x-k8s.io/role-hash"
RETRIABLE = "kueue.x-k8s.io/retriable-in-group"
INDEX_LABEL = "kueue.x-k8s.io/pod-group-pod-index"
INDEX_LABEL_ANNOTATION = "kueue.x-k8s.io/pod-group-pod-index-label"

ROLE_FIELDS = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "runtimeClassName",
    "priority",
    "topologySpreadConstraints",
    "overhead",
    "resourceClaims",
)
"""What, besides its containers, makes a pod play another role in its group."""

OWNER_IS_MANAGED = f"pod owner is managed by kueue, label '{MANAGED}=true' might lead to unexpected behaviour"
_FRAMEWORK = frameworks.POD
_COUNT_PATH = f"{generic.ANNOTATIONS}[{GROUP_TOTAL_COUNT}]"


def default(request: Request) -> list[str]:
    if request.operation != "CREATE":
        return []
    pod = request.object
    has_suspending_parent = SUSPENDING_PARENT in reading.annotations(pod)
    if not has_suspending_parent and not _take_over(request):
        return []
    metadata, spec = reading.inner(pod, "metadata"), reading.mapping(pod.get("spec"))
    if not has_suspending_parent and MANAGED not in reading.sequence(metadata.get("finalizers")):
        metadata["finalizers"] = [*reading.sequence(metadata.get("finalizers")), MANAGED]
    management.add_scheduling_gate(spec, ADMISSION_GATE)
    if management.is_on(request, "TopologyAwareScheduling"):
        index_label = reading.annotations(pod).get(INDEX_LABEL_ANNOTATION)
        if index_label is not None:
            management.set_label(pod, INDEX_LABEL, reading.labels(pod).get(index_label, ""))
        management.add_scheduling_gate(spec, TOPOLOGY_GATE)
    if ROLE_HASH not in reading.annotations(pod):
        frameworks.put(pod, ("metadata", "annotations", ROLE_HASH), value=role_hash(spec))
    return []


def validate(request: Request) -> Verdict:
    pod, old = request.object, request.old
    if old is None:
        found = generic.check_create(request, _FRAMEWORK)
    else:
        found = generic.check_update(request, _FRAMEWORK, old, is_suspended=_is_gated(pod))
    found += [
        *_check_managed_label(pod),
        *_check_group(request),
        *topology.check_template(
            request, topology.Template(path="metadata", annotations=reading.annotations(pod), count=1)
        ),
        *_check_prebuilt_workload(request),
    ]
    has_suspending_parent = SUSPENDING_PARENT in reading.annotations(pod)
    if old is not None:
        found += _check_group_change(request, old)
    warns = old is None or not has_suspending_parent
    return Verdict(denied=tuple(found), warnings=tuple(_warnings(request)) if warns else (), webhook=_FRAMEWORK.webhook)


def group_name(request: Request, pod: Object) -> tuple[str, str]:
    """The name of the pod's group, and the path of the label or annotation that gives it."""
    annotation = reading.annotations(pod).get(GROUP_NAME, "")
    if annotation and management.is_on(request, "WorkloadIdentifierAnnotations"):
        return annotation, f"{generic.ANNOTATIONS}[{GROUP_NAME}]"
    return reading.labels(pod).get(GROUP_NAME, ""), f"{generic.LABELS}[{GROUP_NAME}]"


def role_shape(spec: Object) -> Object:
    """What makes two pods of a group interchangeable, as Kueue writes it."""
    shape: Object = {
        "initContainers": _containers_shape(spec.get("initContainers")),
        "containers": _containers_shape(spec.get("containers")),
    }
    for field in ROLE_FIELDS:
        shape[field] = spec.get(field)
    if spec.get("resources") is not None:
        shape["resources"] = go_format.in_go_order(reading.at(spec, "resources", "requests"), "{quantity}")
    return shape


def role_hash(spec: Object) -> str:
    role = go_format.in_go_order(role_shape(spec), "PodSpec")
    text = json.dumps({"spec": dict(sorted(role.items()))}, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _containers_shape(containers: Any) -> list[Object] | None:
    shapes = [
        {"resources": {"requests": _canonical(reading.at(each, "resources", "requests"))}, "ports": each.get("ports")}
        for each in reading.mappings(containers)
    ]
    return shapes or None


def _canonical(requests: Any) -> dict[str, str] | None:
    return {name: str(amount) for name, amount in reading.amounts(requests).items()} or None


def _take_over(request: Request) -> bool:
    """Fill in the labels of a pod that Kueue manages for its own sake; tell whether it does."""
    pod = request.object
    if not management.is_namespace_managed(request) or management.has_managed_ancestor(request):
        return False
    if not management.queue_name(pod) and management.default_queue_exists(request):
        management.set_label(pod, management.QUEUE_NAME, "default")
    management.apply_default_priority_class(request)
    if not management.queue_name(pod) and not request.settings.manage_jobs_without_queue_name:
        return False
    management.set_label(pod, MANAGED, "true")
    return True


def _is_gated(pod: Object) -> bool:
    gates = reading.mappings(reading.at(pod, "spec", "schedulingGates"))
    return any(gate.get("name") == ADMISSION_GATE for gate in gates)


def _warnings(request: Request) -> Iterator[str]:
    is_labelled = reading.labels(request.object).get(MANAGED) == "true"
    if is_labelled and management.is_owner_managed(request, request.object):
        yield OWNER_IS_MANAGED


def _check_managed_label(pod: Object) -> list[FieldError]:
    if reading.labels(pod).get(MANAGED, "true") == "true":
        return []
    return [faults.forbidden(f"{generic.LABELS}[{MANAGED}]", "managed label value can only be 'true'")]


def _check_group(request: Request) -> Iterator[FieldError]:
    pod = request.object
    name, path = group_name(request, pod)
    count = reading.annotations(pod).get(GROUP_TOTAL_COUNT)
    where = "annotation" if path.startswith(generic.ANNOTATIONS) else "label"
    both = f"both the '{GROUP_TOTAL_COUNT}' annotation and the '{GROUP_NAME}' {where} should be set"
    if not name:
        if count is not None:
            yield faults.required(path, both)
        return
    if explanations := syntax.dns_subdomain(name):
        yield faults.invalid(path, name, ",".join(explanations))
    if count is None:
        yield faults.required(_COUNT_PATH, both)
    else:
        yield from _check_total_count(count)


def _check_total_count(text: str) -> Iterator[FieldError]:
    try:
        count = go_numbers.atoi(text)
    except go_numbers.GoSyntaxError as error:
        yield faults.invalid(_COUNT_PATH, text, str(error))
        return
    if count < 1:
        detail = (
            f"incorrect annotation value '{GROUP_TOTAL_COUNT}={text}': group total count should be greater than zero"
        )
        yield faults.invalid(_COUNT_PATH, text, detail)


def _check_prebuilt_workload(request: Request) -> list[FieldError]:
    name, path = generic.prebuilt_workload(request, request.object)
    group, _ = group_name(request, request.object)
    if not name or not group or name == group:
        return []
    return [faults.invalid(path, name, "prebuilt workload and pod group should be equal")]


def _check_group_change(request: Request, old: Object) -> Iterator[FieldError]:
    name, path = group_name(request, request.object)
    was_final, is_final = (reading.annotations(each).get(RETRIABLE) == "false" for each in (old, request.object))
    if name and was_final and not is_final:
        detail = "unretriable pod group can't be converted to retriable"
        yield faults.forbidden(f"{generic.ANNOTATIONS}[{RETRIABLE}]", detail)
    before, _ = group_name(request, old)
    if before:
        yield from faults.changed(path, name, before)
