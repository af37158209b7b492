"""Three hostile users send anything, and a fourth one works on."""

import os
import random
import re
import sys
import time

import pytest
from tests.cost.flood import campaign

SEED = int(os.environ.get("PYKUEUE_FUZZ_SEED") or 0)
"""0 means: one seed in the short test, any seed in the long one."""
FIRST = int(os.environ.get("PYKUEUE_FLOOD_FIRST") or 0)
"""The number of the first request: a run can go on where another one ended."""
SECONDS = float(os.environ.get("PYKUEUE_FLOOD_SECONDS") or "inf")
"""A run ends after this time and says which request is the next one."""
PART = 10_000
"""So many requests are reported together."""


async def flood(server, users, *, seed, numbers, connections, longest_seconds):
    """What is wrong after these requests."""
    people = [users[name] for name in ("jane", "bob", "carol", "eve")]
    report = await campaign(people, server_pid=server.process.pid, seed=seed, numbers=numbers, connections=connections)
    sys.stdout.write(f"seed {seed}, requests from {numbers.start}: {report}\n")
    sys.stdout.writelines(f"failure: {failure}\n" for failure in report.failures)
    sys.stdout.flush()
    assert server.process.poll() is None, f"seed {seed}: the server has ended: {report}"
    faults = [f"seed {seed}: {failure}" for failure in report.failures]
    if not set(report.work_codes) <= {200, 201} or report.served()[-1] >= longest_seconds:
        faults.append(f"seed {seed}: another user is disturbed: {report}")
    return faults


def log_faults(server):
    log = (server.directory.parent / "data.log").read_bytes()
    tracebacks = [line for line in log.splitlines() if b"Error" in line] if b"Traceback" in log else []
    controls = re.findall(rb".*[\x00-\x09\x0b-\x1f\x7f].*", log)
    return [*tracebacks[:20], *controls[:20]]


async def test_hostile_requests_are_answered_and_nobody_else_waits(server, users):
    seed = SEED or 1
    assert await flood(server, users, seed=seed, numbers=range(800), connections=8, longest_seconds=2) == []
    assert log_faults(server) == []


@pytest.mark.torture
@pytest.mark.timeout(6 * 3600)
async def test_a_million_hostile_requests(server, users):
    count = int(os.environ.get("PYKUEUE_FLOOD_REQUESTS") or 1_000_000)
    seed = SEED or random.randrange(2**32)
    faults = []
    began = time.monotonic()
    for start in range(FIRST, FIRST + count, PART):
        if time.monotonic() - began > SECONDS:
            sys.stdout.write(f"go on with PYKUEUE_FLOOD_FIRST={start} PYKUEUE_FUZZ_SEED={seed}\n")
            break
        numbers = range(start, min(start + PART, FIRST + count))
        faults += await flood(server, users, seed=seed, numbers=numbers, connections=16, longest_seconds=1)
    assert faults == []
    assert log_faults(server) == []
