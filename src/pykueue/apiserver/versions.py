"""Versions of a kind: every object is stored in one version and served in all of them.

Kubernetes serves events in two groups, `v1` and `events.k8s.io/v1`; both read the same stored
objects. The verbs convert objects here when they read and write, watches for each event.
"""

import sys
from typing import Any

import msgspec

from pykueue.api.scheme import Kind, Object, Scheme
from pykueue.apiserver.store.rows import Stored, StoreKey

_EVENTS_GROUP = "events.k8s.io"
_EVENTS_V1_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_EVENT_FIELDS = {core: new for new, core in _EVENTS_V1_FIELDS.items()}
_EVENT_TIMES: Object = {"eventTime": None, "firstTimestamp": None, "lastTimestamp": None}


def storage_kind(scheme: Scheme, kind: Kind) -> Kind:
    """The kind in its storage version. The rules of that version apply to a write."""
    if is_events_v1(kind):
        return scheme.for_kind("v1", "Event") or kind
    if kind.storage_version in ("", kind.version):
        return kind
    stored = scheme.for_path(kind.group, kind.storage_version, kind.plural)
    assert stored is not None, f"the storage version {kind.storage_version} of {kind.plural}.{kind.group} is missing"
    return stored


def key_of(kind: Kind, namespace: str, name: str) -> StoreKey:
    return StoreKey(storage_group(kind), kind.plural, sys.intern(namespace) if kind.namespaced else "", name)


def storage_group(kind: Kind) -> str:
    return "" if kind.group == _EVENTS_GROUP and kind.plural == "events" else kind.group


def is_events_v1(kind: Kind) -> bool:
    return kind.group == _EVENTS_GROUP and kind.plural == "events"


def is_storage_version(kind: Kind) -> bool:
    """Whether objects are stored in this version, so that stored bytes are sent unchanged."""
    return kind.from_storage is None and not (kind.group == _EVENTS_GROUP and kind.plural == "events")


def to_storage(kind: Kind, obj: Object) -> Object:
    if is_events_v1(kind):
        return _renamed(obj, _EVENTS_V1_FIELDS, "v1")
    return kind.to_storage(obj) if kind.to_storage else obj


def from_storage(kind: Kind, obj: Object) -> Object:
    if is_events_v1(kind):
        return _renamed(obj, _CORE_EVENT_FIELDS, f"{_EVENTS_GROUP}/v1")
    return kind.from_storage(obj) if kind.from_storage else obj


def completed(key: StoreKey, obj: Object) -> Object:
    """The object as it is stored: an Event has the times that are not set as null.

    Go writes them so, and `kubectl get events --sort-by=.lastTimestamp` needs the field.
    """
    return {**_EVENT_TIMES, **obj} if (key.group, key.plural) == ("", "events") else obj


def encode_as(kind: Kind, stored: Stored) -> bytes:
    """The object as JSON in the version of `kind`."""
    if is_storage_version(kind):
        return stored.data
    return msgspec.json.encode(from_storage(kind, stored.decode()))


def _renamed(obj: Object, names: dict[str, str], api_version: str) -> Object:
    renamed: dict[str, Any] = {names.get(name, name): value for name, value in obj.items()}
    renamed["apiVersion"] = api_version
    return renamed
