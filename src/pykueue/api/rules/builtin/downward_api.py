"""Validation of references from variables and files to fields and resources of the pod."""

import re
from collections.abc import Iterable, Iterator

from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.scheme import Object

_VARIABLE_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_FILE_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_FIELDS = frozenset({*_VARIABLE_FIELDS, *_FILE_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"})
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES = ("requests.hugepages-", "limits.hugepages-")
_SUBSCRIPT = re.compile(r"(?s)(.*)\['(.*)'\]")
_SIZES = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_DIVISORS = {
    "cpu": (("1m", "1"), "cpu"),
    "memory": (_SIZES, "memory"),
    "ephemeral-storage": (_SIZES, "local ephemeral storage"),
}


def check_variable_field(path: str, reference: Object) -> Iterator[FieldError]:
    return _check_field(path, reference, _VARIABLE_FIELDS)


def check_volume_field(path: str, reference: Object) -> Iterator[FieldError]:
    return _check_field(path, reference, _FILE_FIELDS)


def _check_field(path: str, reference: Object, choices: Iterable[str]) -> Iterator[FieldError]:
    version, field = reading.text(reference.get("apiVersion")), reading.text(reference.get("fieldPath"))
    if not version:
        yield faults.required(f"{path}.apiVersion")
        return
    if not field:
        yield faults.required(f"{path}.fieldPath")
        return
    match = _SUBSCRIPT.fullmatch(field)
    name, subscript = (match.group(1), match.group(2)) if match else (field, None)
    if version != "v1":
        wrong = f"unsupported pod version: {version}"
    elif subscript is None and name not in _FIELDS:
        wrong = f"field label not supported: {name}"
    elif subscript is not None and name not in ("metadata.annotations", "metadata.labels"):
        wrong = f"field label does not support subscript: {field}"
    elif subscript is not None:
        key = subscript.lower() if name == "metadata.annotations" else subscript
        yield from (faults.invalid(path, key, explanation) for explanation in syntax.label_key(key))
        return
    elif name not in choices:
        yield faults.not_supported(f"{path}.fieldPath", name, choices)
        return
    else:
        return
    yield faults.invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {wrong}")


def check_resource(path: str, reference: Object, *, needs_container: bool) -> Iterator[FieldError]:
    resource = reading.text(reference.get("resource"))
    if needs_container and not reference.get("containerName"):
        yield faults.required(f"{path}.containerName")
    elif not resource:
        yield faults.required(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        yield faults.not_supported(f"{path}.resource", resource, _RESOURCES)
    divisor = reading.amount(reference.get("divisor"))
    name = resource.partition(".")[2]
    choices, noun = _DIVISORS.get(name, (_SIZES, "hugepages") if name.startswith("hugepages-") else ((), ""))
    if divisor is not None and divisor.nano and choices and str(divisor) not in choices:
        words = "1m and 1" if noun == "cpu" else ", ".join(choices)
        detail = f"only divisor's values {words} are supported with the {noun} resource"
        yield faults.invalid(f"{path}.divisor", resource, detail)
