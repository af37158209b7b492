"""A turn of the event loop that takes too long is logged with its stack, and counted."""

import asyncio
import time

from pykueue.kube import loop_watchdog


def block_the_loop():
    end = time.monotonic() + 3 * loop_watchdog.LIMIT_SECONDS
    while time.monotonic() < end:
        pass


def emit_and_set(emit, logged):
    def emit_record(record):
        emit(record)
        if "block_the_loop" in (record.stack_info or ""):
            logged.set()

    return emit_record


async def test_a_long_turn_is_logged_with_its_stack_and_counted(caplog, monkeypatch):
    caplog.set_level("INFO")
    before, logged = loop_watchdog.blocked_turns, asyncio.Event()
    monkeypatch.setattr(caplog.handler, "emit", emit_and_set(caplog.handler.emit, logged))
    async with loop_watchdog.watched():
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(block_the_loop)
        await asyncio.wait_for(logged.wait(), 10)
    assert loop_watchdog.blocked_turns > before
    assert "ms of CPU" in caplog.text


async def test_only_a_turn_with_much_work_is_a_warning(caplog):
    watchdog = loop_watchdog.LoopWatchdog()
    for cpu_seconds, level in ((1.9, "WARNING"), (0.01, "INFO")):
        caplog.clear()
        caplog.set_level("INFO")
        watchdog._log(now=0.0, late_seconds=2.0, cpu_seconds=cpu_seconds)
        assert [record.levelname for record in caplog.records] == [level]


async def test_the_watchdog_ends_with_its_block():
    watchdog = loop_watchdog.LoopWatchdog()
    watchdog.start()
    watchdog.stop()
    assert not watchdog._thread.is_alive()
