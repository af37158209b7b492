"""Leader election on every client, in virtual time."""

import asyncio

import pytest

from pykueue.api.resources import LEASE
from pykueue.kube.lease import LeaderElector, LeaseTiming

TIMING = LeaseTiming(lease_seconds=15, renew_seconds=10, retry_seconds=2)


class VirtualClock:
    """Time stands still until `advance`; a sleeper wakes up when its time has come."""

    def __init__(self):
        self.seconds = 0.0
        self.sleepers = []
        self.falls_asleep = asyncio.Semaphore(0)

    def now_ns(self):
        return int(self.seconds * 1_000_000_000)

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        self.sleepers.append((self.seconds + seconds, woken))
        self.falls_asleep.release()
        await woken

    async def advance(self, seconds):
        self.seconds += seconds
        due = [woken for time, woken in self.sleepers if time <= self.seconds]
        self.sleepers = [(time, woken) for time, woken in self.sleepers if time > self.seconds]
        for woken in due:
            woken.set_result(None)
        await self.asleep(len(due))

    async def asleep(self, count):
        """Wait until so many have gone to sleep (again)."""
        for _ in range(count):
            await asyncio.wait_for(self.falls_asleep.acquire(), 10)


class Candidate:
    def __init__(self, client, clock, identity):
        self.election = LeaderElector(
            client, clock, namespace="default", name="pykueue", identity=identity, timing=TIMING
        )
        self.clock = clock
        self.leads = asyncio.Event()
        self.task = asyncio.create_task(self.election.run(self._lead))

    async def _lead(self):
        self.leads.set()
        await asyncio.Event().wait()

    async def stop(self):
        self.clock.sleepers.clear()
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


@pytest.fixture
def clock():
    return VirtualClock()


async def test_one_of_two_leads(client, clock):
    first = Candidate(client, clock, "a")
    await asyncio.wait_for(first.leads.wait(), 10)
    second = Candidate(client, clock, "b")
    await clock.asleep(2)
    for _ in range(20):
        await clock.advance(2)
    assert (first.election.is_leader, second.election.is_leader) == (True, False)
    assert (await client.get(LEASE, "pykueue", "default"))["spec"]["holderIdentity"] == "a"
    await first.stop()
    await second.stop()


async def test_a_leader_that_stops_lets_the_next_in_at_once(client, clock):
    first = Candidate(client, clock, "a")
    await asyncio.wait_for(first.leads.wait(), 10)
    await first.stop()
    second = Candidate(client, clock, "b")
    await asyncio.wait_for(second.leads.wait(), 10)
    assert (await client.get(LEASE, "pykueue", "default"))["spec"]["leaseTransitions"] == 1
    await second.stop()


async def test_a_silent_leader_is_replaced_after_its_lease(client, clock):
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    await client.create(LEASE, {"metadata": {"name": "pykueue", "namespace": "default"}, "spec": spec})
    second = Candidate(client, clock, "b")
    await clock.asleep(1)
    for _ in range(4):
        await clock.advance(3)
    assert not second.leads.is_set()
    for _ in range(3):
        await clock.advance(3)
    await asyncio.wait_for(second.leads.wait(), 10)
    await second.stop()
