"""The annotation `kueue.x-k8s.io/admission-gated-by` of jobs and Workloads.

It is set at creation; afterwards gates may only be removed.
"""

from pykueue.api.errors import FieldError
from pykueue.api.labels import ADMISSION_GATED_BY
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.scheme import Object

GATE_ADDED = "cannot add admission gate after creation"
ONLY_REMOVABLE = "can only remove gates, not add new ones"
_PATH = f"metadata.annotations[{ADMISSION_GATED_BY}]"
_LONGEST_NAME = 63


def gate_names(obj: Object) -> list[str]:
    value = reading.annotation(obj, ADMISSION_GATED_BY)
    if value is None:
        return []
    return [name.strip() for name in value.split(",")] if value.strip() else []


def check(obj: Object) -> list[FieldError]:
    value = reading.annotation(obj, ADMISSION_GATED_BY)
    if value is None:
        return []
    field_errors = []
    names: set[str] = set()
    for name in gate_names(obj):
        if not name:
            field_errors.append(faults.invalid(_PATH, value, "cannot contain empty gate names"))
        elif name in names:
            field_errors.append(faults.invalid(_PATH, value, f"duplicate gate name: {name}"))
        else:
            names.add(name)
            field_errors += syntax.check_domain_prefixed_path(_PATH, name)
            if len(name) > _LONGEST_NAME:
                field_errors.append(faults.too_long(_PATH, _LONGEST_NAME))
    return field_errors


def check_update(obj: Object, old: Object) -> list[FieldError]:
    new_value, old_value = reading.annotation(obj, ADMISSION_GATED_BY), reading.annotation(old, ADMISSION_GATED_BY)
    field_errors = []
    if new_value and not old_value:
        field_errors.append(faults.forbidden(_PATH, GATE_ADDED))
    if new_value and old_value and not set(gate_names(obj)) <= set(gate_names(old)):
        field_errors.append(faults.forbidden(_PATH, ONLY_REMOVABLE))
    return field_errors + check(obj)
