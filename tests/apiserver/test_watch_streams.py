import asyncio
import itertools
import json

import pytest

from pykueue.api import registry
from pykueue.apiserver.calls import ADMIN, ResourceTarget, WatchFrame
from pykueue.apiserver.http import encoding, routes, watch_streams
from pykueue.apiserver.http.messages import HttpRequest

FRAME = WatchFrame("ADDED", b"{}")
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Pipe:
    """A stream whose reader is as slow as the test wants."""

    def __init__(self):
        self.waiting = 0
        self.written = []
        self.first_write = asyncio.Event()
        self.is_aborted = False
        self.may_drain = asyncio.Event()

    def is_closing(self):
        return self.is_aborted

    def get_write_buffer_size(self):
        return self.waiting

    def write(self, data):
        self.written.append(data)
        self.first_write.set()

    def abort(self):
        self.is_aborted = True

    async def drain(self):
        await self.may_drain.wait()
        self.waiting = 0


@pytest.fixture
async def pipe():
    return Pipe()


def sink(pipe):
    return watch_streams.WatchSink(pipe, lambda frame: frame.line)


async def test_the_frames_of_one_turn_are_one_write(pipe):
    fast = sink(pipe)
    fast.send(FRAME)
    fast.send(FRAME)
    await asyncio.sleep(0)
    fast.send(FRAME)
    await asyncio.sleep(0)
    assert pipe.written == [2 * FRAME.line, FRAME.line]


async def test_many_watches_are_written_in_several_turns():
    queue, pipes = watch_streams.FlushQueue(), [Pipe() for _ in range(3 * watch_streams.FLUSHES_PER_TURN)]
    for stream in pipes:
        watch_streams.WatchSink(stream, lambda frame: frame.line, queue).send(FRAME)
    counts = []
    for _ in range(4):
        await asyncio.sleep(0)
        counts.append(sum(len(stream.written) for stream in pipes))
    assert counts == [16, 32, 48, 48]


async def test_many_backlogs_are_written_in_several_turns():
    """Watches with many first events, whose clients read on at the same time."""
    queue, pipes = watch_streams.FlushQueue(), [Pipe() for _ in range(3 * watch_streams.FLUSHES_PER_TURN)]
    for stream in pipes:
        stream.waiting = watch_streams.HIGH_WATER_BYTES + 1
        watch_streams.WatchSink(stream, lambda frame: frame.line, queue).send(FRAME)
    for stream in pipes:
        stream.may_drain.set()
    counts = [0]
    async with asyncio.timeout(10):
        while counts[-1] < len(pipes):
            await asyncio.sleep(0)
            counts.append(sum(len(stream.written) for stream in pipes))
    assert max(later - former for former, later in itertools.pairwise(counts)) == 1


async def test_backlogs_of_another_user_do_not_wait_for_all():
    queue, pipes = watch_streams.FlushQueue(), [Pipe() for _ in range(20)]
    for number, stream in enumerate(pipes):
        stream.may_drain.set()
        user = "eve" if number == 19 else "jane"
        first = watch_streams.WatchSink(stream, lambda frame: frame.line, queue, user=user)
        first.send_first(iter([FRAME]))
    await asyncio.wait_for(pipes[-1].first_write.wait(), 10)
    assert sum(len(stream.written) for stream in pipes) <= 10


async def test_first_events_are_encoded_as_the_client_reads(pipe):
    frames = iter([FRAME] * 10_000)
    slow = sink(pipe)
    slow.send_first(frames)
    slow.send(WatchFrame("DELETED", b"{}"))
    await asyncio.sleep(0)
    assert pipe.written == []
    pipe.may_drain.set()
    await asyncio.wait_for(pipe.first_write.wait(), 10)
    assert len(list(frames)) > 5_000
    slow.close()
    await asyncio.wait_for(slow.finished.wait(), 5)
    assert pipe.written[-1].endswith(b'{"type":"DELETED","object":{}}\n')


@pytest.mark.parametrize(("is_decoded", "most"), [(False, 1024), (True, 64)])
async def test_a_turn_writes_fewer_events_that_are_decoded(pipe, is_decoded, most):
    """Also if none of the objects are selected."""
    pipe.may_drain.set()
    for frame in (FRAME, 2):
        taken = []
        slow = watch_streams.WatchSink(pipe, lambda frame: frame.line, is_decoded=is_decoded)
        slow.send_first(taken.append(number) or frame for number in range(5000))
        counts = [0]
        async with asyncio.timeout(10):
            while counts[-1] < 5000:
                await asyncio.sleep(0)
                counts.append(len(taken))
        assert max(later - former for former, later in itertools.pairwise(counts)) <= most


async def test_a_watch_that_ends_writes_its_last_frame(pipe):
    ended = sink(pipe)
    ended.send(FRAME)
    ended.close()
    assert pipe.written == [FRAME.line]
    assert ended.finished.is_set()


