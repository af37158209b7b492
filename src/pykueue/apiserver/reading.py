"""Get, list and watch."""

import base64
from collections.abc import Sequence
from typing import Annotated
from weakref import WeakValueDictionary

import msgspec

from pykueue.api import errors, integers
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Kind
from pykueue.apiserver import scales, selection, versions
from pykueue.apiserver.calls import (
    ListCall,
    ObjectResponse,
    Page,
    ResourceTarget,
    Sink,
    Subscription,
    WatchCall,
    WatchFrame,
)
from pykueue.apiserver.store.rows import Stored, StoreKey
from pykueue.apiserver.store.store import Store
from pykueue.apiserver.watches import Watch, WatchHub, bookmark_frame

_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You must start a new list without "
    "the continue parameter."
)


class _ContinueToken(msgspec.Struct):
    rv: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    start: str


_TOKEN = msgspec.json.Decoder(_ContinueToken)


class ReadHandler:
    """Reads see only committed changes."""

    def __init__(self, store: Store, hub: WatchHub) -> None:
        self._store = store
        self._hub = hub
        self._first_frames: WeakValueDictionary[tuple[str, StoreKey, int], WatchFrame] = WeakValueDictionary()
        """First events of watches that wait for their clients: all watches share them."""

    def get(self, target: ResourceTarget, resource_version: str) -> ObjectResponse:
        _number(resource_version)
        stored = self._store.get(versions.key_of(target.kind, target.namespace, target.name))
        if stored is None:
            raise errors.not_found(target.kind.group, target.kind.plural, target.name)
        if target.subresource == "scale":
            return ObjectResponse(encoded=msgspec.json.encode(scales.read(target.kind, stored.decode())))
        return ObjectResponse(kind=target.kind, stored=stored)

    def list(self, target: ResourceTarget, call: ListCall) -> Page:
        selected = selection.parse(target, call.label_selector, call.field_selector)
        revision, start = self._position(call)
        matching = self._candidates(selected, revision)
        if not selected.is_everything:
            matching = [stored for stored in matching if selected.matches(stored)]
        if start:
            matching = [stored for stored in matching if stored.key[2:] > start]
        page = matching[: call.limit] if call.limit else matching
        is_partial = len(page) < len(matching)
        return Page(
            kind=target.kind,
            items=[versions.encode_as(target.kind, stored) for stored in page],
            resource_version=str(revision),
            continue_token=_token(revision, page[-1]) if is_partial else "",
            remaining_item_count=len(matching) - len(page) if is_partial and selected.is_everything else None,
        )

    def watch(self, target: ResourceTarget, call: WatchCall, sink: Sink) -> Subscription:
        selected = selection.parse(target, call.label_selector, call.field_selector)
        begin = _number(call.resource_version)
        _check_initial_events(call)
        sends_state = call.send_initial_events if call.send_initial_events is not None else begin == 0
        if not sends_state and begin and begin < self._store.floor:
            raise too_old(begin, self._store.floor)
        watch = Watch(self._hub, target.kind, selected, sink)
        watch.wants_bookmarks = call.allow_bookmarks
        if sends_state:
            for stored in self._candidates(selected, self._store.revision):
                if selected.matches(stored):
                    watch.send(self._first_frame(target.kind, stored))
            if call.send_initial_events and call.allow_bookmarks:
                watch.send(bookmark_frame(target.kind, self._store.revision, ends_initial_events=True))
        history = [] if sends_state or not begin else self._store.changes_after(begin)
        self._hub.add(watch, history)
        if call.timeout_seconds:
            watch.expire_after(call.timeout_seconds)
        return watch

    def _first_frame(self, kind: Kind, stored: Stored) -> WatchFrame:
        key = (kind.api_version, stored.key, stored.revision)
        frame = self._first_frames.get(key)
        if frame is None:
            frame = self._first_frames[key] = WatchFrame("ADDED", versions.encode_as(kind, stored))
        return frame

    def _candidates(self, selected: selection.Selection, revision: int) -> Sequence[Stored]:
        """The objects of a revision that fit the namespace and the name of a selection."""
        group = versions.storage_group(selected.kind)
        if revision == self._store.revision:
            objects = self._store.select(group, selected.kind.plural, selected.namespace)
        else:
            objects = self._store.select_at(revision, group, selected.kind.plural, selected.namespace)
        return [stored for stored in objects if stored.key.name == selected.name] if selected.name else objects

    def _position(self, call: ListCall) -> tuple[int, tuple[str, str] | None]:
        """The revision to list at, and the (namespace, name) after which the page starts."""
        revision = _number(call.resource_version)
        if call.continue_token:
            if revision:
                raise errors.bad_request("specifying resource version is not allowed when using continue")
            revision, start = _read_token(call.continue_token)
            if revision < self._store.floor:
                raise errors.expired(_CONTINUE_EXPIRED)
            return min(revision, self._store.revision), start
        _check_match(call, revision)
        if revision > self._store.revision:
            raise _too_large(revision, self._store.revision)
        if call.resource_version_match == "Exact":
            if revision < self._store.floor:
                raise too_old(revision, self._store.floor)
            return revision, None
        return self._store.revision, None


def too_old(revision: int, floor: int) -> ApiError:
    return errors.expired(f"too old resource version: {revision} ({floor})")


def _too_large(revision: int, current: int) -> ApiError:
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    return ApiError(504, "Timeout", message, details)


def _check_match(call: ListCall, revision: int) -> None:
    match = call.resource_version_match
    if not match:
        return
    if match not in ("Exact", "NotOlderThan"):
        raise _invalid_option(
            f'resourceVersionMatch: Unsupported value: "{match}": supported values: "Exact", "NotOlderThan"'
        )
    if not call.resource_version:
        raise _invalid_option(
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    if match == "Exact" and revision == 0:
        raise _invalid_option(
            'resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        )


def _check_initial_events(call: WatchCall) -> None:
    if call.send_initial_events is None:
        if call.resource_version_match:
            raise _invalid_option(
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
    elif call.resource_version_match != "NotOlderThan":
        raise _invalid_option(
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )


def _invalid_option(fault: str) -> ApiError:
    field, _, message = fault.partition(": ")
    details = {
        "group": "meta.k8s.io",
        "kind": "ListOptions",
        "causes": [{"reason": "FieldValueForbidden", "message": message, "field": field}],
    }
    return ApiError(422, "Invalid", f'ListOptions.meta.k8s.io "" is invalid: {fault}', details)


def _number(resource_version: str) -> int:
    if not resource_version:
        return 0
    return integers.unsigned(resource_version, f'resourceVersion: Invalid value: "{resource_version:.80}"')


def _token(revision: int, last: Stored) -> str:
    content = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": revision, "start": "/".join(last.key[2:])})
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        content = _TOKEN.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except ValueError as error:
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    namespace, _, name = content.start.partition("/")
    return content.rv, (namespace, name)
