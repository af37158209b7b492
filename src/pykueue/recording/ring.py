"""The ring: segments of records in a directory, of which only the newest are kept.

A record is its length, a checksum and its bytes. Every segment begins with a header and, unless
the engine was empty then, with a checkpoint: the last event of every object. So a segment can be
replayed without those before it. A record that a crash cut off ends its segment.

A thread encodes and writes; the event loop only appends to a queue. The thread looks at the queue
ten times a second at most: to wake it for every event would cost more than the event.
"""

import asyncio
import contextlib
import logging
import os
import queue
import struct
import threading
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

import pykueue
from pykueue.engine import decisions, events
from pykueue.engine.policy import Policy
from pykueue.recording import records
from pykueue.recording.records import Record, SegmentHeader

log = logging.getLogger(__name__)

DIRECTORY = "decisions"
"""The ring of `pykueue up`, inside its data directory."""
DEFAULT_BYTES = 64 << 20
_SEGMENTS = 4
_MOST_SEGMENTS = 64
"""Every start begins a segment; so many of them are kept at most."""
_FRAME = struct.Struct(">II")
_LARGEST_RECORD = 16 << 20
_PREFIX = "segment-"
_BATCH = 1 << 16
_PAUSE_SECONDS = 0.1

ObjectKey = tuple[str, str]
_Queued = tuple[events.EngineEvent, list[decisions.Decision] | None]


class RingOptions(msgspec.Struct, frozen=True, kw_only=True):
    directory: Path
    size: int = DEFAULT_BYTES
    """About how many bytes all segments may take."""


