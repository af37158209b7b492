"""The dependency controller: looks at gated Jobs when they, or Jobs they wait for, change."""

from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.controllers.dependencies import decide
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, key_of, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue

COMPONENT = "pykueue-dependencies"
BY_DEPENDENCY = "waitsForJob"


class DependencyController:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, clock: Clock) -> None:
        self._cache = cache
        self._executor = executor
        self.queue: WorkQueue[Key] = WorkQueue("dependencies", clock)
        cache.add_index(resources.JOB, BY_DEPENDENCY, _dependencies_of)
        cache.on_change(resources.JOB, self._job_changed)

    def _job_changed(self, old: Object | None, new: Object | None) -> None:
        job = latest(old, new)
        if new is not None and decide.is_gated(new):
            self.queue.add(key_of(new))
        for waiting in self._cache.indexed(resources.JOB, BY_DEPENDENCY, _reference(job, objects.name(job))):
            self.queue.add(key_of(waiting))

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        job = self._cache.get(resources.JOB, name, namespace)
        if job is None:
            return 0
        plan = decide.plan(job, lambda other: self._cache.get(resources.JOB, other, namespace))
        await self._executor.apply(plan.actions)
        return plan.requeue_after_ns


def _dependencies_of(job: Object) -> list[str]:
    return [_reference(job, name) for _, name in decide.dependencies(job)] if decide.is_gated(job) else []


def _reference(job: Object, name: str) -> str:
    return f"{objects.namespace(job)}/{name}"
