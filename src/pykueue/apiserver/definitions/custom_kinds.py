"""The kinds of a CustomResourceDefinition: one for each served version."""

from collections.abc import Callable, Iterator
from typing import Any

from pykueue.api import schema as schemas
from pykueue.api.json_copy import copied
from pykueue.api.rules import table
from pykueue.api.scheme import Column, Kind, Object, Schema

_ANY_OBJECT: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def of(definition: Object) -> list[Kind]:
    """One kind for each served version. Each knows the storage version."""
    spec = definition["spec"]
    stored = next((version["name"] for version in spec["versions"] if version.get("storage")), "")
    return [_kind(spec, version, stored) for version in spec["versions"] if version.get("served")]


def _kind(spec: Object, version: Object, stored: str) -> Kind:
    names = spec["names"]
    subresources = version.get("subresources") or {}
    is_stored = version["name"] == stored
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or _ANY_OBJECT
    rules = table.rules_of(spec["group"], names["kind"])
    return Kind(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        namespaced=spec.get("scope") == "Namespaced",
        singular=names.get("singular", ""),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        schema=schema,
        columns=tuple(_columns(version)),
        has_status="status" in subresources,
        scale=subresources.get("scale"),
        selectable_fields=tuple(field["jsonPath"] for field in version.get("selectableFields") or ()),
        deprecation_warning=_deprecation(spec, version),
        storage_version="" if is_stored else stored,
        to_storage=None if is_stored else _set_api_version(f"{spec['group']}/{stored}"),
        from_storage=_from_storage(schema, "" if is_stored else f"{spec['group']}/{version['name']}"),
        is_builtin=False,
        defaulter=rules.defaulter,
        validator=rules.validator,
    )


def _columns(version: Object) -> Iterator[Column]:
    for column in version.get("additionalPrinterColumns") or ():
        yield Column(
            name=column["name"],
            json_path=column["jsonPath"],
            type=column.get("type", "string"),
            priority=column.get("priority") or 0,
            format=column.get("format", ""),
            description=column.get("description", ""),
        )


def _deprecation(spec: Object, version: Object) -> str:
    if not version.get("deprecated"):
        return ""
    default = f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"
    return str(version.get("deprecationWarning") or default)


def _set_api_version(api_version: str) -> Callable[[Object], Object]:
    """Conversion with strategy None: the same object with another apiVersion."""

    def convert(obj: Object) -> Object:
        return {**obj, "apiVersion": api_version}

    return convert


def _from_storage(schema: Schema, api_version: str) -> Callable[[Object], Object] | None:
    """The conversion of a stored object: another apiVersion, and defaults that are newer than it.

    None if objects are served as they are stored.
    """
    if not schemas.has_defaults(schema):
        return _set_api_version(api_version) if api_version else None

    def convert(obj: Object) -> Object:
        converted = copied(obj)
        schemas.fill_in_defaults(schema, converted)
        return {**converted, "apiVersion": api_version} if api_version else converted

    return convert


def preferred_names(definition: Object) -> dict[str, Any]:
    """The names of the definition with defaults."""
    names = dict(definition["spec"]["names"])
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    return names
