"""What every object must have before other rules apply: apiVersion, kind, typed metadata.

Every write calls `check` first, so all later steps may rely on the types of metadata.
"""

import re
from typing import Any

import msgspec

from pykueue.api import errors
from pykueue.api.errors import FieldError
from pykueue.api.scheme import Kind, Object


class _ManagedFieldsEntry(msgspec.Struct):
    manager: str | None = None
    operation: str | None = None
    apiVersion: str | None = None  # noqa: N815 - JSON name
    time: str | None = None
    fieldsType: str | None = None  # noqa: N815 - JSON name
    fieldsV1: dict[str, Any] | None = None  # noqa: N815 - JSON name
    subresource: str | None = None


class _ObjectMeta(msgspec.Struct):
    """Field names and types of metadata. Conversion to this struct is the check."""

    name: str | None = None
    generateName: str | None = None  # noqa: N815 - JSON name
    namespace: str | None = None
    selfLink: str | None = None  # noqa: N815 - JSON name
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815 - JSON name
    generation: int | None = None
    creationTimestamp: str | None = None  # noqa: N815 - JSON name
    deletionTimestamp: str | None = None  # noqa: N815 - JSON name
    deletionGracePeriodSeconds: int | None = None  # noqa: N815 - JSON name
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: list[dict[str, str | bool | None]] | None = None  # noqa: N815 - JSON name
    finalizers: list[str] | None = None
    managedFields: list[_ManagedFieldsEntry] | None = None  # noqa: N815 - JSON name


_GO_TYPES = {"str": "string", "int": "int64", "object": "map", "array": "slice", "bool": "bool"}
_JSON_TYPES = {
    "str": "string",
    "int": "number",
    "float": "number",
    "null": "null",
    "object": "object",
    "array": "array",
}


def check(kind: Kind, obj: Any) -> Object:
    """Set missing apiVersion, kind and metadata; ApiError 400 for another kind."""
    if not isinstance(obj, dict):
        raise errors.bad_request(
            f"couldn't get version/kind; json parse error: the body must be an object, not {obj!r:.40}"
        )
    api_version = obj.setdefault("apiVersion", kind.api_version)
    if api_version != kind.api_version:
        raise errors.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version ({kind.api_version})"
        )
    if obj.setdefault("kind", kind.kind) != kind.kind:
        raise errors.bad_request(_wrong_kind(kind, obj["kind"]))
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    _check_metadata(kind, obj["metadata"])
    return obj


def _wrong_kind(kind: Kind, name: Any) -> str:
    if not kind.is_builtin:
        return f"the kind in the data ({name}) does not match the expected kind ({kind.kind})"
    package = kind.group.split(".")[0] or "core"
    return (
        f'{name} in version "{kind.version}" cannot be handled as a {kind.kind}: '
        f"converting ({kind.version}.{name}) to ({package}.{kind.kind}): unknown conversion"
    )


def check_patched(kind: Kind, obj: Any, name: str, uid: str) -> Object:
    """`check` for a patched object. A patch that changes kind or uid makes the object invalid."""
    if isinstance(obj, dict) and not kind.is_builtin and obj.get("kind") != kind.kind:
        fault = FieldError("FieldValueInvalid", "kind", f"must be {kind.kind}", obj.get("kind"))
        raise errors.invalid(kind.group, str(obj.get("kind")), name, [fault])
    checked = check(kind, obj)
    new_uid = checked["metadata"].get("uid", uid)
    if new_uid != uid:
        fault = FieldError("FieldValueInvalid", "metadata.uid", "field is immutable", new_uid)
        raise errors.invalid(kind.group, kind.kind, name, [fault])
    return checked


def _check_metadata(kind: Kind, metadata: Any) -> None:
    try:
        msgspec.convert(metadata, _ObjectMeta)
    except msgspec.ValidationError as error:
        raise errors.bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {_go_message(kind, str(error))}'
        ) from error
    for name in [name for name, value in metadata.items() if value is None]:
        del metadata[name]


def _go_message(kind: Kind, fault: str) -> str:
    """Translate a message such as ``Expected `str`, got `int` - at `$.labels[...]` `` to Go's."""
    expected, got, field = [*re.findall(r"`([^`]*)`", fault), "", "", ""][:3]
    go_type = next((_GO_TYPES[word] for word in expected.split(" | ") if word in _GO_TYPES), expected)
    path = (".metadata" if kind.is_builtin else "") + field.removeprefix("$").replace("[...]", "")
    return f"json: cannot unmarshal {_JSON_TYPES.get(got, got)} into Go struct field ObjectMeta{path} of type {go_type}"
