"""Objects that Kueue v0.19.2 left on a real cluster, where two jobs run and one waits, are carried
on with.

`recorded/left-by-kueue.json` was read from that cluster after Kueue had been stopped.
"""

import asyncio
import json
import re
import time
from pathlib import Path

import pytest
from tests.controllers.system.cluster import JOBS, is_suspended, kueue, running_cluster, status_of

from pykueue.api import registry, resources
from pykueue.api.times import from_ns

LEFT = json.loads((Path(__file__).parent / "recorded" / "left-by-kueue.json").read_text())
SCHEME = registry.scheme()


class SlowJobs:
    """A client that lists jobs only when it is allowed to."""

    def __init__(self, client):
        self._client = client
        self.may_list = asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._client, name)

    async def list(self, resource, namespace="", options=None):
        if resource == JOBS:
            await self.may_list.wait()
        return await self._client.list(resource, namespace, options)


@pytest.fixture
async def left():
    """The cluster as it was left, without a controller."""
    async with running_cluster() as cluster:
        await cluster.stop()
        uids = {}
        for recorded in LEFT:
            await restore(cluster, recorded, uids)
        yield cluster


async def restore(cluster, recorded, uids):
    """As it was, but for the uids, which the API gives, and the times: pods that were not ready
    are not overdue yet.
    """
    text = re.sub(r'("lastTransitionTime": )"[^"]*"', rf'\1"{from_ns(time.time_ns())}"', json.dumps(recorded))
    for old, new in uids.items():
        text = text.replace(old, new)
    obj = json.loads(text)
    resource = SCHEME.for_object(obj).resource
    place = {name: value for name, value in obj["metadata"].items() if name not in ("uid", "resourceVersion")}
    spec = {key: value for key, value in obj.items() if key not in ("status", "metadata")}
    if resource == JOBS:
        spec["spec"].pop("selector")
        spec["spec"]["template"].pop("metadata")
    created = await cluster.create(resource, {**spec, "metadata": place}, place.get("namespace", ""))
    uids[recorded["metadata"]["uid"]] = created["metadata"]["uid"]
    name, namespace = place["name"], place.get("namespace", "")
    if resource == JOBS:
        suspend = {"spec": {"suspend": obj["spec"]["suspend"]}}
        await cluster.merge(resource, name, suspend, namespace=namespace)
    if "status" in obj:
        await cluster.merge(resource, name, {"status": obj["status"]}, namespace=namespace, subresource="status")


async def suspended(cluster):
    return {name: is_suspended(await cluster.get(JOBS, name, "default")) for name in ("first", "second", "third")}


async def test_no_job_is_restarted(left):
    before = {obj["metadata"]["name"]: obj["spec"] for obj in (await left.client.list(JOBS)).items}
    await left.start()
    await until_at_work(left)
    assert {obj["metadata"]["name"]: obj["spec"] for obj in (await left.client.list(JOBS)).items} == before


async def until_at_work(cluster):
    """Wait until a Workload without an owner, which does not fit, has been tried."""
    (pod_set,) = [obj["spec"]["podSets"][0] for obj in LEFT if obj["metadata"]["name"].startswith("job-third")]
    alone = kueue("Workload", "alone", queueName="jobs", podSets=[pod_set | {"count": 2}])
    await cluster.create(resources.WORKLOAD, alone, "default")

    async def was_tried():
        return status_of(await cluster.get(resources.WORKLOAD, "alone", "default"), "QuotaReserved") == "False"

    await cluster.until(was_tried)


async def test_the_one_that_waits_starts_when_another_ends(left):
    await left.start()
    await left.client.delete(JOBS, "first", "default")
    await left.runs("third", JOBS)


async def test_no_workload_is_made_anew(left):
    before = {workload["metadata"]["uid"] for workload in (await left.client.list(resources.WORKLOAD)).items}
    await left.start()
    await until_at_work(left)
    after = {
        workload["metadata"]["uid"]: workload["metadata"]["name"]
        for workload in (await left.client.list(resources.WORKLOAD)).items
    }
    assert {uid for uid, name in after.items() if name != "alone"} == before


async def test_a_job_that_was_not_seen_yet_is_not_taken_for_gone(left):
    slow = SlowJobs(left.client)
    await left.start(slow)
    await until_at_work(left)
    workloads = (await left.client.list(resources.WORKLOAD)).items
    assert not [workload for workload in workloads if status_of(workload, "Finished") == "True"]
    slow.may_list.set()
    assert await suspended(left) == {"first": False, "second": False, "third": True}
