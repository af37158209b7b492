"""The network fails, workers are lost or restored: no job is lost, and none runs twice at a time."""

import asyncio
from functools import partial

import pytest
from tests.multikueue.fleet import job, play

from pykueue.api import conditions, objects, resources
from pykueue.kube.client import DeleteOptions

LOST_AFTER = {"multiKueue": {"workerLostTimeout": "2m", "gcInterval": "30s"}}


async def running_on(fleet, name):
    """The worker that runs the job, once a container of it runs."""
    cluster = await fleet.cluster_of(name)
    running = fleet[cluster].machine.running() if cluster else []
    is_running = any(objects.labels(process.pod).get("job-name") == name for process in running)
    return cluster if is_running else None


async def is_active(fleet, name):
    """Whether the manager shows that the job runs."""
    return bool(objects.status(await fleet.manager.get(resources.JOB, name)).get("active"))


def starts(fleet, name):
    """How often a pod of the job started, by worker."""
    pods = {worker.name: worker.started for worker in fleet.workers.values()}
    counts = {
        worker: sum(objects.labels(pod).get("job-name") == name for pod in started) for worker, started in pods.items()
    }
    return {worker: count for worker, count in counts.items() if count}


async def has_no_copies(fleet, name):
    for worker in fleet.workers.values():
        if await worker.get(resources.JOB, name) is not None or await worker.workloads():
            return False
    return True


@pytest.mark.parametrize("fault", ["cut", "silence"])
@pytest.mark.parametrize("seed", range(2))
def test_a_job_goes_on_while_its_worker_is_lost_for_a_short_time(fault, seed):
    async def story(fleet):
        await fleet.manager.client.create(resources.JOB, job("job", seconds="150"), "default")
        worker = await fleet.until(running_on, fleet, "job")
        getattr(fleet.links[worker], fault)()
        await asyncio.sleep(60)
        assert (await fleet.check_of("job"))["state"] == "Ready"
        fleet.links[worker].restore()
        await fleet.until(fleet.is_finished, "job", seconds=900)
        assert starts(fleet, "job") == {worker: 1}
        assert not conditions.find(await fleet.workload_of("job"), "Evicted")
        await fleet.until(has_no_copies, fleet, "job")

    play(story, seed=seed, configuration=LOST_AFTER)


@pytest.mark.parametrize("fault", ["cut", "silence"])
def test_a_job_runs_elsewhere_when_its_worker_is_lost_for_long(fault):
    async def story(fleet):
        await fleet.manager.client.create(resources.JOB, job("job", seconds="600"), "default")
        worker = await fleet.until(running_on, fleet, "job")
        await fleet.until(is_active, fleet, "job")
        getattr(fleet.links[worker], fault)()

        async def runs_elsewhere():
            return await running_on(fleet, "job") not in (None, worker)

        await fleet.until(runs_elsewhere)
        other = await fleet.cluster_of("job")
        evicted = conditions.find(await fleet.workload_of("job"), "Evicted")
        assert "Admitting remote lost" in evicted["message"]
        fleet.links[worker].restore()

        async def is_cleaned():
            return await fleet[worker].get(resources.JOB, "job") is None and not await fleet[worker].workloads()

        await fleet.until(is_cleaned, seconds=700)
        assert await fleet.cluster_of("job") == other
        await fleet.until(fleet.is_finished, "job", seconds=1500)
        assert starts(fleet, "job") == {worker: 1, other: 1}

    play(story, configuration=LOST_AFTER)


def test_copies_of_a_job_that_was_deleted_meanwhile_are_collected():
    async def story(fleet):
        await fleet.manager.client.create(resources.JOB, job("job", seconds="until-deleted"), "default")
        worker = await fleet.until(running_on, fleet, "job")
        fleet.links[worker].cut()
        options = DeleteOptions(propagation_policy="Background")
        await fleet.manager.client.delete(resources.JOB, "job", "default", options)
        await asyncio.sleep(60)
        assert await fleet[worker].get(resources.JOB, "job") is not None
        fleet.links[worker].restore()
        await fleet.until(has_no_copies, fleet, "job")
        assert not fleet[worker].machine.running()

    play(story, configuration=LOST_AFTER)


def test_a_worker_that_lost_the_job_with_a_backup_gets_it_again():
    async def story(fleet):
        backups = {name: worker.backup() for name, worker in fleet.workers.items()}
        await fleet.manager.client.create(resources.JOB, job("job", seconds="100"), "default")
        worker = await fleet.until(running_on, fleet, "job")
        await fleet[worker].restart(backup=backups[worker])
        await fleet.until(fleet.is_finished, "job", seconds=900)
        await fleet.until(has_no_copies, fleet, "job")

    play(story, configuration=LOST_AFTER)


