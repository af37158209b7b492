"""Jobs whose priority class does not exist: they get an event, and wait until a class is created.

Used by the controllers of jobs, pods, StatefulSets and LeaderWorkerSets.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from pykueue.api import resources
from pykueue.api.scheme import Object
from pykueue.controllers.jobs.construction import MissingPriorityClassError
from pykueue.kube.controller.cache import ObjectCache
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import LONGEST_PAUSE_NS, WorkQueue
from pykueue.kube.controller.writes import Event

JobKey = TypeVar("JobKey", bound=Hashable)


class MissingPriorityClasses(Generic[JobKey]):
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, queue: WorkQueue[JobKey]) -> None:
        self._cache = cache
        self._executor = executor
        self._queue = queue
        self._waiting: set[JobKey] = set()
        cache.on_change(resources.WORKLOAD_PRIORITY_CLASS, self._class_changed)
        cache.on_change(resources.PRIORITY_CLASS, self._class_changed)

    def _class_changed(self, old: Object | None, _new: Object | None) -> None:
        if old is None:
            for key in self._waiting:
                self._queue.add(key)
            self._waiting.clear()

    def forget(self, key: JobKey) -> None:
        """The job is reconciled anew, or is gone."""
        self._waiting.discard(key)

    def wait(self, key: JobKey, job: Object, error: MissingPriorityClassError) -> int:
        """Record why the job has no Workload, and return when to look again."""
        self._waiting.add(key)
        names = sorted(self._cache.by_name(error.resource))
        existing = f"existing ones: {', '.join(names)}" if names else "there are none"
        message = f"Cannot create the Workload: {error} ({existing})"
        self._executor.record(Event(about=job, reason="ErrWorkloadCompose", message=message, type="Warning"))
        return LONGEST_PAUSE_NS
