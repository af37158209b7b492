"""Kubernetes' rules of PodDisruptionBudgets, HorizontalPodAutoscalers and StorageClasses."""

import re
from collections.abc import Iterator
from typing import Any

from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

_PERCENT = re.compile(r"[0-9]{1,9}%")
_UNHEALTHY_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def validate_disruption_budget(request: AdmissionRequest) -> ValidationResult:
    if request.subresource:
        return ValidationResult()
    return ValidationResult(invalid=tuple(_disruption_budget(reading.mapping(request.object.get("spec")))))


def _disruption_budget(spec: Object) -> Iterator[FieldError]:
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        yield faults.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for name, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            yield from _count_or_percentage(f"spec.{name}", value)
    yield from syntax.check_label_selector("spec.selector", spec.get("selector") or {})
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _UNHEALTHY_POLICIES:
        yield faults.not_supported("spec.unhealthyPodEvictionPolicy", policy, _UNHEALTHY_POLICIES)


def _count_or_percentage(path: str, value: Any) -> Iterator[FieldError]:
    if isinstance(value, int):
        if value < 0:
            yield faults.invalid(path, value, faults.NEGATIVE)
    elif not isinstance(value, str) or not _PERCENT.fullmatch(value):
        detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%')"
        yield faults.invalid(path, value, detail)
    elif int(value[:-1]) > 100:
        yield faults.invalid(path, value, "must not be greater than 100%")


def default_autoscaler(request: AdmissionRequest) -> None:
    spec = reading.mapping(request.object.get("spec"))
    if spec and not request.subresource:
        spec.setdefault("minReplicas", 1)


def validate_autoscaler(request: AdmissionRequest) -> ValidationResult:
    if request.subresource:
        return ValidationResult()
    return ValidationResult(invalid=tuple(_autoscaler(reading.mapping(request.object.get("spec")))))


def _autoscaler(spec: Object) -> Iterator[FieldError]:
    target = reading.mapping(spec.get("scaleTargetRef"))
    for name in ("kind", "name"):
        if not target.get(name):
            yield faults.required(f"spec.scaleTargetRef.{name}")
    least, most = reading.integer(spec.get("minReplicas"), 1), reading.integer(spec.get("maxReplicas"))
    if least < 1:
        yield faults.invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield faults.invalid("spec.maxReplicas", most, "must be greater than 0")
    elif most < least:
        yield faults.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")


def default_storage_class(request: AdmissionRequest) -> None:
    request.object.setdefault("reclaimPolicy", "Delete")
    request.object.setdefault("volumeBindingMode", "Immediate")


def validate_storage_class(request: AdmissionRequest) -> ValidationResult:
    return ValidationResult(invalid=tuple(_storage_class(request.object, request.old)))


def _storage_class(storage_class: Object, old: Object | None) -> Iterator[FieldError]:
    if not storage_class.get("provisioner"):
        yield faults.required("provisioner")
    choices = {"reclaimPolicy": ("Delete", "Retain"), "volumeBindingMode": ("Immediate", "WaitForFirstConsumer")}
    for name, supported in choices.items():
        if storage_class.get(name) not in supported:
            yield faults.not_supported(name, storage_class.get(name), supported)
    if old is not None:
        for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            if (storage_class.get(name) or None) != (old.get(name) or None):
                yield faults.forbidden(name, f"updates to {name} are forbidden.")
