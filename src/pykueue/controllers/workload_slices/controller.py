"""The slice ungater: removes the scheduling gates of the pods of elastic jobs."""

from pykueue.api import resources
from pykueue.api.labels import ELASTIC_JOB, WORKLOAD_SLICE_NAME
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import slices
from pykueue.controllers.workload_slices import decide
from pykueue.controllers.workloads import predicates
from pykueue.kube.clock import Clock
from pykueue.kube.controller.apply import Applier
from pykueue.kube.controller.cache import Key, ObjectCache
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.translate import nodes

INDEX = "slice"


class SliceUngater:
    def __init__(self, mirror: ObjectCache, applier: Applier, clock: Clock) -> None:
        self._mirror = mirror
        self._applier = applier
        self.queue: WorkQueue[Key] = WorkQueue("sliceungater", clock)
        mirror.add_index(resources.POD, INDEX, _slice_of_pod)
        mirror.add_index(resources.WORKLOAD, INDEX, _slice_of_workload)
        mirror.on_change(resources.POD, self._pod_changed)
        mirror.on_change(resources.WORKLOAD, self._workload_changed)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        """A gated pod may go; so may another one when a pod has ended."""
        pod = new or old
        assert pod is not None
        if new is None or decide.is_gated(new) or nodes.is_terminated(new):
            self._look_at(_slice_of_pod(pod))

    def _workload_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and predicates.is_admitted(new):
            self._look_at(_slice_of_workload(new))

    def _look_at(self, keys: list[str]) -> None:
        for key in keys:
            namespace, _, name = key.partition("/")
            self.queue.add((namespace, name))

    async def reconcile(self, key: Key) -> int:
        workloads = slices.unfinished(self._mirror.indexed(resources.WORKLOAD, INDEX, "/".join(key)))
        pods = self._mirror.indexed(resources.POD, INDEX, "/".join(key))
        await self._applier.carry_out(decide.plan(workloads, pods))
        return 0


def _slice_of_pod(pod: Object) -> list[str]:
    metadata = pod["metadata"]
    name = (metadata.get("annotations") or {}).get(WORKLOAD_SLICE_NAME)
    return [f"{metadata['namespace']}/{name}"] if name else []


def _slice_of_workload(workload: Object) -> list[str]:
    metadata = workload["metadata"]
    if (metadata.get("annotations") or {}).get(ELASTIC_JOB) != "true":
        return []
    return [f"{metadata['namespace']}/{slices.slice_name(workload)}"]
