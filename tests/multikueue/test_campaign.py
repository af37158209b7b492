"""A random campaign of jobs and faults: no job is lost, none runs twice, no quota is exceeded."""

import asyncio
import random
from collections import Counter

import pytest
from tests.multikueue.fleet import job, play

from pykueue.api import conditions, objects, resources
from pykueue.simulate.faults import FaultRates

WORKERS = ("worker1", "worker2", "worker3")
LOST_AFTER_SECONDS = 900
CALM = FaultRates(slow=0.3, very_slow=0.002, request_lost=0.002, answer_lost=0.002, server_error=0.002)


def requested_cpu(process):
    return sum(int(c["resources"]["requests"]["cpu"]) for c in process.pod["spec"]["containers"])


class Campaign:
    """A user who submits and deletes jobs, and a network and workers that fail."""

    def __init__(self, fleet, *, jobs, faults):
        self.fleet = fleet
        self.draw = random.Random(f"{fleet.seed} campaign")
        self.jobs = jobs
        self.faults = faults
        self.submitted = []
        self.deleted = set()
        self.happened = []

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
        await self.fleet.until(self._are_all_finished, seconds=3 * 3600)
        await self.fleet.until(self._are_workers_empty, seconds=1200)
        checking.cancel()
        self._check_starts()

    async def _submit(self, name):
        client = self.fleet.manager.client
        seconds = str(self.draw.choice((1, 5, 30, 120)))
        await client.create(resources.JOB, job(name, seconds=seconds, cpu=str(self.draw.choice((1, 1, 2)))), "default")
        self.submitted.append(name)
        if self.draw.random() < 0.1:
            victim = self.draw.choice(self.submitted)
            if victim not in self.deleted:
                self.deleted.add(victim)
                await client.delete(resources.JOB, victim, "default")

    async def _break(self):
        for _ in range(self.faults):
            await asyncio.sleep(self.draw.random() * 20)
            name = self.draw.choice(WORKERS)
            fault = self.draw.choice(("cut", "silence", "slow", "restart", "manager", "controllers"))
            self.happened.append((fault, name))
            await self._break_once(fault, name)

    async def _break_once(self, fault, name):
        """Faults are shorter than the time after which a worker counts as lost."""
        link, worker, seconds = self.fleet.links[name], self.fleet[name], self.draw.random() * 60
        if fault in ("cut", "silence"):
            getattr(link, fault)()
            await asyncio.sleep(seconds)
            link.restore()
        elif fault == "slow":
            link.delay_seconds = self.draw.random() * 3
            await asyncio.sleep(seconds)
            link.restore()
        elif fault == "restart":
            await worker.restart(seconds / 10)
        else:
            cluster = self.fleet.manager if fault == "manager" else worker
            cluster.kill("controllers")
            await asyncio.sleep(seconds / 3)
            cluster.start_controllers()

    def figures(self):
        faults = Counter(fault for fault, _ in self.happened)
        starts = {name: len(worker.started) for name, worker in self.fleet.workers.items()}
        return (
            f"{len(self.submitted)} jobs, {len(self.deleted)} deleted; faults: {dict(faults)}; starts: {starts}; "
            f"{len(self.fleet.violations)} violations"
        )

    # Checks

    async def _check_always(self):
        while True:
            await asyncio.sleep(1)
            running = {}
            for worker in self.fleet.workers.values():
                processes = worker.machine.running()
                used = sum(map(requested_cpu, processes))
                if used > 4:
                    self.fleet.violations.append(f"{worker.name} runs {used} CPUs")
                for process in processes:
                    running.setdefault(objects.labels(process.pod)["job-name"], set()).add(worker.name)
            self.fleet.violations += [f"{name} runs on {places}" for name, places in running.items() if len(places) > 1]

    async def _are_all_finished(self):
        jobs = {
            objects.name(job): job for job in (await self.fleet.manager.client.list(resources.JOB, "default")).items
        }
        expected = [name for name in self.submitted if name not in self.deleted]
        return all(name in jobs and conditions.is_true(jobs[name], "Complete") for name in expected)

    async def _are_workers_empty(self):
        for worker in self.fleet.workers.values():
            jobs = (await worker.client.list(resources.JOB, "default")).items
            if jobs or await worker.workloads() or worker.machine.running():
                return False
        return True

    def _check_starts(self):
        starts = {}
        for worker in self.fleet.workers.values():
            for pod in worker.started:
                name = objects.labels(pod)["job-name"]
                starts[name] = starts.get(name, 0) + 1
        twice = {name: count for name, count in starts.items() if count > 1}
        never = [name for name in self.submitted if name not in starts and name not in self.deleted]
        assert (twice, never) == ({}, [])


def run_campaign(seed, *, jobs, faults):
    campaigns = []

    async def story(fleet):
        campaigns.append(Campaign(fleet, jobs=jobs, faults=faults))
        await campaigns[0].run()

    play(story, seed=seed, workers=WORKERS, rates=CALM)
    return campaigns[0]


@pytest.mark.parametrize("seed", range(2))
def test_no_job_is_lost_and_none_runs_twice(seed):
    run_campaign(seed, jobs=30, faults=8)


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_two_thousand_jobs_and_two_hundred_faults():
    campaign = run_campaign(100, jobs=2000, faults=200)
    print(campaign.figures())  # noqa: T201 - the figures of a long run are its report
