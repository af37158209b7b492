"""Objects that ask for what pykueue does not do say so in a condition."""

import pytest
from tests.controllers.system.cluster import kueue, running_cluster

from pykueue.api import conditions, resources
from pykueue.controllers import system
from pykueue.controllers.system import CacheSyncError, Controllers
from pykueue.kube.clock import WallClock
from pykueue.kube.controller.work_queue import WorkQueue

MULTI_KUEUE = "kueue.x-k8s.io/multikueue"
SOURCE = {"kubeConfig": {"location": "secret", "locationType": "Secret"}}


async def condition_of(cluster, resource, name, condition_type):
    condition = conditions.find(await cluster.get(resource, name), condition_type)
    return condition if condition and condition["reason"] == "NotSupported" else None


@pytest.mark.parametrize(
    ("resource", "spec", "condition_type"),
    [
        (resources.ADMISSION_CHECK, {"controllerName": MULTI_KUEUE}, "Active"),
        (resources.MULTI_KUEUE_CLUSTER, {"clusterSource": SOURCE}, "Active"),
    ],
)
async def test_what_is_not_supported_has_a_condition(cluster, resource, spec, condition_type):
    await cluster.create(resource, kueue(resource.kind, "x", **spec))
    condition = await cluster.until(condition_of, cluster, resource, "x", condition_type)
    assert condition["status"] == "False"
    assert condition["message"].startswith("pykueue ")


async def test_checks_of_other_controllers_are_left_alone(cluster):
    await cluster.create(resources.ADMISSION_CHECK, kueue("AdmissionCheck", "own", controllerName="example.com/own"))
    await cluster.create(resources.ADMISSION_CHECK, kueue("AdmissionCheck", "x", controllerName=MULTI_KUEUE))
    await cluster.until(condition_of, cluster, resources.ADMISSION_CHECK, "x", "Active")
    assert conditions.find(await cluster.get(resources.ADMISSION_CHECK, "own"), "Active") is None


class Deaf:
    """A client whose lists of one kind never end."""

    def __init__(self, client, resource):
        self._client = client
        self._resource = resource

    def __getattr__(self, name):
        return getattr(self._client, name)

    async def list(self, resource, *arguments, **options):
        if resource == self._resource:
            await WallClock().sleep(3600)
        return await self._client.list(resource, *arguments, **options)


async def test_a_kind_that_is_not_listed_in_time_ends_the_controllers():
    configuration = {"controller": {"cacheSyncTimeout": 200_000_000}}
    async with running_cluster(configuration, starts=False) as cluster:
        controllers = Controllers(Deaf(cluster.client, resources.COHORT), configuration)
        with pytest.raises(ExceptionGroup) as failure:
            await controllers.run()
    timeout = failure.value.split(CacheSyncError)[0].exceptions[0]
    assert str(timeout) == "not listed within controller.cacheSyncTimeout (0.2 s): cohorts"


async def test_the_number_of_workers_is_that_of_the_configuration(monkeypatch):
    configuration = {"controller": {"groupKindConcurrency": {"Job.batch": 3, "Workload.kueue.x-k8s.io": 0}}}
    numbers = {}

    async def run(queue, _reconcile, *, workers):
        numbers[queue._name] = workers

    monkeypatch.setattr(WorkQueue, "run", run)
    async with running_cluster(configuration) as cluster:
        await cluster.until(has_all, numbers)
    assert (numbers["job"], numbers["workload"]) == (3, system.MANY_WORKERS)


async def has_all(numbers):
    return {"job", "workload"} <= numbers.keys()
