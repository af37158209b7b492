"""NoExecute taints delete pods that do not tolerate them, or not for so long."""

import pytest

from pykueue.api import resources
from pykueue.cluster.taint_eviction import TaintEvictionController, tolerated_seconds
from pykueue.kube.controller import writes
from pykueue.kube.controller.cache import ObjectCache

TAINT = {"key": "broken", "value": "disk", "effect": "NoExecute"}
OTHER = {"key": "other", "effect": "NoExecute"}
FOR_EVER = {"key": "broken", "operator": "Exists"}


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        ((), 0),
        ((FOR_EVER,), None),
        (({"operator": "Exists"},), None),
        (({"key": "broken", "value": "net", "effect": "NoExecute"},), 0),
        (({"key": "broken", "value": "disk", "effect": "NoSchedule"},), 0),
        (({"key": "broken", "value": "disk", "tolerationSeconds": 30},), 30),
        ((FOR_EVER | {"tolerationSeconds": -5},), 0),
        ((FOR_EVER, {"operator": "Exists", "tolerationSeconds": 5}), None),
    ],
)
def test_the_first_matching_toleration_decides(tolerations, seconds):
    assert tolerated_seconds({"tolerations": list(tolerations)}, [TAINT]) == seconds


def test_the_shortest_of_several_taints_decides():
    tolerations = [FOR_EVER | {"tolerationSeconds": 60}, {"key": "other", "operator": "Exists", "tolerationSeconds": 5}]
    assert tolerated_seconds({"tolerations": tolerations}, [TAINT, OTHER]) == 5
    assert tolerated_seconds({"tolerations": [FOR_EVER]}, [TAINT, OTHER]) == 0


class Clock:
    now = 0

    def now_ns(self):
        return self.now


class Executor:
    def __init__(self):
        self.deleted, self.events = [], []

    def record(self, event):
        self.events.append(event.message)

    async def apply(self, actions):
        self.deleted += [action.object["metadata"]["name"] for action in actions if isinstance(action, writes.Delete)]


class Eviction:
    def __init__(self):
        self.cache, self.clock, self.executor = ObjectCache(), Clock(), Executor()
        self.controller = TaintEvictionController(self.cache, self.executor, self.clock)
        self.version = 0

    def put(self, resource, name, spec, namespace=""):
        self.version += 1
        metadata = {"name": name, "uid": name, "resourceVersion": str(self.version)}
        metadata |= {"namespace": namespace} if namespace else {}
        self.cache.observe(resource, {"metadata": metadata, "spec": spec})

    def taint(self, *taints):
        self.put(resources.NODE, "n", {"taints": list(taints)})

    def pod(self, *tolerations):
        self.put(resources.POD, "p", {"nodeName": "n", "tolerations": list(tolerations)}, "default")

    async def reconcile(self):
        return await self.controller.reconcile(("default", "p")) // 10**9


async def test_a_pod_that_tolerates_for_a_while_is_deleted_after_it():
    eviction = Eviction()
    eviction.pod(FOR_EVER | {"tolerationSeconds": 30})
    eviction.taint(TAINT)
    assert await eviction.reconcile() == 30
    eviction.clock.now = 20 * 10**9
    assert await eviction.reconcile() == 10
    assert eviction.executor.deleted == []
    eviction.clock.now = 30 * 10**9
    await eviction.reconcile()
    assert eviction.executor.deleted == ["p"]
    assert eviction.executor.events == ["Marking for deletion Pod default/p"]


async def test_a_taint_that_goes_in_time_cancels_the_deletion():
    eviction = Eviction()
    eviction.pod(FOR_EVER | {"tolerationSeconds": 30})
    eviction.taint(TAINT)
    await eviction.reconcile()
    eviction.taint()
    eviction.clock.now = 60 * 10**9
    assert await eviction.reconcile() == 0
    assert (eviction.executor.deleted, eviction.executor.events) == ([], ["Cancelling deletion of Pod default/p"])


async def test_a_taint_of_another_effect_deletes_nothing():
    eviction = Eviction()
    eviction.pod()
    eviction.taint(TAINT | {"effect": "NoSchedule"})
    await eviction.reconcile()
    assert eviction.executor.deleted == []
