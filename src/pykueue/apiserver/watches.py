"""Watches: sends every committed change once, in order, to each watch whose selection it touches.

This is where a watch event leaves the store. The store calls `WatchHub.publish` with each
committed batch and hands a `WatchFrame` to the watch's sink; `http/watch_streams.py`
writes the frame to the connection, and `LocalClient.watch` yields it inside this process.

An event is encoded once per version and type, however many watchers there are. A watch that
starts at an old revision gets the changes since then and joins the live changes in the same step
of the event loop, so no change is lost or sent twice (`tests/apiserver/test_watch_history.py`).
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from pykueue.api.scheme import Kind, Object
from pykueue.apiserver import versions
from pykueue.apiserver.calls import FirstFrames, Sink, WatchFrame
from pykueue.apiserver.selection import Decoded, Selection
from pykueue.apiserver.store.rows import StoreChange, Stored

log = logging.getLogger(__name__)

BOOKMARK_SECONDS = 60.0


def bookmark_frame(kind: Kind, revision: int, *, ends_initial_events: bool = False) -> WatchFrame:
    metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
    if ends_initial_events:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    bookmark: Object = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
    return WatchFrame("BOOKMARK", msgspec.json.encode(bookmark))


class Watch:
    """One watcher. The watcher stops it with `cancel`, the server with `end`."""

    def __init__(self, hub: "WatchHub", kind: Kind, selection: Selection, sink: Sink) -> None:
        self.kind = kind
        self.selection = selection
        self.wants_bookmarks = False
        self.resource = (versions.storage_group(kind), kind.plural)
        self._hub = hub
        self._sink = sink
        self._timer: asyncio.TimerHandle | None = None
        self._has_ended = False

    def send(self, frame: WatchFrame) -> None:
        self._sink.send(frame)

    def send_first(self, frames: FirstFrames) -> None:
        self._sink.send_first(frames)

    def frames_of(self, history: Iterable[StoreChange]) -> FirstFrames:
        """The frames of past changes."""
        for change in history:
            key = change.now.key
            if (key.group, key.plural) == self.resource and self.selection.includes(key):
                frame = _frame(self, _ChangeFrames(change))
                if self._has_ended:
                    return
                yield change.now.size if frame is None else frame
            else:
                yield 0

    def expire_after(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self.end)

    def cancel(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._hub.remove(self)

    def end(self) -> None:
        if self._hub.remove(self):
            self._has_ended = True
            self.cancel()
            self._sink.close()


class _ChangeFrames:
    """The frames of one change: one per version and event type, shared by all watchers."""

    __slots__ = ("_decoded", "_frames", "change")

    def __init__(self, change: StoreChange) -> None:
        self.change = change
        self._frames: dict[tuple[str, str, str], WatchFrame] = {}
        self._decoded: Decoded = {}

    def frame(self, watch: Watch) -> WatchFrame | None:
        """The frame for a watch; None if the change does not touch its selection."""
        change = self.change
        is_in, was_in = not change.is_deleted, change.before is not None
        if not watch.selection.is_everything:
            is_in = is_in and watch.selection.matches(change.now, self._decoded)
            was_in = change.before is not None and watch.selection.matches(change.before, self._decoded)
        if is_in:
            return self._shared("MODIFIED" if was_in else "ADDED", watch.kind)
        return self._shared("DELETED", watch.kind) if was_in else None

    def _shared(self, event_type: str, kind: Kind) -> WatchFrame:
        key = (event_type, kind.group, kind.version)
        if key not in self._frames:
            stored = self._object_of(event_type)
            is_current = versions.is_storage_version(kind) and event_type != "DELETED"
            data = versions.encode_as(kind, stored)
            self._frames[key] = WatchFrame(event_type, data, stored if is_current else None)
        return self._frames[key]

    def _object_of(self, event_type: str) -> Stored:
        """The object of an event.

        An object that a change moves out of a selection is sent as it was before the change, with
        the resourceVersion of the change.
        """
        change = self.change
        if event_type != "DELETED" or change.is_deleted or change.before is None:
            return change.now
        obj = change.before.decode()
        obj["metadata"]["resourceVersion"] = str(change.revision)
        return Stored(change.now.key, change.revision, msgspec.json.encode(obj), change.before.meta)


def _frame(watch: Watch, frames: _ChangeFrames) -> WatchFrame | None:
    """The frame of a change for a watch; None if there is none.

    If the change cannot be converted to the watch's version, the watch ends. Its client then lists
    again and misses nothing.
    """
    try:
        return frames.frame(watch)
    except Exception:
        log.exception("revision %d cannot be shown as %s", frames.change.revision, watch.kind.api_version)
        watch.end()
        return None


class WatchHub:
    """All watches by resource."""

    def __init__(self, current_revision: Callable[[], int]) -> None:
        self._current_revision = current_revision
        self._watches: dict[tuple[str, str], dict[Watch, None]] = defaultdict(dict)
        self._ticker: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(BOOKMARK_SECONDS, self._tick)

    def stop(self) -> None:
        if self._ticker:
            self._ticker.cancel()
        for watch in self._all():
            watch.end()

    def add(self, watch: Watch, first: FirstFrames) -> None:
        """Send the first frames, then every later change."""
        self._watches[watch.resource][watch] = None
        watch.send_first(first)

    def remove(self, watch: Watch) -> bool:
        """True if the watch was still active."""
        return self._watches[watch.resource].pop(watch, 0) is None

    def publish(self, changes: Sequence[StoreChange]) -> None:
        """Send committed changes to all watches. The store calls this after each commit."""
        for change in changes:
            key = change.now.key
            watches = self._watches.get((key.group, key.plural))
            if not watches:
                continue
            frames = _ChangeFrames(change)
            for watch in list(watches):
                if watch.selection.includes(key) and (frame := _frame(watch, frames)) is not None:
                    watch.send(frame)

    def send_bookmarks(self) -> None:
        revision = self._current_revision()
        for watch in self._all():
            if watch.wants_bookmarks:
                watch.send(bookmark_frame(watch.kind, revision))

    def _tick(self) -> None:
        self.send_bookmarks()
        self.start()

    def _all(self) -> list[Watch]:
        return [watch for watches in self._watches.values() for watch in watches]
