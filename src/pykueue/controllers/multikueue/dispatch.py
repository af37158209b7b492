"""The incremental dispatcher: nominates a few more clusters every five minutes.

An external dispatcher writes `status.nominatedClusterNames` in its place; AllAtOnce is a part of
`decide`.
"""

from collections.abc import Sequence

from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.controllers.multikueue import checks
from pykueue.controllers.multikueue.context import DispatchPolicy
from pykueue.controllers.workloads import predicates
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, key_of, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.kube.controller.writes import changes

ROUND_NS = 300 * SECOND_NS


def next_nominated(
    nominated: Sequence[str], clusters: Sequence[str], step_size: int, *, in_order: bool = True
) -> list[str]:
    """The clusters of the next round: those so far, and the next ones of the configuration."""
    remaining = [name for name in clusters if name not in nominated]
    if not in_order:
        remaining.sort()
    return [*nominated, *remaining[:step_size]]


class IncrementalDispatcher:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, *, clock: Clock, policy: DispatchPolicy) -> None:
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._policy = policy
        self._rounds: dict[Key, int] = {}
        """When the last round of a Workload began."""
        self.queue: WorkQueue[Key] = WorkQueue("multikueue-dispatcher", clock)
        cache.on_change(resources.WORKLOAD, self._workload_changed)
        cache.on_change(resources.MULTI_KUEUE_CONFIG, self._config_changed)

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        workload = latest(old, new)
        if predicates.checks(workload) or key_of(workload) in self._rounds:
            self.queue.add(key_of(workload))

    def _config_changed(self, _old: Object | None, _new: Object | None) -> None:
        for key in self._rounds:
            self.queue.add(key)

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        workload = self._cache.get(resources.WORKLOAD, name, namespace)
        state = checks.state_of(self._cache, workload) if workload is not None else None
        if workload is None or state is None or not _waits(workload, state):
            self._rounds.pop(key, None)
            return 0
        now_ns = self._clock.now_ns()
        left_ns = self._rounds[key] + ROUND_NS - now_ns if key in self._rounds else 0
        if left_ns > 0:
            return left_ns
        nominated = objects.nested_list(workload, "status", "nominatedClusterNames")
        clusters = checks.clusters_of(self._cache, state["name"])
        names = next_nominated(nominated, clusters, self._policy.step_size, in_order=self._policy.nominates_in_order)
        if names == nominated:
            return 0
        new = {**workload, "status": {**objects.status(workload), "nominatedClusterNames": names}}
        await self._executor.apply(changes(resources.WORKLOAD, workload, new))
        self._rounds[key] = now_ns
        return ROUND_NS


def _waits(workload: Object, state: Object) -> bool:
    """Whether the Workload has quota and no cluster yet."""
    return (
        not objects.is_deleted(workload)
        and state["state"] == "Pending"
        and "clusterName" not in objects.status(workload)
        and predicates.has_quota_reservation(workload)
        and not predicates.is_finished(workload)
    )
