"""Who owns which field: `metadata.managedFields` read, kept up after every write, and written back.

Called by the write path after an update, and by server-side apply, which refuses to change what others own.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.apiserver.patches import field_sets, last_applied, typed
from pykueue.apiserver.patches.field_sets import Node
from pykueue.apiserver.patches.shapes import Shape

_MOST_UPDATE_MANAGERS = 10
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
_ENTRY_NAMES = ("manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource")


class Manager(NamedTuple):
    """Who: an applier is one whatever version it uses, an updater is one per version."""

    name: str
    operation: str
    api_version: str
    subresource: str


class Ownership:
    """What a manager owns. Fields that were read from the store stay text until somebody must know them."""

    __slots__ = ("_fields", "_text", "api_version", "time")

    def __init__(self, fields: Node | msgspec.Raw, api_version: str, time: str) -> None:
        self._fields = None if isinstance(fields, msgspec.Raw) else fields
        self._text = fields if isinstance(fields, msgspec.Raw) else None
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
    def shown(self) -> Node | msgspec.Raw:
        """The fields as they are to be written."""
        return self.fields if self._text is None else self._text

    def without(self, lost: Node | None) -> "Ownership | None":
        """What is left of it; None if that is nothing."""
        if lost is None or (self._text is not None and _at_the_top(self._text).keys().isdisjoint(lost)):
            return self
        fields = field_sets.difference(self.fields, lost)
        if fields is self.fields:
            return self
        return None if fields is None else Ownership(fields, self.api_version, self.time)


_at_the_top = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Entry(msgspec.Struct, rename="camel"):
    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: str = ""
    fields_v1: msgspec.Raw = msgspec.field(name="fieldsV1", default=msgspec.Raw())
    subresource: str = ""


_entries = msgspec.json.Decoder(list[_Entry]).decode


Managers = dict[Manager, Ownership]


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """The one who writes now."""

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
    """Put the entries into the object as text, in Kubernetes' order: appliers first, then by time and name."""
    order = sorted(managers.items(), key=lambda item: (item[0].operation, item[1].time, item[0]))
    entries = [_entry(manager, owned) for manager, owned in _merged_beyond_limit(order)]
    if entries:
        obj["metadata"]["managedFields"] = msgspec.Raw(msgspec.json.encode(entries))
    else:
        obj["metadata"].pop("managedFields", None)


def _merged_beyond_limit(order: list[tuple[Manager, Ownership]]) -> Iterable[tuple[Manager, Ownership]]:
    """The oldest of too many updaters become one, named `ancient-changes`."""
    updaters = [item for item in order if item[0].operation == "Update"]
    excess = (
        updaters[: max(len(updaters) - _MOST_UPDATE_MANAGERS + 1, 0)] if len(updaters) > _MOST_UPDATE_MANAGERS else []
    )
    if not excess:
        return order
    merged: Node | None = None
    for _, owned in excess:
        merged = field_sets.union(merged, owned.fields)
    newest = excess[-1]
    ancient = newest[0]._replace(name="ancient-changes", subresource="")
    kept = [item for item in order if item not in excess and item[0] != ancient]
    appliers = [item for item in kept if item[0].operation == "Apply"]
    return [
        *appliers,
        (ancient, Ownership(merged or {}, newest[1].api_version, newest[1].time)),
        *kept[len(appliers) :],
    ]


def _entry(manager: Manager, owned: Ownership) -> dict[str, Any]:
    entry = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": owned.api_version,
        "time": owned.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": owned.shown,
        "subresource": manager.subresource,
    }
    return {name: entry[name] for name in _ENTRY_NAMES if entry[name]}


def strip(fields: Node | None) -> Node | None:
    """Without what nobody owns: type, identity, and what the server alone writes."""
    if fields is None:
        return None
    stripped = {element: node for element, node in fields.items() if element not in ("f:apiVersion", "f:kind")}
    metadata = stripped.pop("f:metadata", None)
    if metadata is not None:
        owned = {element: node for element, node in metadata.items() if element not in _UNOWNED_METADATA}
        owned.pop(".", None)
        if owned:
            stripped = {"f:metadata": owned, **stripped}
    return stripped or None


def after_update(shape: Shape, old: Object | None, new: Object, *, managers: Managers, writer: Writer) -> Managers:
    """Ownership after `writer` turned `old` into `new` by create, update or patch; `managers` owned `old`.

    A writer may also say who owns what, in `new`.
    """
    before: Object = old if old is not None else {"apiVersion": new["apiVersion"], "kind": new["kind"], "metadata": {}}
    managers = read(new) if "managedFields" in new["metadata"] else dict(managers)
    changed, removed = typed.compare(shape, _unmanaged(before), _unmanaged(new))
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


def _unmanaged(obj: Object) -> Object:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def _without(managers: Mapping[Manager, Ownership], lost: Node | None) -> Managers:
    kept = ((manager, owned.without(lost)) for manager, owned in managers.items())
    return {manager: owned for manager, owned in kept if owned is not None}


def apply(
    shape: Shape, live: Object | None, applied: Object, *, writer: Writer, force: bool
) -> tuple[Object, Managers]:
    """Server-side apply: the new object and the new owners. ApiError 409 names what others own, unless forced."""
    current: Object = live if live is not None else {"metadata": {}}
    managers = read(current)
    applier = writer.applier()
    previous = managers.pop(applier, None)
    mine = strip(typed.fields(shape, applied))
    base = _unmanaged(current)
    merged = typed.merge(shape, base, applied)
    changed = strip(typed.compare(shape, base, merged)[0])
    if not force:
        ours = last_applied.still_as_applied(shape, base) if writer.name == last_applied.MANAGER else None
        _refuse_conflicts(managers, field_sets.difference(changed, ours))
    managers = _without(managers, changed)
    others: Node | None = None
    for owned in managers.values():
        others = field_sets.union(others, owned.fields)
    unwanted = field_sets.difference(previous.fields, mine) if previous else None
    result: Object = typed.remove(shape, merged, unwanted, field_sets.union(others, mine))
    removed = strip(typed.compare(shape, merged, result)[1])
    managers = _without(managers, removed)
    if mine is not None:
        known_time = previous.time if previous else ""
        time = known_time if result == base else writer.time  # whoever changes nothing leaves no time
        managers[applier] = Ownership(mine, writer.api_version, time)
    return result, managers


def _refuse_conflicts(managers: Managers, changed: Node | None) -> None:
    conflicts: list[tuple[str, str]] = []
    for manager, owned in sorted(managers.items()):
        described = _described(manager, owned)
        conflicts += [(described, path) for path in field_sets.members(field_sets.intersection(owned.fields, changed))]
    if not conflicts:
        return
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {described}", "field": path}
        for described, path in conflicts
    ]
    raise ApiError(409, "Conflict", _conflict_message(conflicts), {"causes": causes})


def _conflict_message(conflicts: list[tuple[str, str]]) -> str:
    if len(conflicts) == 1:
        described, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {described}: {path}"
    paths: dict[str, list[str]] = {}
    for described, path in conflicts:
        paths.setdefault(described, []).append(path)
    parts = [
        f"conflicts with {described}:\n" + "\n".join(f"- {path}" for path in theirs)
        for described, theirs in paths.items()
    ]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(parts)


def _described(manager: Manager, owned: Ownership) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    if manager.operation == "Update":
        text += f" using {owned.api_version}"
    return text