class RingWriter:
    """Writes a ring. `event` and `cycle` never block and never fail."""

    def __init__(self, options: RingOptions, policy: Policy) -> None:
        self._directory = options.directory
        self._policy = policy
        self._size = options.size
        self._segment_bytes = options.size // _SEGMENTS
        self._queue: queue.SimpleQueue[_Queued | None] = queue.SimpleQueue()
        self._latest: dict[ObjectKey, events.EngineEvent] = {}
        self._written = 0
        self._limit = self._segment_bytes
        self._file = -1
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine recording", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def event(self, event: events.EngineEvent) -> None:
        self._queue.put((event, None))

    def cycle(self, event: events.CycleDue, decided: list[decisions.Decision]) -> None:
        self._queue.put((event, decided))

    def close(self) -> None:
        """Write what is queued, and end. Nothing may be recorded afterwards."""
        self._queue.put(None)
        self._is_closing.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._begin(is_start=True)
            self._write_queued()
        except OSError as error:
            log.warning("events are no longer recorded: %s", error)
            while self._queue.get() is not None:
                pass
        finally:
            if self._file >= 0:
                os.close(self._file)

    def _write_queued(self) -> None:
        while True:
            queued = self._queue.get()
            frames: list[bytes] = []
            size = 0
            while queued is not None:
                frames.append(self._frame(queued))
                size += len(frames[-1])
                if size >= _BATCH or self._queue.empty():
                    break
                queued = self._queue.get()
            self._append(b"".join(frames))
            if queued is None:
                return
            if self._written > self._limit:
                self._begin(is_start=False)
            if self._queue.empty():
                self._is_closing.wait(_PAUSE_SECONDS)

    def _frame(self, queued: _Queued) -> bytes:
        event, decided = queued
        if decided is None:
            self._remember(event)
            return _framed(records.encode(Record(event)))
        return _framed(records.encode(Record(event, records.summary(decided))))

    def _remember(self, event: events.EngineEvent) -> None:
        """Keep the last event of every object, for the next checkpoint."""
        key, exists = object_of(event)
        if exists:
            self._latest[key] = event
        else:
            self._latest.pop(key, None)

    def _append(self, data: bytes) -> None:
        self._written += len(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def _begin(self, *, is_start: bool) -> None:
        """Begin a segment with a header and a checkpoint, and remove the oldest one."""
        if self._file >= 0:
            os.close(self._file)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        present = segments(self._directory)
        number = _number(present[-1]) + 1 if present else 1
        path = self._directory / f"{_PREFIX}{number:08}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        self._written = 0
        header = SegmentHeader(
            format=records.FORMAT, version=pykueue.__version__, policy=self._policy, is_start=is_start
        )
        self._append(_framed(records.encode_header(header)))
        for event in self._latest.values():
            self._append(_framed(records.encode(Record(event, is_checkpoint=True))))
        self._limit = max(self._segment_bytes, 2 * self._written)
        self._remove_oldest(present)

    def _remove_oldest(self, present: list[Path]) -> None:
        """Leave room for the segment that has just begun; the one before it always stays."""
        unused_bytes = self._size - self._segment_bytes
        for position, path in enumerate(reversed(present)):
            with contextlib.suppress(OSError):
                unused_bytes -= path.stat().st_size
                if position and (unused_bytes < 0 or position >= _MOST_SEGMENTS):
                    path.unlink()


@contextlib.asynccontextmanager
async def recorded(writer: RingWriter | None) -> AsyncIterator[None]:
    """Write while the block runs; without a writer nothing is recorded."""
    if writer is None:
        yield
        return
    writer.start()
    try:
        yield
    finally:
        await asyncio.to_thread(writer.close)


def object_of(event: events.EngineEvent) -> tuple[ObjectKey, bool]:  # noqa: C901, PLR0912 - the table of events
    """The object that an event is about, and whether it still matters."""
    match event:
        case events.WorkloadArrived() | events.WorkloadChanged():
            return ("Workload", event.workload.key), not event.workload.finished
        case events.WorkloadGone():
            return ("Workload", event.key), False
        case events.ClusterQueueChanged():
            return ("ClusterQueue", event.cluster_queue.name), True
        case events.CohortChanged():
            return ("Cohort", event.cohort.name), True
        case events.FlavorChanged():
            return ("Flavor", event.flavor.name), True
        case events.LocalQueueChanged():
            return ("LocalQueue", event.local_queue.key), True
        case events.LocalQueueUsageSampled():
            return ("LocalQueueUsage", event.key), True
        case events.LocalQueueGone():
            return ("LocalQueue", event.key), False
        case events.AdmissionCheckChanged():
            return ("AdmissionCheck", event.check.name), True
        case events.NodeChanged():
            return ("Node", event.node.name), True
        case events.PodBound():
            return ("Pod", event.key), True
        case events.PodEnded():
            return ("Pod", event.key), False
        case events.TopologyChanged() | events.NamespaceChanged():
            return (type(event).__name__.removesuffix("Changed"), event.name), True
        case events.AdmissionRefused() | events.EvictionRefused() | events.CycleDue():
            return ("", ""), False
        case _:
            return (type(event).__name__.removesuffix("Gone"), event.name), False


def _framed(data: bytes) -> bytes:
    return _FRAME.pack(len(data), zlib.crc32(data)) + data


def segments(directory: Path) -> list[Path]:
    """The segments of a ring, the oldest first."""
    return sorted((path for path in directory.glob(f"{_PREFIX}*") if path.name[len(_PREFIX) :].isdigit()), key=_number)


def _number(path: Path) -> int:
    return int(path.name[len(_PREFIX) :])


class Segment(NamedTuple):
    path: Path
    header: SegmentHeader
    records: Iterator[Record]


def read(directory: Path) -> Iterator[Segment]:
    """The segments of a ring. The records of a segment must be read before the next segment."""
    for path in segments(directory):
        frames = _frames(path)
        first = next(frames, None)
        if first is not None:
            yield Segment(path, records.decode_header(first), map(records.decode, frames))


def _frames(path: Path) -> Iterator[bytes]:
    """The records of a file up to its end, or to one that a crash cut off."""
    with path.open("rb") as file:
        while len(head := file.read(_FRAME.size)) == _FRAME.size:
            length, checksum = _FRAME.unpack(head)
            data = file.read(length) if length <= _LARGEST_RECORD else b""
            if len(data) != length or zlib.crc32(data) != checksum:
                return
            yield data
