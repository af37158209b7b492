"""The slice ungater: removes the scheduling gates of the pods of elastic jobs."""

from pykueue.api import objects, resources
from pykueue.api.labels import ELASTIC_JOB, WORKLOAD_SLICE_NAME
from pykueue.api.scheme import Object
from pykueue.controllers.cache import split_key
from pykueue.controllers.jobs import slices
from pykueue.controllers.workload_slices import decide
from pykueue.controllers.workloads import predicates
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.translate import nodes

INDEX = "slice"


class SliceUngater:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, clock: Clock) -> None:
        self._cache = cache
        self._executor = executor
        self.queue: WorkQueue[Key] = WorkQueue("sliceungater", clock)
        cache.add_index(resources.POD, INDEX, _slice_of_pod)
        cache.add_index(resources.WORKLOAD, INDEX, _slice_of_workload)
        cache.on_change(resources.POD, self._pod_changed)
        cache.on_change(resources.WORKLOAD, self._workload_changed)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        """Reconcile for a gated pod, and for a pod that ended, because another may run then."""
        pod = latest(old, new)
        if new is None or decide.is_gated(new) or nodes.is_terminated(new):
            self._add(_slice_of_pod(pod))

    def _workload_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and predicates.is_admitted(new):
            self._add(_slice_of_workload(new))

    def _add(self, keys: list[str]) -> None:
        for key in keys:
            self.queue.add(split_key(key))

    async def reconcile(self, key: Key) -> int:
        workloads = slices.unfinished(self._cache.indexed(resources.WORKLOAD, INDEX, "/".join(key)))
        pods = self._cache.indexed(resources.POD, INDEX, "/".join(key))
        await self._executor.apply(decide.plan(workloads, pods))
        return 0


def _slice_of_pod(pod: Object) -> list[str]:
    name = objects.annotations(pod).get(WORKLOAD_SLICE_NAME)
    return [f"{objects.namespace(pod)}/{name}"] if name else []


def _slice_of_workload(workload: Object) -> list[str]:
    if objects.annotations(workload).get(ELASTIC_JOB) != "true":
        return []
    return [f"{objects.namespace(workload)}/{slices.slice_name(workload)}"]
