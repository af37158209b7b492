"""Which manager owns which field: reads, updates and writes `metadata.managedFields`.

The write path calls this after an update. Server-side apply calls it to refuse a change of fields
that other managers own.
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from pykueue.api import json_text, objects
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.apiserver.patches import field_sets, typed
from pykueue.apiserver.patches.field_sets import Node
from pykueue.apiserver.patches.merge_schema import MergeSchema

_MOST_UPDATE_MANAGERS = 10
_MOST_CONFLICTS = 1000
_UNOWNED_METADATA = (
    "f:name",
    "f:namespace",
    "f:creationTimestamp",
    "f:selfLink",
    "f:uid",
    "f:clusterName",
    "f:generation",
    "f:managedFields",
    "f:resourceVersion",
    "f:deletionTimestamp",
    "f:deletionGracePeriodSeconds",
)
_PARTLY_UNOWNED = ("f:apiVersion", "f:kind", "f:metadata")
_MOST_SHAPES = 256
_LARGEST_SHAPE_BYTES = 8192
_KUBECTL = "kubectl"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Manager(NamedTuple):
    """A field manager. An applier is one for all versions, an updater is one for each version."""

    name: str
    operation: str
    api_version: str
    subresource: str


class Ownership:
    """The fields that a manager owns. Fields from the store stay text until they are needed."""

    __slots__ = ("_fields", "_text", "api_version", "time")

    def __init__(self, fields: Node | msgspec.Raw, api_version: str, time: str) -> None:
        self._fields: Node | None = None
        self._text: msgspec.Raw | None = None
        if isinstance(fields, msgspec.Raw):
            self._text = fields
        else:
            self._fields = fields
        self.api_version = api_version
        self.time = time

    @property
    def fields(self) -> Node:
        if self._fields is None:
            assert self._text is not None
            fields: Node = msgspec.json.decode(self._text)
            self._fields = fields
        return self._fields

    @property
    def encoded(self) -> Node | msgspec.Raw:
        """The fields in the form in which they are written."""
        return self.fields if self._text is None else self._text

    def without(self, lost: Node | None) -> "Ownership | None":
        """The ownership without the lost fields; None if no field is left."""
        if lost is None or (self._text is not None and _at_the_top(self._text).keys().isdisjoint(lost)):
            return self
        fields = field_sets.difference(self.fields, lost)
        if fields is self.fields:
            return self
        return None if fields is None else Ownership(fields, self.api_version, self.time)


_at_the_top = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Entry(msgspec.Struct, rename="camel", omit_defaults=True):
    """One entry of `managedFields`, with its fields in Kubernetes' order."""

    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: str = ""
    fields_type: str = ""
    fields_v1: Node | msgspec.Raw | None = msgspec.field(name="fieldsV1", default=None)
    subresource: str = ""


class _StoredEntry(msgspec.Struct, rename="camel"):
    """One entry whose fields stay text."""

    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: str = ""
    fields_v1: msgspec.Raw = msgspec.field(name="fieldsV1", default=msgspec.Raw())
    subresource: str = ""


_entries = msgspec.json.Decoder(list[_StoredEntry]).decode


Managers = dict[Manager, Ownership]


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """The manager of the present write."""

    name: str
    api_version: str
    time: str
    subresource: str = ""

    def updater(self) -> Manager:
        return Manager(self.name, "Update", self.api_version, self.subresource)

    def applier(self) -> Manager:
        return Manager(self.name, "Apply", "", self.subresource)


def read(obj: Object) -> Managers:
    managers: Managers = {}
    for entry in obj["metadata"].get("managedFields") or ():
        fields = entry.get("fieldsV1")
        if not isinstance(fields, dict) or not fields:
            continue
        operation, api_version = entry.get("operation", ""), entry.get("apiVersion", "")
        manager = Manager(
            entry.get("manager", ""),
            operation,
            "" if operation == "Apply" else api_version,
            entry.get("subresource", ""),
        )
        managers[manager] = Ownership(fields, api_version, entry.get("time", ""))
    return managers


