"""Taint eviction: deletes pods from nodes with a NoExecute taint that they do not tolerate.

A toleration with `tolerationSeconds` delays the deletion. The time counts from the moment at which
the taint was first observed, so a restart begins it again, as in Kubernetes.
"""

from collections.abc import Sequence

from pykueue.api import objects, resources, times
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.cluster import pods
from pykueue.cluster.scheduler import affinity
from pykueue.kube.clock import Clock
from pykueue.kube.controller import writes
from pykueue.kube.controller.cache import Key, ObjectCache, key_of
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue

_EFFECT = "NoExecute"
_REASON = "TaintManagerEviction"


def tolerated_seconds(pod_spec: Object, taints: Sequence[Object]) -> float | None:
    """How long the pod may stay; None means for ever. Each taint uses the first match."""
    tolerations = pod_spec.get("tolerations") or ()
    limits: list[float] = []
    for taint in taints:
        match = next((item for item in tolerations if affinity.tolerates(item, taint)), None)
        if match is None:
            return 0
        if match.get("tolerationSeconds") is not None:
            limits.append(max(0, int(match["tolerationSeconds"])))
    return min(limits) if limits else None


def _taints(node: Object | None) -> list[Object]:
    return [taint for taint in objects.spec(node or {}).get("taints") or () if taint.get("effect") == _EFFECT]


class TaintEvictionController:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, clock: Clock) -> None:
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self.queue: WorkQueue[Key] = WorkQueue("taint-eviction", clock)
        self._tainted_since_ns: dict[Key, int] = {}
        """Since when the pods that wait for their deletion are on a tainted node."""
        for kind in (resources.NODE, resources.POD):
            cache.add_kind(kind)
        cache.add_index(resources.POD, "node", lambda pod: [pods.node_name(pod)] if pods.node_name(pod) else [])
        cache.on_change(resources.NODE, self._node_changed)
        cache.on_change(resources.POD, self._pod_changed)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and _taints(old) != _taints(new):
            for pod in self._cache.indexed(resources.POD, "node", objects.name(new)):
                self.queue.add(key_of(pod))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            self._tainted_since_ns.pop(key_of(old), None)
        elif old is None or objects.spec(old) != objects.spec(new):
            self.queue.add(key_of(new))

    async def run(self) -> None:
        await self.queue.run(self.reconcile, workers=4)

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        pod = self._cache.get(resources.POD, name, namespace)
        if pod is None or objects.is_deleted(pod) or not pods.node_name(pod):
            return 0
        taints = _taints(self._cache.get(resources.NODE, pods.node_name(pod)))
        seconds = tolerated_seconds(pod["spec"], taints) if taints else None
        if seconds is None:
            if self._tainted_since_ns.pop(key, None) is not None:
                self._record(pod, "Cancelling deletion of")
            return 0
        now_ns = self._clock.now_ns()
        remaining_ns = self._tainted_since_ns.setdefault(key, now_ns) + int(seconds * SECOND_NS) - now_ns
        if remaining_ns > 0:
            return remaining_ns
        self._record(pod, "Marking for deletion")
        await self._executor.apply(_evict(pod, now_ns))
        return 0

    def _record(self, pod: Object, words: str) -> None:
        message = f"{words} Pod {objects.namespace(pod)}/{objects.name(pod)}"
        self._executor.record(writes.Event(about=pod, reason=_REASON, message=message))


def _evict(pod: Object, now_ns: int) -> list[writes.Action]:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": times.from_ns(now_ns),
    }
    status = writes.Patch(
        resource=resources.POD,
        object=pod,
        patch={"status": {"conditions": [condition]}},
        subresource="status",
        guarded=False,
        by_key=True,
    )
    return [status, writes.Delete(resource=resources.POD, object=pod, propagation_policy="")]
