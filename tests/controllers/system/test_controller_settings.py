"""The section `controller` of the Configuration acts."""

import pytest
from tests.controllers.system.cluster import running_cluster

from pykueue.api import resources
from pykueue.controllers import system
from pykueue.controllers.system import CacheSyncError, Controllers
from pykueue.kube.clock import WallClock
from pykueue.kube.controller.work_queue import WorkQueue


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
