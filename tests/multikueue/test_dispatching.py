"""Which worker gets a Workload, and what happens when it is evicted here or there."""

import asyncio

import pytest
from tests.multikueue.fleet import job, play
from tests.multikueue.test_faults import has_no_copies, running_on

from pykueue.api import conditions, objects, resources

INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"
FIVE = tuple(f"worker{number}" for number in range(1, 6))


async def submit(fleet, name="job", **options):
    await fleet.manager.client.create(resources.JOB, job(name, **options), "default")


async def has_state(fleet, name, state):
    return (await fleet.check_of(name)).get("state") == state


async def nominated(fleet, name):
    return objects.nested_list(await fleet.workload_of(name) or {}, "status", "nominatedClusterNames")


async def fill(worker):
    """Use the whole quota of a worker by a job of its own."""
    await worker.client.create(
        resources.JOB, job("local", seconds="until-deleted", cpu="4", priority="high"), "default"
    )


def test_the_worker_with_quota_wins_and_the_others_forget():
    async def story(fleet):
        await fill(fleet["worker1"])
        await submit(fleet, seconds="60", cpu="3")
        assert await fleet.until(running_on, fleet, "job") == "worker2"
        check = await fleet.check_of("job")
        assert (check["state"], check["message"]) == ("Ready", 'The workload was admitted on "worker2"')
        assert await fleet.copies("job") == ["worker2"]
        remote = await fleet["worker2"].client.get(resources.JOB, "job", "default")
        assert objects.labels(remote)["kueue.x-k8s.io/multikueue-origin"] == "multikueue"
        assert "managedBy" not in remote["spec"]
        [pod] = (await fleet["worker2"].client.list(resources.POD, "default")).items
        assert objects.labels(pod)["kueue.x-k8s.io/multikueue-worker-workload-pod"] == "true"

    play(story)


def test_a_job_that_fits_nowhere_waits_on_all_workers():
    async def story(fleet):
        for worker in fleet.workers.values():
            await fill(worker)
        await submit(fleet)

        async def is_everywhere():
            return await fleet.copies("job") == ["worker1", "worker2"]

        await fleet.until(is_everywhere)
        assert sorted(await nominated(fleet, "job")) == ["worker1", "worker2"]
        assert (await fleet.check_of("job"))["state"] == "Pending"
        assert await fleet["worker1"].get(resources.JOB, "job") is None

    play(story)


@pytest.mark.parametrize(("step_size", "first"), [(None, 3), (2, 2)])
def test_the_incremental_dispatcher_nominates_a_few_more_every_five_minutes(step_size, first):
    section = {"dispatcherName": INCREMENTAL}
    if step_size:
        section["incrementalDispatcherConfig"] = {"stepSize": step_size}

    async def story(fleet):
        for worker in fleet.workers.values():
            await fill(worker)
        await submit(fleet)
        await fleet.until(nominated, fleet, "job")
        await asyncio.sleep(30)
        assert await nominated(fleet, "job") == list(FIVE[:first])
        assert await fleet.copies("job") == list(FIVE[:first])
        await asyncio.sleep(300)
        assert await nominated(fleet, "job") == list(FIVE[: 2 * first])

    play(story, workers=FIVE, configuration={"multiKueue": section})


def test_an_external_dispatcher_nominates_by_the_status():
    async def story(fleet):
        await submit(fleet, seconds="60")
        await asyncio.sleep(10)
        assert await fleet.copies("job") == []
        workload = await fleet.workload_of("job")
        status = {"status": {"nominatedClusterNames": ["worker2"]}}
        client = fleet.manager.client
        await client.patch(resources.WORKLOAD, objects.name(workload), "default", status, subresource="status")
        assert await fleet.until(running_on, fleet, "job") == "worker2"

    play(story, configuration={"multiKueue": {"dispatcherName": "example.com/own"}})


