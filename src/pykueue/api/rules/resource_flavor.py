"""ResourceFlavor: defaults and validation of its webhooks."""

from typing import Any

from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, quota, reading, syntax
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

READ_AS_NODE_LABELS = "spec.nodeSelector: read as spec.nodeLabels; write nodeLabels instead"
DUPLICATE_TAINTS = "taints must be unique by key and effect pair"


def default(request: AdmissionRequest) -> None:
    if request.operation == "CREATE":
        for taint in reading.mappings(reading.at(quota.ensure_spec(request.object), "nodeTaints")):
            taint.setdefault("key", "")
            taint.setdefault("effect", "")
        quota.add_finalizer(request.object)


def validate(request: AdmissionRequest) -> ValidationResult:
    spec = reading.mapping(request.object.get("spec"))
    field_errors = [
        *syntax.check_labels("spec.nodeLabels", reading.text_map(spec.get("nodeLabels"))),
        *_check_taints("spec.nodeTaints", spec.get("nodeTaints")),
        *check_tolerations("spec.tolerations", spec.get("tolerations")),
    ]
    return ValidationResult(denied=tuple(field_errors), webhook="vresourceflavor.kb.io")


def check_tolerations(path: str, tolerations: Any) -> list[FieldError]:
    """Check keys only: the other rules of tolerations are CEL rules of the schema."""
    field_errors = []
    for index, toleration in enumerate(reading.mappings(tolerations)):
        if key := reading.text(toleration.get("key")):
            field_errors += syntax.check_label_key(f"{path}[{index}].key", key)
    return field_errors


def read_node_selector(flavor: Object) -> list[str]:
    spec = flavor.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("nodeSelector"), dict):
        return []
    spec["nodeLabels"] = spec.pop("nodeSelector") | reading.mapping(spec.get("nodeLabels"))
    return [READ_AS_NODE_LABELS]


def _check_taints(path: str, taints: Any) -> list[FieldError]:
    field_errors = []
    keys_and_effects: set[tuple[str, str]] = set()
    for index, taint in enumerate(reading.mappings(taints)):
        here = f"{path}[{index}]"
        key, value, effect = (reading.text(taint.get(name)) for name in ("key", "value", "effect"))
        field_errors += syntax.check_label_key(f"{here}.key", key)
        if explanations := syntax.label_value(value):
            field_errors.append(faults.invalid(f"{here}.value", value, ";".join(explanations)))
        if (key, effect) in keys_and_effects:
            field_errors.append(faults.duplicate(here, _taint_value(taint), DUPLICATE_TAINTS))
        keys_and_effects.add((key, effect))
    return field_errors


def _taint_value(taint: Object) -> Object:
    return {name: taint[name] for name in ("key", "value", "effect", "timeAdded") if name in taint}
