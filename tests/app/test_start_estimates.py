"""Estimates are shared by all who ask, but not when other Workloads wait or hold quota."""

import asyncio

import pytest

from pykueue.api import resources
from pykueue.app.visibility import api, start_estimates
from pykueue.app.visibility.start_estimates import StartEstimates
from pykueue.controllers.cache import new_cache
from pykueue.simulate.engine_driver.world import KINDS, World, namespace_object

KUEUE = "kueue.x-k8s.io/v1beta2"
CREATED = "2026-01-01T00:00:00Z"
QUOTA = {"name": "any", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
QUEUES = [
    namespace_object("default"),
    {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "any"}, "spec": {}},
    {
        "apiVersion": KUEUE,
        "kind": "ClusterQueue",
        "metadata": {"name": "team"},
        "spec": {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [QUOTA]}]},
    },
    {
        "apiVersion": KUEUE,
        "kind": "LocalQueue",
        "metadata": {"name": "main", "namespace": "default"},
        "spec": {"clusterQueue": "team"},
    },
]


def workload(name, *, is_admitted=False, version=1):
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "4"}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    metadata = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": CREATED}
    metadata["resourceVersion"] = str(version)
    obj = {"apiVersion": KUEUE, "kind": "Workload", "metadata": metadata}
    obj["spec"] = {"queueName": "main", "podSets": [pod_set]}
    if is_admitted:
        assignment = {"name": "main", "count": 1, "flavors": {"cpu": "any"}, "resourceUsage": {"cpu": "4"}}
        true = {"status": "True", "reason": "", "message": "", "lastTransitionTime": CREATED}
        obj["status"] = {
            "admission": {"clusterQueue": "team", "podSetAssignments": [assignment]},
            "conditions": [{"type": kind, **true} for kind in ("QuotaReserved", "Admitted")],
        }
    return obj


class Live:
    """An engine, and the objects that this process has read, which may lag behind it."""

    def __init__(self, *workloads):
        self.engine = World.from_objects([*QUEUES, *workloads]).engine
        self.cache = new_cache()
        for kind in KINDS.values():
            self.cache.replace(kind, [obj for obj in QUEUES if obj["kind"] == kind.kind], "0")

    async def start_of(self, estimates, name):
        return await estimates.of_workload(self.engine.view, self.cache, f"default/{name}")


@pytest.fixture
def estimates(monkeypatch):
    monkeypatch.setattr(start_estimates, "PAUSES_PER_ESTIMATE", 0)
    return StartEstimates(dict)


async def test_an_object_that_lags_behind_the_engine_is_estimated_again(estimates):
    """Both are pending in the objects, so the waiting one seems to start at once."""
    live = Live(workload("holds", is_admitted=True), workload("a-waits"))
    for name in ("a-waits", "holds"):
        live.cache.observe(resources.WORKLOAD, workload(name))
    assert not (await live.start_of(estimates, "a-waits")).unknown
    live.cache.observe(resources.WORKLOAD, workload("holds", is_admitted=True, version=2))
    assert "nobody knows how long default/holds will run" in (await live.start_of(estimates, "a-waits")).unknown


async def test_an_estimate_serves_all_who_ask_while_nothing_changes(estimates, monkeypatch):
    live = Live(workload("holds", is_admitted=True), workload("waits"))
    for obj in (workload("holds", is_admitted=True), workload("waits")):
        live.cache.observe(resources.WORKLOAD, obj)
    built, build = [], World.from_objects

    def counted(*args, **named):
        built.append(args)
        return build(*args, **named)

    monkeypatch.setattr(World, "from_objects", counted)
    answers = await asyncio.gather(*(live.start_of(estimates, "waits") for _ in range(20)))
    assert len(set(answers)) == 1
    assert len(built) == 1


async def test_a_summary_looks_at_the_workloads_of_its_queue_once(estimates, monkeypatch):
    """Once for each item would be the square of their number, in one turn of the event loop."""
    names = [f"waits-{number}" for number in range(30)]
    live = Live(*map(workload, names))
    for name in names:
        live.cache.observe(resources.WORKLOAD, workload(name))
    lookups, look_up = [], start_estimates._members

    def counted(*args):
        lookups.append(args)
        return look_up(*args)

    monkeypatch.setattr(start_estimates, "_members", counted)
    queues = api.Queues(view=live.engine.view, cache=live.cache, estimates=estimates)
    summary = await api.pending(queues, "team", "", version="v1beta2", query={"estimatedStart": "true"})
    assert [api.ESTIMATED_START in item for item in summary["items"]] == [True] * 30
    assert len(lookups) == 1
