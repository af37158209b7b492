"""A random campaign of jobs and faults: no job is lost, none runs twice, no quota is exceeded."""

import asyncio
import itertools
import random
from collections import Counter
from dataclasses import dataclass

import pytest
from tests.multikueue.fleet import RUNTIME, job, play

from pykueue.api import conditions, objects, resources
from pykueue.simulate.faults import FaultRates

WORKERS = ("worker1", "worker2", "worker3")
CALM = FaultRates(slow=0.3, very_slow=0.002, request_lost=0.002, answer_lost=0.002, server_error=0.002)
NETWORK_FAULTS = ("cut", "half-open", "delay", "backup")
"""The last one restarts a worker with the state that it had a while ago."""
CRASHES = ("api server", "manager", "controllers")
LONGEST_SECONDS = 60
"""Faults are shorter than the time after which a worker counts as lost (15 minutes)."""
STATUS_SECONDS = 5
CPUS = 4


@dataclass(frozen=True, kw_only=True)
class Start:
    """A job whose pod started on a worker."""

    name: str
    worker: str
    seconds: float
    ends_seconds: float


@dataclass(frozen=True, kw_only=True)
class Restoration:
    """A worker that forgot what happened since its backup was made."""

    worker: str
    backup_seconds: float
    seconds: float

    def forgot(self, start, outages):
        """Whether the backup does not have the end of a job, which is stored a bit later, or when
        the API server of the worker is back.
        """
        stored_seconds = start.ends_seconds + STATUS_SECONDS
        for outage in outages:
            if outage.worker == start.worker and outage.begins_seconds <= stored_seconds:
                stored_seconds = max(stored_seconds, outage.ends_seconds + STATUS_SECONDS)
        has_not_ended = self.backup_seconds <= stored_seconds
        return self.worker == start.worker and has_not_ended and start.seconds <= self.seconds


@dataclass(frozen=True, kw_only=True)
class Outage:
    """The time in which a worker had no API server."""

    worker: str
    begins_seconds: float
    ends_seconds: float


