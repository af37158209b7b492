"""The topology ungater: removes the gate of pods whose topology domain is assigned."""

from pykueue.api import objects, resources
from pykueue.api.labels import WORKLOAD_ANNOTATION, WORKLOAD_SLICE_NAME
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.controllers.jobs import slices
from pykueue.controllers.topology import decide
from pykueue.controllers.workloads import predicates
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, key_of, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.translate import nodes, variants

INDEX = "topologyWorkload"
BATCH_NS = SECOND_NS


class TopologyUngater:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, clock: Clock) -> None:
        self._cache = cache
        self._executor = executor
        self.queue: WorkQueue[Key] = WorkQueue("topologyungater", clock)
        cache.add_index(resources.POD, INDEX, _slice_of_pod)
        cache.add_index(resources.WORKLOAD, INDEX, _slice_of_workload)
        cache.on_change(resources.POD, self._pod_changed)
        cache.on_change(resources.WORKLOAD, self._workload_changed)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        """Reconcile for a gated pod, and for a pod that ended: its place is free for the pod that
        replaces it, which may have come before. Pods that end together are looked at once.
        """
        is_gated = new is not None and decide.is_gated(new)
        if not is_gated and new is not None and not nodes.is_terminated(new):
            return
        for slice_key in _slice_of_pod(latest(old, new)):
            for workload in self._cache.indexed(resources.WORKLOAD, INDEX, slice_key):
                if is_gated:
                    self.queue.add(key_of(workload))
                else:
                    self.queue.add_unless_due(key_of(workload), BATCH_NS)

    def _workload_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and any(map(decide.is_gated, self._pods(new))):
            self.queue.add(key_of(new))

    def _pods(self, workload: Object) -> list[Object]:
        """The pods of the Workload. Those of an elastic job belong to all its slices."""
        return [pod for key in _slice_of_workload(workload) for pod in self._cache.indexed(resources.POD, INDEX, key)]

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        workload = self._cache.get(resources.WORKLOAD, name, namespace)
        if workload is None or predicates.is_finished(workload):
            return 0
        ordered = sorted(self._pods(workload), key=lambda pod: str(pod["metadata"]["name"]))
        await self._executor.apply(decide.plan(workload, ordered))
        return 0


def _slice_of_pod(pod: Object) -> list[str]:
    """The name that all slices of the pod's job share; without slices the name of its Workload."""
    annotations = objects.annotations(pod)
    name = annotations.get(WORKLOAD_SLICE_NAME) or annotations.get(WORKLOAD_ANNOTATION)
    return [f"{objects.namespace(pod)}/{name}"] if name else []


def _slice_of_workload(workload: Object) -> list[str]:
    """The same name of a Workload; the pods belong to the parent of variants."""
    if variants.is_variant(workload):
        return []
    return [f"{objects.namespace(workload)}/{slices.slice_name(workload)}"]
