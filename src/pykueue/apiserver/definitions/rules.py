"""What a CustomResourceDefinition must obey before it is stored: names, versions, schemas that can be worked with."""

import re
from collections.abc import Iterator
from typing import Any

from pykueue.api import schema_validation
from pykueue.api.errors import FieldError
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult
from pykueue.apiserver.definitions import kinds
from pykueue.apiserver.tables import jsonpath

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_TYPES = {"array", "boolean", "integer", "number", "object", "string"}
_DEEPEST = 100


def default(request: AdmissionRequest) -> None:
    """Fill in what Kubernetes fills in."""
    spec = request.object.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("names"), dict):
        return
    if isinstance(spec["names"].get("kind"), str):
        spec["names"] = kinds.preferred_names(request.object)
    spec.setdefault("conversion", {"strategy": "None"})


def validate(request: AdmissionRequest) -> ValidationResult:
    if request.subresource:
        return ValidationResult()
    return ValidationResult(invalid=tuple(_faults(request.object)))


def _faults(definition: Object) -> Iterator[FieldError]:
    spec = definition.get("spec")
    if not isinstance(spec, dict):
        yield FieldError("FieldValueRequired", "spec")
        return
    broken = list(_name_faults(definition, spec))
    versions = spec.get("versions")
    if not isinstance(versions, list) or not versions or not all(isinstance(each, dict) for each in versions):
        broken.append(FieldError("FieldValueRequired", "spec.versions", "at least one version is required"))
        versions = []
    yield from broken
    if broken:
        return
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield FieldError("FieldValueInvalid", "spec.versions", detail, [each.get("name") for each in versions])
    for position, version in enumerate(versions):
        yield from _version_faults(version, f"spec.versions[{position}]")


def _name_faults(definition: Object, spec: Object) -> Iterator[FieldError]:
    names = spec.get("names") if isinstance(spec.get("names"), dict) else {}
    assert isinstance(names, dict)
    for name in ("plural", "kind"):
        if not isinstance(names.get(name), str) or not names[name]:
            yield FieldError("FieldValueRequired", f"spec.names.{name}")
    if not isinstance(spec.get("group"), str) or not spec["group"]:
        yield FieldError("FieldValueRequired", "spec.group")
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        detail = 'supported values: "Cluster", "Namespaced"'
        yield FieldError("FieldValueNotSupported", "spec.scope", detail, spec.get("scope", ""))
    name = definition["metadata"].get("name", "")
    if name != f"{names.get('plural')}.{spec.get('group')}":
        yield FieldError("FieldValueInvalid", "metadata.name", 'must be spec.names.plural+"."+spec.group', name)
    plural = names.get("plural")
    if isinstance(plural, str) and not _LABEL.fullmatch(plural):
        yield FieldError("FieldValueInvalid", "spec.names.plural", "must be a lower-case DNS label", plural)


def _version_faults(version: Object, path: str) -> Iterator[FieldError]:
    name = version.get("name")
    if not isinstance(name, str) or not _LABEL.fullmatch(name):
        yield FieldError("FieldValueInvalid", f"{path}.name", "must be a lower-case DNS label", name)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not isinstance(schema, dict):
        yield FieldError("FieldValueRequired", f"{path}.schema.openAPIV3Schema", "schemas are required")
        return
    root = f"{path}.schema.openAPIV3Schema"
    broken = list(_schema_faults(schema, root, 0))
    if schema.get("type") != "object":
        broken.append(FieldError("FieldValueInvalid", f"{root}.type", "must be object at the root", schema.get("type")))
    yield from broken
    if not broken:
        yield from _rehearsal_faults(schema, root)
    for position, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _path_faults(column, f"{path}.additionalPrinterColumns[{position}]")


def _schema_faults(schema: Any, path: str, depth: int) -> Iterator[FieldError]:
    if not isinstance(schema, dict):
        yield FieldError("FieldValueTypeInvalid", path, "must be an object", schema)
        return
    if depth > _DEEPEST:
        yield FieldError("FieldValueForbidden", path, "nested too deeply")
        return
    kind = schema.get("type")
    is_free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if kind is None and not is_free:
        yield FieldError("FieldValueRequired", f"{path}.type", "must not be empty for specified object fields")
    elif kind is not None and kind not in _TYPES:
        detail = "supported values: " + ", ".join(f'"{each}"' for each in sorted(_TYPES))
        yield FieldError("FieldValueNotSupported", f"{path}.type", detail, kind)
    for name, below in (schema.get("properties") or {}).items():
        yield from _schema_faults(below, f"{path}.properties[{name}]", depth + 1)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from _schema_faults(schema[name], f"{path}.{name}", depth + 1)


def _rehearsal_faults(schema: Object, path: str) -> Iterator[FieldError]:
    """Use the schema once, so that one that we cannot work with is refused now and not on the first object."""
    try:
        schema_validation.validate(schema, {"metadata": {}})
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the user must hear of it here
        yield FieldError("FieldValueInvalid", path, f"the schema cannot be used: {error}", "")


def _path_faults(column: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(column, dict) or not isinstance(column.get("jsonPath"), str) or not column.get("name"):
        yield FieldError("FieldValueRequired", f"{path}.jsonPath")
        return
    try:
        jsonpath.compile_path(column["jsonPath"])
    except jsonpath.PathError as error:
        yield FieldError("FieldValueInvalid", f"{path}.jsonPath", f"{error}", column["jsonPath"])
