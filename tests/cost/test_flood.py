"""Two hostile users send anything, and a third one works on."""

import os
import random
import sys

import pytest
from tests.cost.flood import campaign

SEED = int(os.environ.get("PYKUEUE_FUZZ_SEED") or 0)
"""0 means: one seed in the short test, any seed in the long one."""


async def flood(server, users, *, seed, count, connections, longest_seconds):
    report = await campaign(
        [users["jane"], users["bob"]], users["eve"], seed=seed, count=count, connections=connections
    )
    sys.stdout.write(f"seed {seed}: {report}\n")
    assert server.process.poll() is None, f"seed {seed}: the server has ended: {report}"
    assert report.failures == [], f"seed {seed}"
    assert set(report.work_codes) <= {200, 201}, f"seed {seed}: {report}"
    assert max(report.waits) < longest_seconds, f"seed {seed}: {report}"


async def test_hostile_requests_are_answered_and_nobody_else_waits(server, users):
    await flood(server, users, seed=SEED or 1, count=800, connections=8, longest_seconds=5)


@pytest.mark.torture
@pytest.mark.timeout(4 * 3600)
async def test_a_million_hostile_requests(server, users):
    count = int(os.environ.get("PYKUEUE_FLOOD_REQUESTS") or 1_000_000)
    seed = SEED or random.randrange(2**32)
    await flood(server, users, seed=seed, count=count, connections=32, longest_seconds=1)
