"""The topology ungater: removes the gate of pods whose topology domain is assigned."""

from pykueue.api import objects, resources
from pykueue.api.labels import WORKLOAD_ANNOTATION
from pykueue.api.scheme import Object
from pykueue.controllers.cache import split_key
from pykueue.controllers.topology import decide
from pykueue.controllers.workloads import predicates
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, key_of
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue

INDEX = "topologyWorkload"


class TopologyUngater:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, clock: Clock) -> None:
        self._cache = cache
        self._executor = executor
        self.queue: WorkQueue[Key] = WorkQueue("topologyungater", clock)
        cache.add_index(resources.POD, INDEX, _workload_of)
        cache.on_change(resources.POD, self._pod_changed)
        cache.on_change(resources.WORKLOAD, self._workload_changed)

    def _pod_changed(self, _old: Object | None, new: Object | None) -> None:
        """A deleted pod needs no look: the pod that replaces it is a change of its own."""
        if new is not None and decide.is_gated(new):
            for key in _workload_of(new):
                self.queue.add(split_key(key))

    def _workload_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and any(
            map(decide.is_gated, self._cache.indexed(resources.POD, INDEX, predicates.key(new)))
        ):
            self.queue.add(key_of(new))

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        workload = self._cache.get(resources.WORKLOAD, name, namespace)
        if workload is None:
            return 0
        pods = self._cache.indexed(resources.POD, INDEX, f"{namespace}/{name}")
        ordered = sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))
        await self._executor.apply(decide.plan(workload, ordered))
        return 0


def _workload_of(pod: Object) -> list[str]:
    name = objects.annotations(pod).get(WORKLOAD_ANNOTATION)
    return [f"{objects.namespace(pod)}/{name}"] if name else []