def test_a_workload_that_its_worker_evicts_is_dispatched_again():
    async def story(fleet):
        await submit(fleet, seconds="40", cpu="4", priority="low")
        worker = await fleet.until(running_on, fleet, "job")
        urgent = job("urgent", seconds="until-deleted", cpu="4", priority="high")
        await fleet[worker].client.create(resources.JOB, urgent, "default")

        async def runs_elsewhere():
            return await running_on(fleet, "job") not in (None, worker)

        await fleet.until(runs_elsewhere)
        evicted = conditions.find(await fleet.workload_of("job"), "Evicted")
        text = f'Workload evicted on worker cluster: "{worker}", resetting for re-admission. Previously: "Ready"'
        assert text in evicted["message"]
        await fleet.until(fleet.is_finished, "job")

    play(story)


def test_a_workload_that_is_evicted_here_ends_on_its_worker():
    async def story(fleet):
        await submit(fleet, seconds="until-deleted")
        worker = await fleet.until(running_on, fleet, "job")
        workload = await fleet.workload_of("job")
        inactive = {"spec": {"active": False}}
        await fleet.manager.client.patch(resources.WORKLOAD, objects.name(workload), "default", inactive)
        await fleet.until(has_no_copies, fleet, "job")
        assert not fleet[worker].machine.running()

        async def has_no_quota():
            return not conditions.is_true(await fleet.workload_of("job"), "QuotaReserved")

        await fleet.until(has_no_quota)
        stopped = await fleet.manager.get(resources.JOB, "job")
        suspended = conditions.find(stopped, "Suspended")
        assert (suspended["status"], suspended["reason"]) == ("True", "JobSuspended")
        assert not {"active", "startTime"} & stopped["status"].keys()

    play(story)


def test_a_copy_that_somebody_deletes_is_dispatched_again():
    async def story(fleet):
        await submit(fleet, seconds="60")
        worker = await fleet.until(running_on, fleet, "job")
        [copy] = await fleet[worker].workloads()
        for resource, name in ((resources.JOB, "job"), (resources.WORKLOAD, objects.name(copy))):
            await fleet[worker].client.delete(resource, name, "default")

        async def is_evicted():
            evicted = conditions.find(await fleet.workload_of("job"), "Evicted")
            return evicted and "Admitting remote no longer exists" in evicted["message"]

        await fleet.until(is_evicted)
        await fleet.until(fleet.is_finished, "job")

    play(story)


def test_a_job_of_another_manager_is_rejected():
    async def story(fleet):
        await submit(fleet, managedBy="example.com/other")
        await fleet.until(has_state, fleet, "job", "Rejected")
        check = await fleet.check_of("job")
        assert check["message"] == (
            'The owner is not managed by Kueue: Expecting spec.managedBy to be "kueue.x-k8s.io/multikueue" '
            'not "example.com/other", Previously: "Pending"'
        )

    play(story)


def test_a_priority_that_changes_reaches_the_copies():
    async def story(fleet):
        for worker in fleet.workers.values():
            await fill(worker)
        await submit(fleet, priority="low")
        await fleet.until(nominated, fleet, "job")
        label = {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "high"}}}
        await fleet.manager.client.patch(resources.JOB, "job", "default", label)

        async def have_priority():
            copies = [copy for worker in fleet.workers.values() for copy in await worker.workloads()]
            own = [copy for copy in copies if "kueue.x-k8s.io/multikueue-origin" in objects.labels(copy)]
            return [copy["spec"]["priority"] for copy in own] == [1000, 1000]

        await fleet.until(have_priority)

    play(story)


def test_one_worker_after_another_may_preempt_with_the_gate():
    gates = {"featureGates": {"MultiKueueOrchestratedPreemption": True}}

    async def story(fleet):
        for worker in fleet.workers.values():
            await worker.client.create(
                resources.JOB, job("local", seconds="until-deleted", cpu="4", priority="low"), "default"
            )
        await asyncio.sleep(5)
        await submit(fleet, seconds="30", cpu="4", priority="high")
        worker = await fleet.until(running_on, fleet, "job")
        other = next(name for name in fleet.workers if name != worker)
        local = await fleet[other].client.get(resources.JOB, "local", "default")
        assert not local["spec"]["suspend"]

    play(story, configuration=gates, worker_configuration=gates)