class Campaign:
    """A user who submits and deletes jobs, and a network and workers that fail."""

    def __init__(self, fleet, *, jobs, faults):
        self.fleet = fleet
        self.draw = random.Random(f"{fleet.seed} campaign")
        self.jobs = jobs
        self.faults = faults
        self.submitted = []
        self.unfinished = []
        self.deleted = set()
        self.happened = Counter()
        self.starts = []
        self.restorations = []
        self.outages = []
        self.failing = set()
        """The clusters that have a fault: each has one at a time."""
        fleet.on_start = self._started

    def seconds(self):
        return self.fleet.loop.time()

    def _started(self, worker, pod):
        name, runs_seconds = objects.labels(pod)["job-name"], int(objects.annotations(pod)[RUNTIME])
        ends_seconds = self.seconds() + runs_seconds
        self.starts.append(Start(name=name, worker=worker, seconds=self.seconds(), ends_seconds=ends_seconds))

    async def run(self):
        self.fleet.faults.is_calm = False
        checking = asyncio.ensure_future(self._check_always())
        breaking = asyncio.ensure_future(self._break())
        for number in range(self.jobs):
            await self._submit(f"job-{number}")
            await asyncio.sleep(self.draw.random() * 4)
        await breaking
        self.fleet.faults.is_calm = True
        for link in self.fleet.links.values():
            link.restore()
        await self.fleet.until(self._are_all_finished, seconds=6 * 3600)
        await self.fleet.until(self._are_workers_empty, seconds=1200)
        checking.cancel()
        self._check_starts()

    async def _submit(self, name):
        client = self.fleet.manager.client
        seconds = str(self.draw.choice((1, 5, 30, 60)))
        await client.create(resources.JOB, job(name, seconds=seconds, cpu=str(self.draw.choice((1, 1, 2)))), "default")
        self.submitted.append(name)
        self.unfinished.append(name)
        if self.draw.random() < 0.1:
            victim = self.draw.choice(self.submitted)
            if victim not in self.deleted:
                self.deleted.add(victim)
                await client.delete(resources.JOB, victim, "default")

    async def _break(self):
        """Break the network; in one of four cases a program crashes as well."""
        spacing_seconds = self.jobs * 2 / self.faults
        async with asyncio.TaskGroup() as group:
            for number in range(self.faults):
                await asyncio.sleep(self.draw.random() * 2 * spacing_seconds)
                group.create_task(self._break_network(NETWORK_FAULTS[number % len(NETWORK_FAULTS)]))
                if self.draw.random() < 0.25:
                    group.create_task(self._crash(self.draw.choice(CRASHES)))

    async def _break_network(self, fault):
        name = self.draw.choice(await self.fleet.until(self._sound_workers))
        self.failing.add(name)
        self.happened[fault] += 1
        link, worker, seconds = self.fleet.links[name], self.fleet[name], self.draw.random() * LONGEST_SECONDS
        if fault == "cut":
            link.cut()
        elif fault == "half-open":
            link.silence()
        elif fault == "delay":
            link.delay_seconds = self.draw.random() * 3
        backup, backup_seconds = worker.backup(), self.seconds()
        await asyncio.sleep(seconds)
        if fault == "backup":
            self.restorations.append(Restoration(worker=name, backup_seconds=backup_seconds, seconds=self.seconds()))
            await worker.restart(seconds / 10, backup)
        link.restore()
        self.failing.discard(name)

    async def _sound_workers(self):
        return [name for name in WORKERS if name not in self.failing]

    async def _crash(self, program):
        cluster = self.fleet.manager if program == "manager" else self.fleet[self.draw.choice(WORKERS)]
        if cluster.name in self.failing:
            return
        self.failing.add(cluster.name)
        self.happened[program] += 1
        seconds = self.draw.random() * LONGEST_SECONDS / 3
        if program == "api server":
            begins_seconds = self.seconds()
            await cluster.restart(seconds)
            self.outages.append(Outage(worker=cluster.name, begins_seconds=begins_seconds, ends_seconds=self.seconds()))
        else:
            cluster.kill("controllers")
            await asyncio.sleep(seconds)
            cluster.start_controllers()
        self.failing.discard(cluster.name)

    def figures(self):
        again = len(self.starts) - len({start.name for start in self.starts})
        return (
            f"{len(self.submitted)} jobs, {len(self.deleted)} deleted; {dict(self.happened)}; "
            f"starts: {dict(Counter(start.worker for start in self.starts))}, {again} of them again after a backup; "
            f"{self.seconds():.0f} s; {len(self.fleet.violations)} violations"
        )

    # Checks

    async def _check_always(self):
        while True:
            await asyncio.sleep(1)
            running = {}
            for worker in self.fleet.workers.values():
                processes = worker.machine.running()
                used = sum(map(_requested_cpu, processes))
                if used > CPUS:
                    self.fleet.violations.append(f"{worker.name} runs {used} CPUs")
                for process in processes:
                    running.setdefault(objects.labels(process.pod)["job-name"], set()).add(worker.name)
            self.fleet.violations += [f"{name} runs on {places}" for name, places in running.items() if len(places) > 1]

    async def _are_all_finished(self):
        """The jobs are asked for in order, so that a long campaign asks for each of them once."""
        while self.unfinished:
            name = self.unfinished[0]
            if name not in self.deleted:
                current = await self.fleet.manager.get(resources.JOB, name)
                assert current is not None, f"{name} is lost"
                if not conditions.is_true(current, "Complete"):
                    return False
            self.unfinished.pop(0)
        return True

    async def _are_workers_empty(self):
        for worker in self.fleet.workers.values():
            jobs = (await worker.client.list(resources.JOB, "default")).items
            if jobs or await worker.workloads() or worker.machine.running():
                return False
        return True

    def _check_starts(self):
        """A job starts once, and again only on account of a worker that forgot its start."""
        starts = {}
        for start in self.starts:
            starts.setdefault(start.name, []).append(start)
        never = [name for name in self.submitted if name not in starts and name not in self.deleted]
        again = [
            (former, latter)
            for several in starts.values()
            for former, latter in itertools.pairwise(several)
            if not any(restoration.forgot(former, self.outages) for restoration in self.restorations)
        ]
        assert (again, never) == ([], []), (again, never, self.restorations)


def _requested_cpu(process):
    return sum(int(c["resources"]["requests"]["cpu"]) for c in process.pod["spec"]["containers"])


def run_campaign(seed, *, jobs, faults):
    campaigns = []

    async def story(fleet):
        campaigns.append(Campaign(fleet, jobs=jobs, faults=faults))
        await campaigns[0].run()

    play(story, seed=seed, workers=WORKERS, rates=CALM, cpu=str(CPUS))
    return campaigns[0]


@pytest.mark.parametrize("seed", range(2))
def test_no_job_is_lost_and_none_runs_twice(seed):
    run_campaign(seed, jobs=30, faults=8)


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_two_thousand_jobs_and_two_hundred_faults():
    campaign = run_campaign(100, jobs=2000, faults=200)
    assert sum(campaign.happened[fault] for fault in NETWORK_FAULTS) == 200
    print(campaign.figures())  # noqa: T201 - the figures of a long run are its report
