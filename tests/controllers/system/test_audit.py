"""The audits of a whole cluster: the cache or the engine is broken on purpose, and repaired."""

import pytest
from tests.controllers.system.cluster import JOBS, job

from pykueue.api import resources
from pykueue.engine import events
from pykueue.kube.controller import audit


@pytest.fixture
async def running(cluster, monkeypatch):
    """A cluster with one running Job; the audit of its cache does not wait."""
    monkeypatch.setattr(audit, "GRACE_SECONDS", 0.0)
    await cluster.make_queue(cpu="1")
    await cluster.create(JOBS, job("first"), "default")
    await cluster.runs("first", JOBS)
    return cluster


def usage(cluster):
    return sum(sum(queue.usage.values()) for queue in cluster.controllers.scheduler.engine.view.cluster_queues())


def differences(cluster):
    registry = cluster.controllers.metrics.instruments.registry
    return {
        (sample.labels["part"], sample.labels["kind"]): sample.value
        for metric in registry.collect()
        if metric.name == "pykueue_audit_differences"
        for sample in metric.samples
    }


async def test_nothing_differs(running):
    assert await running.controllers.cache_audit.audit() == 0
    assert await running.controllers.engine_audit.audit() == 0
    assert differences(running) == {}


def ghost_of(workload, *without):
    """A copy of a Workload that the API does not have."""
    metadata = workload["metadata"] | {"name": "ghost", "uid": "ghost", "resourceVersion": "999999"}
    return workload | {"metadata": {key: value for key, value in metadata.items() if key not in without}}


async def test_a_ghost_in_the_cache_gives_its_quota_back(running):
    ghost = ghost_of(await running.workload_of("first"), "ownerReferences", "labels")
    running.controllers.cache.observe(resources.WORKLOAD, ghost)
    assert usage(running) == 2000
    assert await running.controllers.cache_audit.audit() == 1
    assert usage(running) == 1000
    assert differences(running) == {("cache", "Workload"): 1}


async def test_a_ghost_that_a_controller_writes_to_needs_no_audit(running):
    """It had a job and has no owner, so it is finished: the API does not find it."""
    ghost = ghost_of(await running.workload_of("first"), "ownerReferences")
    running.controllers.cache.observe(resources.WORKLOAD, ghost)
    assert usage(running) == 2000

    async def is_free():
        return usage(running) == 1000

    await running.until(is_free)
    assert running.controllers.cache.get(resources.WORKLOAD, "ghost", "default") is None


async def test_an_engine_that_lost_a_workload_gets_it_again(running):
    key = f"default/{(await running.workload_of('first'))['metadata']['name']}"
    engine = running.controllers.scheduler.engine
    engine.handle(events.WorkloadGone(at_ns=0, key=key))
    assert usage(running) == 0
    assert await running.controllers.engine_audit.audit() == 1
    assert usage(running) == 1000
    assert differences(running) == {("engine", "Workload"): 1}


async def test_an_engine_that_lost_a_queue_gets_it_again(running):
    engine = running.controllers.scheduler.engine
    engine.handle(events.ClusterQueueGone(at_ns=0, name="cq"))
    engine.handle(events.LocalQueueGone(at_ns=0, key="default/cq"))
    await running.controllers.engine_audit.audit()
    assert usage(running) == 1000
    assert differences(running) == {("engine", "ClusterQueue"): 1, ("engine", "LocalQueue"): 1}