def read_text(text: bytes) -> Managers:
    """As `read`, from the text of the entries."""
    managers: Managers = {}
    for entry in _entries(text) if text else ():
        if bytes(entry.fields_v1) not in (b"", b"{}", b"null"):
            api_version = "" if entry.operation == "Apply" else entry.api_version
            manager = Manager(entry.manager, entry.operation, api_version, entry.subresource)
            managers[manager] = Ownership(entry.fields_v1, entry.api_version, entry.time)
    return managers


def write(obj: Object, managers: Managers) -> None:
    """Write the entries in Kubernetes' order: appliers first, then by time and name."""
    order = sorted(managers.items(), key=lambda item: (item[0].operation, item[1].time, item[0]))
    entries = [_entry(manager, owned) for manager, owned in _merged_beyond_limit(order)]
    if entries:
        obj["metadata"]["managedFields"] = msgspec.Raw(msgspec.json.encode(entries))
    else:
        obj["metadata"].pop("managedFields", None)


def _merged_beyond_limit(order: list[tuple[Manager, Ownership]]) -> Iterable[tuple[Manager, Ownership]]:
    """If there are too many updaters, the oldest are merged into one, named `ancient-changes`."""
    if len(order) <= _MOST_UPDATE_MANAGERS:
        return order
    updaters = [item for item in order if item[0].operation == "Update"]
    excess = (
        updaters[: max(len(updaters) - _MOST_UPDATE_MANAGERS + 1, 0)] if len(updaters) > _MOST_UPDATE_MANAGERS else []
    )
    if not excess:
        return order
    merged = field_sets.union_all(owned.fields for _, owned in excess)
    newest = excess[-1]
    ancient = newest[0]._replace(name="ancient-changes", subresource="")
    replaced = {manager for manager, _ in excess} | {ancient}
    others = [item for item in order if item[0] not in replaced]
    appliers = [item for item in others if item[0].operation == "Apply"]
    return [
        *appliers,
        (ancient, Ownership(merged or {}, newest[1].api_version, newest[1].time)),
        *others[len(appliers) :],
    ]


def _entry(manager: Manager, owned: Ownership) -> _Entry:
    name, operation, _, subresource = manager
    return _Entry(name, operation, owned.api_version, owned.time, "FieldsV1", owned.encoded or None, subresource)


def strip(fields: Node | None) -> Node | None:
    """Remove fields that no manager owns: type, identity, and what only the server writes."""
    if fields is None:
        return None
    if fields.keys().isdisjoint(_PARTLY_UNOWNED):
        return fields or None
    stripped = {element: node for element, node in fields.items() if element not in ("f:apiVersion", "f:kind")}
    metadata = stripped.pop("f:metadata", None)
    if metadata is not None:
        owned = {element: node for element, node in metadata.items() if element not in _UNOWNED_METADATA}
        owned.pop(".", None)
        if owned:
            stripped = {"f:metadata": owned, **stripped}
    return stripped or None


def after_update(
    schema: MergeSchema, old: Object | None, new: Object, *, managers: Managers, writer: Writer
) -> Managers:
    """The managers after `writer` changed `old` to `new` by create, update or patch.

    If `new` has managedFields of its own, they replace `managers`.
    """
    if old is None and "managedFields" not in new["metadata"]:
        return _after_create(schema, new, writer)
    before: Object = old if old is not None else {"apiVersion": new["apiVersion"], "kind": new["kind"], "metadata": {}}
    managers = read(new) if "managedFields" in new["metadata"] else dict(managers)
    changed, removed = typed.compare(schema, _unmanaged(before), _unmanaged(new))
    changed, removed = strip(changed), strip(removed)
    if changed is None and removed is None:
        return managers
    updater = writer.updater()
    owned = managers.pop(updater, None)
    result = _without(managers, field_sets.union(changed, removed))
    mine = field_sets.difference(field_sets.union(owned.fields if owned else None, changed), removed)
    if mine is not None:
        time = owned.time if owned and changed is None else writer.time
        result[updater] = Ownership(mine, writer.api_version, time)
    return result


