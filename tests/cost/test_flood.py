"""Two hostile users send anything, and a third one works on."""

import os
import random
import sys

import pytest
from tests.cost.flood import campaign

SEED = int(os.environ.get("PYKUEUE_FUZZ_SEED") or random.randrange(2**32))


async def flood(server, users, *, count, connections, longest_seconds):
    report = await campaign(
        [users["jane"], users["bob"]], users["eve"], seed=SEED, count=count, connections=connections
    )
    sys.stdout.write(f"seed {SEED}: {report}\n")
    assert server.process.poll() is None, f"seed {SEED}: the server has ended: {report}"
    assert report.failures == [], f"seed {SEED}"
    assert set(report.work_codes) <= {200, 201}, f"seed {SEED}: {report}"
    assert max(report.waits) < longest_seconds, f"seed {SEED}: {report}"


async def test_hostile_requests_are_answered_and_nobody_else_waits(server, users):
    await flood(server, users, count=800, connections=8, longest_seconds=5)


@pytest.mark.torture
@pytest.mark.timeout(4 * 3600)
async def test_a_million_hostile_requests(server, users):
    count = int(os.environ.get("PYKUEUE_FLOOD_REQUESTS") or 1_000_000)
    await flood(server, users, count=count, connections=32, longest_seconds=1)
