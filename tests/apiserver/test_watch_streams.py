import asyncio
import itertools

import pytest

from pykueue.apiserver.calls import WatchFrame
from pykueue.apiserver.http import watch_streams

FRAME = WatchFrame("ADDED", b"{}")


class Pipe:
    """A stream whose reader is as slow as the test wants."""

    def __init__(self):
        self.waiting = 0
        self.written = []
        self.is_aborted = False
        self.may_drain = asyncio.Event()

    def is_closing(self):
        return self.is_aborted

    def get_write_buffer_size(self):
        return self.waiting

    def write(self, data):
        self.written.append(data)

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
    counts = []
    for _ in range(50):
        counts.append(sum(len(stream.written) for stream in pipes))
        await asyncio.sleep(0)
    assert counts[-1] == len(pipes)
    assert max(later - former for former, later in itertools.pairwise(counts)) <= watch_streams.FLUSHES_PER_TURN


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
    assert len(pipe.written) == 3


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
    behind.start([FRAME] * 10)
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
