"""Defaults and validation of CustomResourceDefinitions: names, versions, usable schemas."""

import re
from collections.abc import Iterator
from typing import Any

from pykueue.api import schema_validation
from pykueue.api.errors import FieldError
from pykueue.api.rules import reading
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult
from pykueue.apiserver.definitions import custom_kinds, schema_types
from pykueue.apiserver.tables import jsonpath

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")


def default(request: AdmissionRequest) -> None:
    """Set the defaults that Kubernetes sets."""
    spec = request.object.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("names"), dict):
        return
    if isinstance(spec["names"].get("kind"), str):
        spec["names"] = custom_kinds.preferred_names(request.object)
    spec.setdefault("conversion", {"strategy": "None"})
    for version in reading.mappings(spec.get("versions")):
        schema_types.remove_nulls(reading.at(version, "schema", "openAPIV3Schema"))


def validate(request: AdmissionRequest) -> ValidationResult:
    if request.subresource:
        return ValidationResult()
    return ValidationResult(invalid=tuple(_faults(request.object)))


def _faults(definition: Object) -> Iterator[FieldError]:
    spec = definition.get("spec")
    if not isinstance(spec, dict):
        yield FieldError("FieldValueRequired", "spec")
        return
    faults = list(_name_faults(definition, spec))
    versions = spec.get("versions")
    if not isinstance(versions, list) or not versions or not all(isinstance(version, dict) for version in versions):
        faults.append(FieldError("FieldValueRequired", "spec.versions", "at least one version is required"))
        versions = []
    yield from faults
    if faults:
        return
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield FieldError("FieldValueInvalid", "spec.versions", detail, [version.get("name") for version in versions])
    for position, version in enumerate(versions):
        yield from _version_faults(version, f"spec.versions[{position}]")


def _name_faults(definition: Object, spec: Object) -> Iterator[FieldError]:
    names = reading.mapping(spec.get("names"))
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
    faults = list(schema_types.faults(schema, root)) or list(_schema_faults(schema, root))
    if schema.get("type") != "object":
        faults.append(FieldError("FieldValueInvalid", f"{root}.type", "must be object at the root", schema.get("type")))
    yield from faults
    if not faults:
        yield from _usability_faults(schema, root)
    for position, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _path_faults(column, f"{path}.additionalPrinterColumns[{position}]")


def _schema_faults(schema: Object, path: str) -> Iterator[FieldError]:
    kind = schema.get("type")
    is_untyped = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if kind is None and not is_untyped:
        yield FieldError("FieldValueRequired", f"{path}.type", "must not be empty for specified object fields")
    elif kind is not None and kind not in _TYPES:
        detail = "supported values: " + ", ".join(f'"{name}"' for name in _TYPES)
        yield FieldError("FieldValueNotSupported", f"{path}.type", detail, kind)
    for name, below in (schema.get("properties") or {}).items():
        yield from _schema_faults(below, f"{path}.properties[{name}]")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from _schema_faults(schema[name], f"{path}.{name}")


def _usability_faults(schema: Object, path: str) -> Iterator[FieldError]:
    """Validate an object with the schema, so that an unusable schema is refused at once."""
    try:
        schema_validation.validate(schema, {"metadata": {}})
    except Exception as error:  # noqa: BLE001 - any failure means that the schema is unusable
        yield FieldError("FieldValueInvalid", path, f"the schema cannot be used: {error}", "")


def _path_faults(column: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(column, dict) or not isinstance(column.get("jsonPath"), str) or not column.get("name"):
        yield FieldError("FieldValueRequired", f"{path}.jsonPath")
        return
    try:
        jsonpath.compile_path(column["jsonPath"])
    except jsonpath.PathError as error:
        yield FieldError("FieldValueInvalid", f"{path}.jsonPath", f"{error}", column["jsonPath"])
