"""Background writes: at once when little happens, seldom under load, never lost."""

import asyncio
import random

import pytest

from pykueue.api.times import SECOND_NS
from pykueue.kube.controller.background_writes import BURST, BUSY_RATE, KEY_BURST, SHARE, BackgroundWrites
from pykueue.simulate.event_loop import SimulationLoop, VirtualClock


class Load:
    """Writes of decisions and background writes in virtual time."""

    def __init__(self, loop):
        self.background = BackgroundWrites(VirtualClock(loop))
        self.started = []
        self._loop = loop

    def submit(self, key, value=None):
        self.background.submit(key, lambda: self.started.append((key, value)))

    async def decide(self, *, seconds, per_second, answer_seconds=0.01, submit=lambda number: None):
        for number in range(int(seconds * per_second)):
            self.background.decided()
            submit(number)
            await asyncio.sleep(1 / per_second)
            self.background.answered(answer_seconds)
            self.background.written()

    @property
    def keys(self):
        return [key for key, _ in self.started]


@pytest.fixture
def play():
    """Runs a story in virtual time; it gets a `Load`."""

    def run(story):
        loop = SimulationLoop(random.Random(1))  # type: ignore[abstract] # without I/O

        async def whole():
            load = Load(loop)
            running = asyncio.ensure_future(load.background.run())
            await story(load)
            running.cancel()
            await asyncio.wait([running])
            return load

        load = loop.run_until_complete(whole())
        loop.close()
        return load

    return run


def test_a_quiet_system_writes_at_once(play):
    async def story(load):
        for number in range(20):
            load.submit(number)
        assert load.keys == [*range(20)]

    play(story)


def test_under_load_background_writes_get_a_small_share(play):
    async def story(load):
        await load.decide(seconds=20, per_second=200, submit=load.submit)

    load = play(story)
    assert len(load.started) <= BURST + 20 * BUSY_RATE + SHARE * 20 * 200 + 1
    assert len(load.started) >= SHARE * 20 * 200


def test_pauses_between_cycles_are_no_rest(play):
    async def story(load):
        for number in range(40):
            load.background.decided()
            for workload in range(100):
                load.submit((number, workload))
            load.background.written()
            load.background.paused(SECOND_NS // 2)
            await asyncio.sleep(0.5)

    assert len(play(story).started) <= BURST + 20 * BUSY_RATE + SHARE * 40 + 1


def test_a_while_in_which_all_workloads_run_is_no_rest_under_load(play):
    async def story(load):
        for number in range(20):
            for _ in range(100):
                load.background.decided()
                load.background.written()
            for workload in range(100):
                load.submit((number, workload))
            await asyncio.sleep(0.5)

    assert len(play(story).started) <= BURST + 10 * BUSY_RATE + SHARE * 2000 + 1


def test_between_few_decisions_a_stream_of_arrivals_is_no_rest(play):
    async def story(load):
        for number in range(10):
            load.background.decided()
            load.background.written()
            for workload in range(200):
                load.background.arrived()
                load.submit((number, workload))
                await asyncio.sleep(0.004)

    later = [key for key in play(story).keys if key[0]]
    assert len(later) <= BURST + 8 * BUSY_RATE + SHARE * 10 + 1


def test_arrivals_without_decisions_are_rest(play):
    async def story(load):
        for workload in range(200):
            load.background.arrived()
            load.submit(workload)
            await asyncio.sleep(0.004)

    assert len(play(story).started) == 200


def test_few_decisions_are_followed_by_rest(play):
    async def story(load):
        for _ in range(5):
            load.background.decided()
            load.background.written()
        for number in range(2 * int(BURST)):
            load.submit(number)
        await asyncio.sleep(0.3)

    assert len(play(story).started) == 2 * BURST


def test_pauses_of_a_busy_machine_are_no_rest(play):
    async def story(load):
        for number in range(100):
            load.background.decided()
            for workload in range(100):
                load.submit((number, workload))
            await asyncio.sleep(0.08)
            load.background.answered(0.08)
            load.background.written()
            await asyncio.sleep(0.15)

    assert len(play(story).started) < 1000, "nearly all of 10,000 must wait"


def test_the_latest_is_written_when_decisions_come_to_rest(play):
    async def story(load):
        await load.decide(seconds=5, per_second=100, submit=lambda number: load.submit(number % 150, number))
        await asyncio.sleep(2)

    load = play(story)
    latest = dict(load.started)
    assert latest == {key: max(number for number in range(500) if number % 150 == key) for key in range(150)}


class SetClock:
    """A clock that somebody sets."""

    def __init__(self):
        self.seconds = 10_000_000

    def now_ns(self):
        return self.seconds * SECOND_NS


@pytest.mark.parametrize("jump_seconds", [3600, -3600, 10**8, -(10**7)])
def test_a_clock_that_is_set_delays_nothing(jump_seconds):
    clock, started = SetClock(), []
    background = BackgroundWrites(clock)
    background.decided()
    background.written()
    clock.seconds += jump_seconds
    background.decided()
    background.written()
    clock.seconds += 2
    for number in range(int(BURST)):
        background.submit(number, lambda: started.append(True))
    assert len(started) == BURST


def test_a_key_that_keeps_changing_is_written_once_a_second(play):
    async def story(load):
        for number in range(1000):
            load.submit("key", number)
            await asyncio.sleep(0.01)
        await asyncio.sleep(2)

    load = play(story)
    assert len(load.started) <= KEY_BURST + 10 + 2
    assert load.started[-1] == ("key", 999)


def test_a_key_that_keeps_changing_does_not_delay_others(play):
    async def story(load):
        for number in range(int(KEY_BURST) + 1):
            load.submit("busy", number)
        load.submit("other", 1)
        load.submit("other", 2)
        assert load.started[-2:] == [("other", 1), ("other", 2)]

    play(story)


def test_without_room_the_oldest_is_written_first(play):
    async def story(load):
        load.background.decided()
        for number in range(2 * int(BURST)):
            load.submit(number)
        await asyncio.sleep(0.3)
        load.submit("late")
        await asyncio.sleep(10)
        assert load.keys == [*range(2 * int(BURST)), "late"]

    play(story)


def test_what_is_dropped_is_not_written(play):
    async def story(load):
        await load.decide(seconds=1, per_second=200, submit=load.submit)
        waiting = set(range(200)) - set(load.keys)
        assert waiting
        for key in waiting:
            load.background.drop(key)
        before = len(load.started)
        await asyncio.sleep(5)
        assert len(load.started) == before

    play(story)


def test_slow_answers_make_background_writes_rare(play):
    counts = {}
    for answer_seconds in (0.01, 2.5):

        async def story(load, answer_seconds=answer_seconds):
            await load.decide(seconds=30, per_second=20, answer_seconds=answer_seconds, submit=load.submit)

        counts[answer_seconds] = len(play(story).started)
    assert counts[2.5] < counts[0.01] / 2


def test_a_write_that_changed_nothing_takes_no_room(play):
    async def story(load):
        for number in range(3 * int(BURST)):
            load.submit(number)
            load.background.unused(number)
        assert len(load.started) == 3 * BURST

    play(story)


def test_a_write_that_brings_about_another_one_leaves_less_room(play):
    async def story(load):
        load.background.decided()
        for number in range(int(BURST)):
            load.background.charge()
            load.submit(number)

    assert len(play(story).started) == BURST / 2
