"""The first repeat of an event is written at once, the others are collected for a minute."""

import asyncio
import random

from pykueue.kube.controller.event_recorder import REPEAT_SECONDS, EventRecorder, EventsV1
from pykueue.simulate.event_loop import SimulationLoop, VirtualClock

ABOUT = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "uid": "u"}}


class Writes:
    """The events that a recorder writes: 1 for a creation, else the count of a patch."""

    def __init__(self):
        self.counts = []

    async def create(self, resource, obj, namespace):
        self.counts.append(1)

    async def patch(self, resource, name, namespace, patch):
        self.counts.append(patch["series"]["count"])


def recorded(repeats, *, pause_seconds, then_seconds):
    """What is written when the same event is recorded so often."""
    loop = SimulationLoop(random.Random(1))  # type: ignore[abstract] # without I/O
    writes = Writes()

    async def story():
        recorder = EventRecorder(writes, VirtualClock(loop), EventsV1("test"))
        running = asyncio.ensure_future(recorder.run())
        for _ in range(repeats):
            recorder.record(ABOUT, reason="Pending", message="no quota", component="test")
            await asyncio.sleep(pause_seconds)
        await asyncio.sleep(then_seconds)
        running.cancel()
        await asyncio.wait([running])

    loop.run_until_complete(story())
    loop.close()
    return writes.counts


def test_the_first_repeat_is_written_at_once():
    assert recorded(2, pause_seconds=1, then_seconds=1) == [1, 2]


def test_later_repeats_wait_for_the_end_of_the_minute():
    assert recorded(20, pause_seconds=1, then_seconds=1) == [1, 2]


def test_the_latest_count_is_written():
    assert recorded(20, pause_seconds=1, then_seconds=REPEAT_SECONDS) == [1, 2, 20]


def test_an_event_that_goes_on_is_written_once_a_minute():
    counts = recorded(300, pause_seconds=1, then_seconds=2 * REPEAT_SECONDS)
    assert len(counts) <= 2 + 300 / REPEAT_SECONDS + 1
    assert counts[-1] == 300
