"""A Workload that names the job of somebody else neither deletes nor copies that job."""

import asyncio

from tests.multikueue.fleet import job, play, template
from tests.multikueue.test_faults import LOST_AFTER, has_no_copies, running_on
from tests.multikueue.test_kinds import leader_worker_set

from pykueue.api import objects, resources
from pykueue.api.rules.jobs import job_kinds

POD_SET = {"name": "main", "count": 1, "template": {"spec": template("5", "1")["spec"]}}


def forged(kind, name, **metadata):
    """A Workload whose annotations name a job."""
    annotations = {"kueue.x-k8s.io/job-owner-gvk": kind, "kueue.x-k8s.io/job-owner-name": name}
    annotations |= {"kueue.x-k8s.io/is-group-workload": "true", "kueue.x-k8s.io/component-workload-index": "0"}
    return {
        "metadata": {"name": "forged", "annotations": annotations, **metadata},
        "spec": {"queueName": "queue", "podSets": [POD_SET]},
    }


def test_annotations_that_name_a_job_of_others_delete_nothing():
    async def story(fleet):
        await fleet.manager.client.create(resources.JOB, job("victim", seconds="until-deleted"), "default")
        worker = await fleet.until(running_on, fleet, "victim")
        await fleet.manager.client.create(resources.WORKLOAD, forged("batch/v1, Kind=Job", "victim"), "default")
        await asyncio.sleep(30)
        await fleet.manager.client.delete(resources.WORKLOAD, "forged", "default")
        await asyncio.sleep(90)
        assert await fleet[worker].get(resources.JOB, "victim") is not None
        assert len(fleet[worker].machine.running()) == 1

    play(story, configuration=LOST_AFTER)


def test_a_workload_that_loses_its_owner_loses_its_copies():
    async def story(fleet):
        await fleet.manager.client.create(resources.JOB, job("job", seconds="until-deleted"), "default")
        await fleet.until(running_on, fleet, "job")
        workload = await fleet.workload_of("job")
        orphaned = {"metadata": {"ownerReferences": None, "labels": {"kueue.x-k8s.io/job-uid": None}}}
        await fleet.manager.client.patch(resources.WORKLOAD, objects.name(workload), "default", orphaned)
        await fleet.manager.client.delete(resources.JOB, "job", "default")
        await fleet.until(has_no_copies, fleet, "job")

    play(story)


def test_owner_references_that_name_a_job_of_others_delete_nothing():
    async def story(fleet):
        await fleet.manager.client.create(resources.JOB, job("victim", seconds="until-deleted"), "default")
        worker = await fleet.until(running_on, fleet, "victim")
        victim = await fleet.manager.get(resources.JOB, "victim")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "victim", "uid": objects.uid(victim)}
        workload = forged("batch/v1, Kind=Job", "victim", ownerReferences=[owner])
        await fleet.manager.client.create(resources.WORKLOAD, workload, "default")
        await asyncio.sleep(30)
        await fleet.manager.client.delete(resources.WORKLOAD, "forged", "default")
        await asyncio.sleep(90)
        assert await fleet[worker].get(resources.JOB, "victim") is not None
        assert len(fleet[worker].machine.running()) == 1

    play(story, configuration=LOST_AFTER)


def test_a_set_with_several_workloads_is_deleted_by_none_that_it_does_not_have():
    enabled = {"integrations": {"frameworks": ["pod", job_kinds.LEADER_WORKER_SET.name]}, **LOST_AFTER}

    async def story(fleet):
        await fleet.manager.client.create(resources.LEADER_WORKER_SET, leader_worker_set("victim", 1), "default")

        async def runs():
            return [worker for worker in fleet.workers.values() if len(worker.machine.running()) == 2]

        [worker] = await fleet.until(runs)
        kind = f"{resources.LEADER_WORKER_SET.api_version}, Kind=LeaderWorkerSet"
        await fleet.manager.client.create(resources.WORKLOAD, forged(kind, "victim"), "default")
        await asyncio.sleep(30)
        await fleet.manager.client.delete(resources.WORKLOAD, "forged", "default")
        await asyncio.sleep(90)
        assert len(worker.machine.running()) == 2

    play(story, configuration=enabled, worker_configuration=enabled)


def test_a_job_of_the_worker_with_the_same_name_is_left_alone():
    async def story(fleet):
        own = job("same", seconds="until-deleted", cpu="1")
        for worker in fleet.workers.values():
            await worker.client.create(resources.JOB, own, "default")
        await fleet.manager.client.create(resources.JOB, job("same"), "default")
        await asyncio.sleep(60)
        await fleet.manager.client.delete(resources.JOB, "same", "default")
        await asyncio.sleep(90)
        assert [len(worker.machine.running()) for worker in fleet.workers.values()] == [1, 1]

    play(story, configuration=LOST_AFTER)


def test_copies_of_another_manager_are_left_alone():
    async def story(fleet):
        other = forged("batch/v1, Kind=Job", "x", labels={"kueue.x-k8s.io/multikueue-origin": "other"})
        await fleet["worker1"].client.create(resources.WORKLOAD, other, "default")
        own = forged("batch/v1, Kind=Job", "x", labels={"kueue.x-k8s.io/multikueue-origin": "multikueue"})
        await fleet["worker2"].client.create(resources.WORKLOAD, own, "default")
        await asyncio.sleep(90)
        assert await fleet["worker1"].get(resources.WORKLOAD, "forged") is not None
        assert await fleet["worker2"].get(resources.WORKLOAD, "forged") is None

    play(story, configuration=LOST_AFTER)
