"""A slow audit of the engine: what it has otherwise than the object cache is counted and sent to
it again.

The cache tells the engine of every change at once, so there should be nothing to find; a handler
that failed would otherwise cost quota until a restart. `controllers.system` runs it after the
audit of the cache.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator

from pykueue.api import objects, resources
from pykueue.controllers.scheduler.engine_events import EngineEventSource
from pykueue.engine import values
from pykueue.engine.view import EngineView
from pykueue.kube.controller.cache import ObjectCache
from pykueue.translate import queues, workload

log = logging.getLogger(__name__)

_AT_ONCE = 100
"""Workloads that are compared before other tasks run again."""


class EngineAudit:
    """`on_difference` is called with the kind of every object that was sent again."""

    def __init__(
        self, source: EngineEventSource, cache: ObjectCache, view: EngineView, on_difference: Callable[[str], None]
    ) -> None:
        self._source = source
        self._cache = cache
        self._view = view
        self._on_difference = on_difference

    async def audit(self) -> int:
        """Compare everything once, and return how many objects were sent again."""
        differences = 0
        for name in [*self._cluster_queues()]:
            differences += self._report("ClusterQueue", name)
            self._source.send_cluster_queue(name)
        for namespace, name in [*self._local_queues()]:
            differences += self._report("LocalQueue", f"{namespace}/{name}")
            self._source.send_local_queue(name, namespace)
        keys = {workload.key(obj) for obj in self._cache.all(resources.WORKLOAD)} | self._view.workload_keys()
        for number, key in enumerate(sorted(keys)):
            if not number % _AT_ONCE:
                await asyncio.sleep(0)
            if not self._source.is_in_step(key, self._view):
                differences += self._report("Workload", key)
                self._source.send_again(key)
        return differences

    def _report(self, kind: str, name: str) -> int:
        log.warning("the engine has another %s %s than the cache: sent again", kind, name)
        self._on_difference(kind)
        return 1

    def _cluster_queues(self) -> Iterator[str]:
        cached = self._cache.by_name(resources.CLUSTER_QUEUE)
        present = {str(queue.name): queue.value for queue in self._view.cluster_queues()}
        for name in sorted(cached.keys() | present.keys()):
            if name not in cached or present.get(name) != queues.cluster_queue(cached[name]):
                yield name

    def _local_queues(self) -> Iterator[tuple[str, str]]:
        for obj in self._cache.all(resources.LOCAL_QUEUE):
            key = values.LocalQueueKey(f"{objects.namespace(obj)}/{objects.name(obj)}")
            if self._view.local_queue(key) != queues.local_queue(obj):
                yield objects.namespace(obj), objects.name(obj)
