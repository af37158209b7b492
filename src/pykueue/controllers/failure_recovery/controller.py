"""The failure recovery controller: looks at terminating pods, and at nodes that get lost."""

from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.controllers.failure_recovery import decide
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, key_of
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue

COMPONENT = "failure-recovery-pod-termination-controller"
BY_NODE = "terminatingOnNode"


class FailureRecoveryController:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, clock: Clock) -> None:
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self.queue: WorkQueue[Key] = WorkQueue("podtermination", clock)
        cache.add_index(resources.POD, BY_NODE, _node_of)
        cache.on_change(resources.POD, self._pod_changed)
        cache.on_change(resources.NODE, self._node_changed)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and decide.is_eligible(new) and (old is None or not decide.is_eligible(old)):
            self.queue.add(key_of(new))

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None or not decide.is_unreachable(new) or (old is not None and decide.is_unreachable(old)):
            return
        for pod in self._cache.indexed(resources.POD, BY_NODE, objects.name(new)):
            self.queue.add(key_of(pod))

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        pod = self._cache.get(resources.POD, name, namespace)
        if pod is None:
            return 0
        node = self._cache.get(resources.NODE, objects.spec(pod).get("nodeName", ""))
        plan = decide.plan(pod, node, self._clock.now_ns())
        await self._executor.apply(plan.actions)
        return plan.requeue_after_ns


def _node_of(pod: Object) -> list[str]:
    name = objects.spec(pod).get("nodeName", "")
    return [name] if name and decide.is_eligible(pod) else []
