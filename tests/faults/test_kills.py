"""SIGKILL under load, at any moment: nothing acknowledged is lost, and usage equals admissions.

The server has its controllers, its store compacts all the time, and it is also killed while it
starts, on an empty directory, too.
"""

import asyncio
import os
import random
import shutil
import sys
import time

import pytest
from tests.faults import killed_server
from tests.faults.killed_server import KilledServer, Memory

SEED = int(os.environ.get("PYKUEUE_FUZZ_SEED") or 0)
KILLS = int(os.environ.get("PYKUEUE_KILLS") or 1000)
MOST_WRITES = 60
FIRST_STARTS = 10
"""One in so many kills hits the first start on an empty directory."""


@pytest.fixture
def server():
    server = KilledServer()
    yield server
    errors = server.close()
    assert "Traceback" not in errors, errors


async def kill_later(server, seconds):
    await asyncio.sleep(seconds)  # the moment of the kill is the point of this test
    await asyncio.to_thread(server.kill)


async def kill_after_writes(server, memory, choice):
    async with asyncio.timeout(60):
        await memory.more(choice.randint(1, MOST_WRITES))
    await kill_later(server, choice.uniform(0, 0.03))


async def kill_starts(server, directory, choice):
    """Kill it while it starts, some times, then let it start."""
    kills = 0
    while choice.random() < 0.3:
        server.begin(directory)
        await kill_later(server, choice.uniform(0, 0.5))
        kills += 1
    server.begin(directory)
    await asyncio.to_thread(server.wait_until_ready)
    return kills


async def campaign(server, tmp_path, kills, seed):
    choice = random.Random(seed)
    directory, memory = tmp_path / "data", Memory()
    done = starts = 0
    durations = []
    while done + starts < kills:
        if choice.random() < 1 / FIRST_STARTS:
            fresh = tmp_path / f"fresh-{done}"
            starts += await kill_starts(server, fresh, choice)
            await asyncio.to_thread(server.kill)
            done += 1
            shutil.rmtree(fresh)
            continue
        began = time.monotonic()
        starts += await kill_starts(server, directory, choice)
        durations.append(time.monotonic() - began)
        faults = memory.check(*await killed_server.stored(directory))
        await killed_server.prepare(directory)
        faults += await killed_server.quota_faults(directory)
        assert not faults, f"seed {seed}, after {done + starts} kills: {faults}"
        shown, _ = await asyncio.gather(
            killed_server.load(directory, memory, f"{seed}-{done}"), kill_after_writes(server, memory, choice)
        )
        memory.newest = max([memory.newest, *shown])
        done += 1
        if not done % 50:
            sys.stdout.write(f"{done + starts} kills, acknowledged: {dict(memory.acknowledged)}\n")
            sys.stdout.flush()
    sys.stdout.write(
        f"seed {seed}: {done} kills under load or at first starts, {starts} at starts; acknowledged: "
        f"{dict(memory.acknowledged)}; median start {sorted(durations)[len(durations) // 2]:.2f} s\n"
    )
    assert memory.acknowledged.total() > kills


async def test_ten_kills(server, tmp_path):
    await campaign(server, tmp_path, 10, seed=SEED or 1)


@pytest.mark.torture
@pytest.mark.timeout(4 * 3600)
async def test_a_thousand_kills(server, tmp_path):
    await campaign(server, tmp_path, KILLS, seed=SEED or time.time_ns())