def _after_create(schema: MergeSchema, new: Object, writer: Writer) -> Managers:
    """The creator owns all fields. Objects of the same shape share the text of their fields."""
    shape = typed.shape(schema, new)
    fields = schema.texts_by_shape.get(shape)
    if fields is None:
        before: Object = {"apiVersion": new["apiVersion"], "kind": new["kind"], "metadata": {}}
        changed = strip(typed.compare(schema, before, new)[0])
        fields = msgspec.Raw(b"" if changed is None else msgspec.json.encode(changed))
        if len(schema.texts_by_shape) >= _MOST_SHAPES:
            schema.texts_by_shape.clear()
        if len(bytes(fields)) <= _LARGEST_SHAPE_BYTES:
            schema.texts_by_shape[shape] = fields
    if not bytes(fields):
        return {}
    return {writer.updater(): Ownership(fields, writer.api_version, writer.time)}


def _unmanaged(obj: Object) -> Object:
    if "managedFields" not in obj["metadata"]:
        return obj
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def _without(managers: Mapping[Manager, Ownership], lost: Node | None) -> Managers:
    remaining = ((manager, owned.without(lost)) for manager, owned in managers.items())
    return {manager: owned for manager, owned in remaining if owned is not None}


def apply(
    schema: MergeSchema, live: Object | None, applied: Object, *, managers: Managers, writer: Writer, force: bool
) -> tuple[Object, Managers]:
    """Server-side apply: the new object and the new managers.

    `live` is the object without `managedFields`, and `managers` are their owners. The new object
    shares with `live` what is not applied. Unless forced, an ApiError 409 names the fields that
    other managers own.
    """
    base: Object = live if live is not None else {"metadata": {}}
    managers = dict(managers)
    applier = writer.applier()
    previous = managers.pop(applier, None)
    mine = strip(typed.fields(schema, applied))
    merged = typed.merge(schema, base, applied)
    changed = strip(typed.compare(schema, base, merged)[0])
    if not force:
        ours = _applied_by_client(schema, base) if writer.name == _KUBECTL else None
        _refuse_conflicts(managers, field_sets.difference(changed, ours))
    managers = _without(managers, changed)
    result: Object = merged
    no_longer_applied = field_sets.difference(previous.fields, mine) if previous else None
    if no_longer_applied is not None:
        others = field_sets.union_all(owned.fields for owned in managers.values())
        result = typed.remove(schema, merged, no_longer_applied, field_sets.union(others, mine))
        managers = _without(managers, strip(typed.compare(schema, merged, result)[1]))
    if mine is not None:
        previous_time = previous.time if previous else ""
        time = previous_time if result == base else writer.time
        managers[applier] = Ownership(mine, writer.api_version, time)
    return result, managers


def _applied_by_client(schema: MergeSchema, live: Object) -> Node | None:
    """The fields that client-side apply wrote and that have not changed since.

    Client-side apply stores the applied configuration in an annotation. A server-side apply by
    kubectl takes over these fields without a conflict.
    """
    text = objects.annotations(live).get(_LAST_APPLIED)
    try:
        applied = json_text.decode_field(text) if isinstance(text, str) else None
    except json_text.JsonError:
        return None
    if not isinstance(applied, dict):
        return None
    changed, removed = typed.compare(schema, applied, live)
    return field_sets.difference(field_sets.difference(typed.fields(schema, applied), changed), removed)


def _refuse_conflicts(managers: Managers, changed: Node | None) -> None:
    conflicts: list[tuple[str, str]] = []
    for manager, owned in sorted(managers.items()):
        description = _describe(manager, owned)
        paths = field_sets.members(field_sets.intersection(owned.fields, changed))
        conflicts += [(description, path) for path in itertools.islice(paths, _MOST_CONFLICTS - len(conflicts))]
    if not conflicts:
        return
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {description}", "field": path}
        for description, path in conflicts
    ]
    raise ApiError(409, "Conflict", _conflict_message(conflicts), {"causes": causes})


def _conflict_message(conflicts: list[tuple[str, str]]) -> str:
    if len(conflicts) == 1:
        description, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {description}: {path}"
    paths: dict[str, list[str]] = {}
    for description, path in conflicts:
        paths.setdefault(description, []).append(path)
    parts = [
        f"conflicts with {description}:\n" + "\n".join(f"- {path}" for path in manager_paths)
        for description, manager_paths in paths.items()
    ]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(parts)


def _describe(manager: Manager, owned: Ownership) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    if manager.operation == "Update":
        text += f" using {owned.api_version}"
    return text
