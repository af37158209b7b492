"""The topology ungater: looks at a workload's pods when either changes, and lets go those that `ungating` places."""

from pykueue.api import resources
from pykueue.api.labels import WORKLOAD_ANNOTATION
from pykueue.api.scheme import Object
from pykueue.controllers.topology import decide
from pykueue.controllers.workloads import predicates
from pykueue.kube.clock import Clock
from pykueue.kube.controller.apply import Applier
from pykueue.kube.controller.cache import Key, ObjectCache, key_of
from pykueue.kube.controller.work_queue import WorkQueue

INDEX = "topologyWorkload"


class TopologyUngater:
    def __init__(self, mirror: ObjectCache, applier: Applier, clock: Clock) -> None:
        self._mirror = mirror
        self._applier = applier
        self.queue: WorkQueue[Key] = WorkQueue("topologyungater", clock)
        mirror.add_index(resources.POD, INDEX, _workload_of)
        mirror.on_change(resources.POD, self._pod_changed)
        mirror.on_change(resources.WORKLOAD, self._workload_changed)

    def _pod_changed(self, _old: Object | None, new: Object | None) -> None:
        """A pod that goes makes room only for the one that replaces it, which is news of its own."""
        if new is not None and decide.is_gated(new):
            for key in _workload_of(new):
                namespace, _, name = key.partition("/")
                self.queue.add((namespace, name))

    def _workload_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and any(
            map(decide.is_gated, self._mirror.indexed(resources.POD, INDEX, predicates.key(new)))
        ):
            self.queue.add(key_of(new))

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        workload = self._mirror.get(resources.WORKLOAD, name, namespace)
        if workload is None:
            return 0
        pods = self._mirror.indexed(resources.POD, INDEX, f"{namespace}/{name}")
        ordered = sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))
        await self._applier.carry_out(decide.plan(workload, ordered))
        return 0


def _workload_of(pod: Object) -> list[str]:
    metadata = pod["metadata"]
    name = (metadata.get("annotations") or {}).get(WORKLOAD_ANNOTATION)
    return [f"{metadata['namespace']}/{name}"] if name else []
