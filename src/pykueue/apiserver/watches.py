"""Watches: each committed change goes, in order and once, to everyone whose selection it touches.

An event is framed once per version and type, however many watchers there are. A watcher that starts from an old
revision is given the history first and then joins the live stream; both happen without giving up the event loop, so
that nothing can come between. `Hub` is fed by the store and called by the verbs.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Kind, Object
from pykueue.apiserver import versions
from pykueue.apiserver.calls import Sink
from pykueue.apiserver.selection import Selection
from pykueue.apiserver.store.rows import Change, Stored

log = logging.getLogger(__name__)

BOOKMARK_SECONDS = 60.0


class Frame:
    """A watch event of one version, encoded when first asked for. `stored` is what it shows, if it shows it as stored."""

    __slots__ = ("_line", "_object", "_stored", "data", "type")

    def __init__(self, type_: str, data: bytes, stored: Stored | None = None) -> None:
        self.type = type_
        self.data = data
        self._line = b""
        self._stored = stored
        self._object: Object | None = None

    @property
    def line(self) -> bytes:
        if not self._line:
            self._line = b'{"type":"%s","object":%s}\n' % (self.type.encode(), self.data)
        return self._line

    def decode(self) -> Object:
        obj: Object = msgspec.json.decode(self.data)
        return obj

    def shared(self) -> Object:
        if self._stored is not None:
            return self._stored.shared()
        if self._object is None:
            self._object = self.decode()
            self._object["metadata"].pop("managedFields", None)
        return self._object


def error_frame(error: ApiError) -> Frame:
    return Frame("ERROR", msgspec.json.encode(error.status()))


def bookmark_frame(kind: Kind, revision: int, *, ends_initial_events: bool = False) -> Frame:
    metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
    if ends_initial_events:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    bookmark: Object = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
    return Frame("BOOKMARK", msgspec.json.encode(bookmark))


class Watch:
    """One watcher. Ends by `cancel` (its own wish) or by `end` (ours)."""

    def __init__(self, hub: "Hub", kind: Kind, selection: Selection, sink: Sink) -> None:
        self.kind = kind
        self.selection = selection
        self.wants_bookmarks = False
        self.resource = (versions.storage_group(kind), kind.plural)
        self._hub = hub
        self._sink = sink
        self._timer: asyncio.TimerHandle | None = None

    def send(self, frame: Frame) -> None:
        self._sink.send(frame)

    def expire_after(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self.end)

    def cancel(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._hub.drop(self)

    def end(self) -> None:
        if self._hub.drop(self):
            self.cancel()
            self._sink.close()


class _Framing:
    """The frames of one change, shared by all watchers that see it alike."""

    __slots__ = ("_frames", "change")

    def __init__(self, change: Change) -> None:
        self.change = change
        self._frames: dict[tuple[str, str, str], Frame] = {}

    def frame(self, watch: Watch) -> Frame | None:
        change = self.change
        is_in = not change.is_deleted and watch.selection.matches(change.now)
        if change.before is None:
            was_in = False
        elif watch.selection.is_everything:
            was_in = True
        else:
            was_in = watch.selection.matches(change.before)
        if is_in:
            return self._shared("MODIFIED" if was_in else "ADDED", watch.kind)
        return self._shared("DELETED", watch.kind) if was_in else None

    def _shared(self, type_: str, kind: Kind) -> Frame:
        key = (type_, kind.group, kind.version)
        if key not in self._frames:
            state = self._state(type_)
            is_current = versions.is_stored_as_shown(kind) and type_ != "DELETED"
            self._frames[key] = Frame(type_, versions.shown(kind, state), state if is_current else None)
        return self._frames[key]

    def _state(self, type_: str) -> Stored:
        """What left a selection is shown as it was last seen there, at the revision of its leaving."""
        change = self.change
        if type_ != "DELETED" or change.is_deleted or change.before is None:
            return change.now
        obj = change.before.decode()
        obj["metadata"]["resourceVersion"] = str(change.revision)
        return Stored(change.now.key, change.revision, msgspec.json.encode(obj), change.before.meta)


def _deliver(watch: Watch, framing: _Framing) -> None:
    """A watcher to whom a change cannot be shown is ended, lest it miss one; it will list again."""
    try:
        frame = framing.frame(watch)
    except Exception:
        log.exception("revision %d cannot be shown as %s", framing.change.revision, watch.kind.api_version)
        watch.end()
        return
    if frame is not None:
        watch.send(frame)


class Hub:
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

    def join(self, watch: Watch, missed: Iterable[Change]) -> None:
        """Deliver what was missed, then everything to come."""
        self._watches[watch.resource][watch] = None
        for change in missed:
            key = change.now.key
            if (key.group, key.plural) == watch.resource and watch.selection.reaches(key):
                _deliver(watch, _Framing(change))

    def drop(self, watch: Watch) -> bool:
        """True if it was still there."""
        return self._watches[watch.resource].pop(watch, 0) is None

    def end_watches_of(self, resource: tuple[str, str]) -> None:
        """The resource is no longer served."""
        for watch in list(self._watches[resource]):
            watch.end()

    def publish(self, changes: Sequence[Change]) -> None:
        for change in changes:
            key = change.now.key
            watches = self._watches.get((key.group, key.plural))
            if not watches:
                continue
            framing = _Framing(change)
            for watch in list(watches):
                if watch.selection.reaches(key):
                    _deliver(watch, framing)

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