def test_a_worker_whose_backup_has_a_finished_job_ends_it():
    async def story(fleet):
        await fleet.manager.client.create(resources.JOB, job("job", seconds="50"), "default")
        worker = await fleet.until(running_on, fleet, "job")
        backup = fleet[worker].backup()
        await fleet.until(fleet.is_finished, "job")
        await fleet.until(has_no_copies, fleet, "job")
        await fleet[worker].restart(backup=backup)
        await fleet.until(fleet.are_connected)
        await fleet.until(has_no_copies, fleet, "job")

    play(story, configuration=LOST_AFTER)


@pytest.mark.parametrize("seed", range(2))
def test_a_manager_that_restarts_goes_on(seed):
    async def story(fleet):
        await fleet.manager.client.create(resources.JOB, job("job", seconds="60"), "default")
        worker = await fleet.until(running_on, fleet, "job")
        fleet.manager.kill("controllers")
        await asyncio.sleep(90)
        fleet.manager.start_controllers()
        await fleet.until(fleet.is_finished, "job")
        assert starts(fleet, "job") == {worker: 1}

    play(story, seed=seed)


def test_a_slow_network_only_takes_longer():
    async def story(fleet):
        for link in fleet.links.values():
            link.delay_seconds = 5.0
        await fleet.manager.client.create(resources.JOB, job("job", seconds="10"), "default")
        await fleet.until(fleet.is_finished, "job", seconds=600)
        assert sum(starts(fleet, "job").values()) == 1

    play(story)


def test_a_job_that_its_worker_deletes_at_its_end_is_finished():
    async def story(fleet):
        await fleet.manager.client.create(resources.JOB, job("job", ttlSecondsAfterFinished=0), "default")

        async def has_ended():
            workload = await fleet.workload_of("job")
            gone = await fleet.manager.get(resources.JOB, "job") is None
            return gone or conditions.is_true(workload or {}, "Finished")

        await fleet.until(has_ended)
        await asyncio.sleep(60)
        assert sum(starts(fleet, "job").values()) == 1
        await fleet.until(has_no_copies, fleet, "job")

    play(story)


@pytest.mark.parametrize("kind", [resources.JOB, resources.WORKLOAD], ids=lambda kind: kind.kind)
def test_watches_that_overtake_each_other_lose_no_result(kind):
    async def story(fleet):
        for link in fleet.links.values():
            link.late_kinds[kind] = 20
        await fleet.manager.client.create(resources.JOB, job("job", seconds="60"), "default")
        await fleet.until(fleet.is_finished, "job", seconds=600)
        await fleet.until(has_no_copies, fleet, "job")
        assert sum(starts(fleet, "job").values()) == 1

    play(story)


def test_a_job_whose_copied_workload_is_deleted_on_the_worker_runs_again():
    async def story(fleet):
        await fleet.manager.client.create(resources.JOB, job("job", seconds="30"), "default")
        worker = await fleet.until(running_on, fleet, "job")
        await fleet.until(is_active, fleet, "job")
        (copy,) = await fleet[worker].workloads()
        await fleet[worker].client.delete(resources.WORKLOAD, objects.name(copy), "default")
        await fleet.until(fleet.is_finished, "job")

    play(story, cpu="1")


@pytest.mark.parametrize("seed", range(2))
def test_a_worker_that_is_cut_off_when_it_gets_the_job_is_the_only_one_that_runs_it(seed):
    async def story(fleet):
        cut_off = []

        def cut(name, changes):
            if not cut_off and any(change.now.key.plural == "jobs" for change in changes):
                cut_off.append(name)
                fleet.links[name].cut()

        for name, worker in fleet.workers.items():
            worker.store.listeners.append(partial(cut, name))
        await fleet.manager.client.create(resources.JOB, job("job", seconds="30"), "default")
        await asyncio.sleep(60)
        fleet.links[cut_off[0]].restore()
        await fleet.until(fleet.is_finished, "job")
        assert starts(fleet, "job") == {cut_off[0]: 1}

    play(story, seed=seed)


def test_a_deletion_that_arrives_late_spares_the_copy_that_was_chosen_in_the_meantime():
    """The manager gives up deleting one copy, then chooses it, and the deletion arrives."""

    async def story(fleet):
        fleet.links["worker1"].late_deletion_seconds = 5.0
        fleet.links["worker1"].late_kinds[resources.WORKLOAD] = 0.3
        await fleet.manager.client.create(resources.JOB, job("job", seconds="30"), "default")
        await fleet.until(fleet.is_finished, "job", seconds=900)
        assert sum(starts(fleet, "job").values()) == 1

    play(story)
