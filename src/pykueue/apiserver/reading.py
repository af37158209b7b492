"""Get, list and watch."""

import base64
import builtins
from collections.abc import Iterator
from typing import Annotated

import msgspec

from pykueue.api import errors, integers
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Kind
from pykueue.apiserver import scales, selection, versions
from pykueue.apiserver.calls import (
    FirstFrames,
    ListCall,
    ObjectResponse,
    Page,
    ResourceTarget,
    Sink,
    Subscription,
    WatchCall,
    WatchFrame,
)
from pykueue.apiserver.slices import Slices
from pykueue.apiserver.store.rows import Stored
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

    def __init__(self, store: Store, hub: WatchHub, slices: Slices) -> None:
        self._store = store
        self._hub = hub
        self._slices = slices

    def get(self, target: ResourceTarget, resource_version: str) -> ObjectResponse:
        _number(resource_version)
        stored = self._store.get(versions.key_of(target.kind, target.namespace, target.name))
        if stored is None:
            raise errors.not_found(target.kind.group, target.kind.plural, target.name)
        if target.subresource == "scale":
            return ObjectResponse(encoded=msgspec.json.encode(scales.read(target.kind, stored.decode())))
        return ObjectResponse(kind=target.kind, stored=stored)

    async def list(self, target: ResourceTarget, call: ListCall) -> Page:
        """The objects of one revision, however many turns of the event loop it takes."""
        selected = selection.parse(target, call.label_selector, call.field_selector)
        revision, start = self._position(call)
        matching = self._candidates(selected, revision)
        if start:
            matching = [stored for stored in matching if stored.key[2:] > start]
        if not selected.is_everything:
            candidates, matching = matching, []
            await self._slices.run(_select(selected, candidates, matching), target.namespace)
        page = matching[: call.limit] if call.limit else matching
        is_partial = len(page) < len(matching)
        items: list[bytes] = []
        await self._slices.run(_encode(target.kind, page, items), target.namespace)
        return Page(
            kind=target.kind,
            items=items,
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
            revision = self._store.revision
            has_bookmark = bool(call.send_initial_events and call.allow_bookmarks)
            first = _state_frames(selected, self._candidates(selected, revision), revision, has_bookmark=has_bookmark)
        else:
            first = watch.frames_of(self._store.changes_after(begin) if begin else [])
        self._hub.add(watch, first)
        if call.timeout_seconds:
            watch.expire_after(call.timeout_seconds)
        return watch

    def _candidates(self, selected: selection.Selection, revision: int) -> builtins.list[Stored]:
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


def _select(selected: selection.Selection, candidates: list[Stored], matching: list[Stored]) -> Iterator[int]:
    """Steps that collect what matches."""
    for stored in candidates:
        if selected.matches(stored):
            matching.append(stored)
        yield stored.size if selected.fields else 0


def _encode(kind: Kind, page: list[Stored], items: list[bytes]) -> Iterator[int]:
    """Steps that encode the objects of a page. What is sent as it is stored costs nothing."""
    is_stored_so = versions.is_storage_version(kind) and kind.plural != "events"
    if is_stored_so:
        items += [stored.data for stored in page]
        return
    for stored in page:
        items.append(versions.encode_as(kind, stored))
        yield len(items[-1])


def _state_frames(
    selected: selection.Selection, candidates: list[Stored], revision: int, *, has_bookmark: bool
) -> FirstFrames:
    """The objects as events, encoded when a client is ready to read them."""
    kind = selected.kind
    for stored in candidates:
        yield WatchFrame("ADDED", versions.encode_as(kind, stored)) if selected.matches(stored) else stored.size
    if has_bookmark:
        yield bookmark_frame(kind, revision, ends_initial_events=True)


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