async def test_frames_wait_in_order_for_a_slow_reader(pipe):
    slow = sink(pipe)
    pipe.waiting = watch_streams.HIGH_WATER_BYTES + 1
    slow.send(FRAME)
    slow.send(FRAME)
    slow.close()
    assert pipe.written == []
    pipe.may_drain.set()
    await asyncio.wait_for(slow.finished.wait(), 5)
    assert pipe.written == [2 * FRAME.line]


async def test_a_large_turn_waits_for_its_reader(pipe, monkeypatch):
    monkeypatch.setattr(watch_streams, "HIGH_WATER_BYTES", 2 * len(FRAME.line))
    slow = sink(pipe)
    for _ in range(7):
        slow.send(FRAME)
    pipe.may_drain.set()
    slow.close()
    await asyncio.wait_for(slow.finished.wait(), 5)
    assert b"".join(pipe.written).count(FRAME.line) == 7
    assert len(pipe.written) == 2


async def test_a_reader_that_stops_is_dropped(pipe, monkeypatch):
    monkeypatch.setattr(watch_streams, "STALL_SECONDS", 0)
    stalled = sink(pipe)
    pipe.waiting = watch_streams.HIGH_WATER_BYTES + 1
    stalled.send(FRAME)
    await asyncio.wait_for(stalled.finished.wait(), 5)
    assert pipe.is_aborted


async def test_a_reader_too_far_behind_is_dropped(pipe, monkeypatch):
    monkeypatch.setattr(watch_streams, "LONGEST_BACKLOG", 2)
    behind = sink(pipe)
    pipe.waiting = watch_streams.HIGH_WATER_BYTES + 1
    for _ in range(3):
        behind.send(FRAME)
    assert pipe.is_aborted
    assert behind.finished.is_set()


async def test_a_watch_ends_when_its_client_disconnects(pipe):
    watch_sink = sink(pipe)
    pipe.abort()
    watch_sink.send(FRAME)
    assert watch_sink.finished.is_set()


async def test_a_large_frame_is_written_at_the_speed_of_its_reader(pipe):
    large = WatchFrame("ADDED", b"x" * (5 * watch_streams.PIECE_BYTES))
    slow = sink(pipe)
    slow.send(FRAME)
    slow.send(large)
    slow.send(FRAME)
    for _ in range(20):
        await asyncio.sleep(0)
    assert sum(map(len, pipe.written)) <= watch_streams.PIECE_BYTES + len(FRAME.line)
    pipe.may_drain.set()
    slow.close()
    await asyncio.wait_for(slow.finished.wait(), 5)
    assert b"".join(pipe.written) == FRAME.line + large.line + FRAME.line


async def test_a_reader_with_too_many_bytes_to_come_is_dropped(pipe, monkeypatch):
    monkeypatch.setattr(watch_streams, "LARGEST_BACKLOG_BYTES", 3 * len(FRAME.data))
    behind = sink(pipe)
    pipe.waiting = watch_streams.HIGH_WATER_BYTES + 1
    behind.send_first(iter([FRAME] * 10))
    for _ in range(3):
        behind.send(FRAME)
    assert not pipe.is_aborted
    behind.send(FRAME)
    assert pipe.is_aborted


async def test_a_stream_that_is_full_but_does_not_wait_gets_its_frames(pipe):
    """The limit of a transport may be larger than ours."""
    full = sink(pipe)
    pipe.waiting = watch_streams.HIGH_WATER_BYTES + 1
    pipe.drain = lambda: asyncio.sleep(0)
    for _ in range(3):
        full.send(FRAME)
    full.close()
    await asyncio.wait_for(full.finished.wait(), 5)
    assert b"".join(pipe.written) == 3 * FRAME.line


async def test_watches_as_tables_share_their_rows(monkeypatch):
    """One change may go to hundreds of watches."""
    kind = registry.scheme().for_object({"apiVersion": "v1", "kind": "Pod"})
    route = routes.parse("GET", "/api/v1/namespaces/ml/pods", {"watch": "1"})
    request = HttpRequest(method="GET", route=route, user=ADMIN, query={}, accept=TABLE)
    encoders = [watch_streams.encoder(request, ResourceTarget(kind=kind, namespace="ml")) for _ in range(10)]
    frames = [WatchFrame("ADDED", b'{"metadata":{"name":"a","resourceVersion":"1"}}') for _ in range(2)]
    encoded = []
    transformed = encoding.transformed
    monkeypatch.setattr(encoding, "transformed", lambda *given: encoded.append(given) or transformed(*given))
    lines = [{encode(frame) for encode in encoders} for frame in frames]
    assert [len(shared) for shared in lines] == [1, 1]
    assert len(encoded) == 2
    first, second = (json.loads(shared.pop())["object"] for shared in lines)
    assert [len(table["rows"]) for table in (first, second)] == [1, 1]
    assert first["columnDefinitions"]
    assert second["columnDefinitions"] == []
