"""One storage, several faces: versions of a kind, and the two APIs that show the same Events.

Everything is kept in one version per resource; a request sees it through the Kind that it asked for. Called by the
verbs on the way in and out, and by watches for each event.
"""

from typing import Any

import msgspec

from pykueue.api.scheme import Kind, Object, Scheme
from pykueue.apiserver.store.rows import Key, Stored

_EVENTS = "events.k8s.io"
_EVENT_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_EVENT_FIELDS = {core: new for new, core in _EVENT_FIELDS.items()}


def storage_kind(scheme: Scheme, kind: Kind) -> Kind:
    """The kind in the version in which its objects are kept, whose rules a write obeys."""
    if is_event_face(kind):
        return scheme.for_kind("v1", "Event") or kind
    if kind.storage_version in ("", kind.version):
        return kind
    stored = scheme.for_path(kind.group, kind.storage_version, kind.plural)
    assert stored is not None, f"{kind.plural}.{kind.group} is kept in {kind.storage_version}, which is not registered"
    return stored


def key_of(kind: Kind, namespace: str, name: str) -> Key:
    return Key(storage_group(kind), kind.plural, namespace if kind.namespaced else "", name)


def storage_group(kind: Kind) -> str:
    return "" if is_event_face(kind) else kind.group


def is_event_face(kind: Kind) -> bool:
    return kind.group == _EVENTS and kind.plural == "events"


def is_stored_as_shown(kind: Kind) -> bool:
    """Stored bytes may be sent as they are."""
    return kind.from_storage is None and not is_event_face(kind)


def to_storage(kind: Kind, obj: Object) -> Object:
    if is_event_face(kind):
        return _renamed(obj, _EVENT_FIELDS, "v1")
    return kind.to_storage(obj) if kind.to_storage else obj


def from_storage(kind: Kind, obj: Object) -> Object:
    if is_event_face(kind):
        return _renamed(obj, _CORE_EVENT_FIELDS, f"{_EVENTS}/v1")
    return kind.from_storage(obj) if kind.from_storage else obj


def shown(kind: Kind, stored: Stored) -> bytes:
    """The object as a reader of this kind gets it."""
    if is_stored_as_shown(kind):
        return stored.data
    return msgspec.json.encode(from_storage(kind, stored.decode()))


def _renamed(obj: Object, names: dict[str, str], api_version: str) -> Object:
    renamed: dict[str, Any] = {names.get(name, name): value for name, value in obj.items()}
    renamed["apiVersion"] = api_version
    return renamed
