"""Quota automation: a ClusterQueue that dispatches has the sum of its workers' quotas.

Only with the gate MultiKueueManagerQuotaAutomation, and `quotaManagement: Automated` in the
MultiKueueConfig. The condition and its messages are Kueue's.
"""

import functools
import operator

from pykueue.api import conditions, objects, quantity, resources
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS
from pykueue.controllers.multikueue import checks
from pykueue.controllers.multikueue.clusters import ClusterController
from pykueue.controllers.multikueue.remote import RemoteCluster
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.kube.controller.writes import changes

CONDITION = "MultiKueueManagerQuotaAutomation"
UNSUPPORTED = "UnsupportedConfiguration"
BATCH_NS = SECOND_NS


class QuotaController:
    def __init__(
        self, cache: ObjectCache, executor: WriteExecutor, *, clock: Clock, clusters: ClusterController
    ) -> None:
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._clusters = clusters
        self.queue: WorkQueue[str] = WorkQueue("multikueue-clusterqueue", clock)
        cache.on_change(resources.CLUSTER_QUEUE, self._queue_changed)
        for resource in (
            resources.LOCAL_QUEUE,
            resources.ADMISSION_CHECK,
            resources.MULTI_KUEUE_CONFIG,
            resources.MULTI_KUEUE_CLUSTER,
        ):
            cache.on_change(resource, self._other_changed)

    def _queue_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or objects.spec(old) != objects.spec(new)):
            self.queue.add_unless_due(objects.name(new), BATCH_NS)

    def _other_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or objects.spec(old) != objects.spec(new) or "conditions" in objects.status(new):
            self.add_all()

    def remote_changed(self, _resource: Resource, _queue: Object) -> None:
        self.add_all()

    def add_all(self) -> None:
        for queue in self._cache.all(resources.CLUSTER_QUEUE):
            self.queue.add_unless_due(objects.name(queue), BATCH_NS)

    async def reconcile(self, name: str) -> int:
        queue = self._cache.get(resources.CLUSTER_QUEUE, name)
        if queue is None or objects.is_deleted(queue):
            return 0
        new = copied(queue)
        check = self._check(queue)
        if check is None:
            conditions.remove(new, CONDITION)
        else:
            is_automated, reason, message = self._automate(new, check)
            conditions.put(
                new,
                CONDITION,
                status=is_automated,
                reason=reason,
                message=message,
                now_ns=self._clock.now_ns(),
            )
        await self._executor.apply(changes(resources.CLUSTER_QUEUE, queue, new))
        return 0

    def _check(self, queue: Object) -> Object | None:
        for rule in objects.nested_list(queue, "spec", "admissionChecksStrategy", "admissionChecks"):
            check = self._cache.get(resources.ADMISSION_CHECK, rule["name"])
            if check is not None and checks.is_dispatching(check):
                return check
        return None

    def _automate(self, queue: Object, check: Object) -> tuple[bool, str, str]:
        """Set the quotas in place; return the status, the reason and the message."""
        try:
            config = checks.config_of(self._cache, check)
        except checks.ConfigError:
            return False, UNSUPPORTED, "The referenced MultiKueueConfig was not found."
        if objects.spec(config).get("quotaManagement", "Manual") != "Automated":
            return False, "NotRequested", "MultiKueue manager quota automation has not been requested."
        groups = objects.nested_list(queue, "spec", "resourceGroups")
        if len(groups) != 1 or len(groups[0]["flavors"]) != 1:
            message = "Quota automation requires that the manager-side ClusterQueue has exactly one ResourceFlavor"
            return False, UNSUPPORTED, message
        totals = self._totals(objects.name(queue), objects.nested_list(config, "spec", "clusters"))
        covered = groups[0]["coveredResources"]
        if missing := sorted(totals.keys() - set(covered)):
            names = " ".join(missing)
            message = f"manager-side coveredResources is missing resources configured on workers: [{names}]"
            return False, UNSUPPORTED, message
        quotas = [{"name": name, "nominalQuota": _text(totals.get(name, []))} for name in covered]
        if quotas != groups[0]["flavors"][0].get("resources"):
            groups[0]["flavors"][0]["resources"] = quotas
        message = "ClusterQueue quota is automatically managed based on MultiKueue workers."
        return True, "QuotaAutomated", message

    def _totals(self, queue_name: str, clusters: list[str]) -> dict[str, list[str]]:
        """The nominal quotas of the workers' ClusterQueues, by resource."""
        local = {
            (objects.namespace(queue), objects.name(queue))
            for queue in self._cache.indexed(resources.LOCAL_QUEUE, "clusterQueue", queue_name)
        }
        totals: dict[str, list[str]] = {}
        for name in clusters:
            remote = self._clusters.remotes.get(name)
            if remote is not None and remote.is_connected:
                _add_quotas(totals, remote, local)
        return totals


def _add_quotas(totals: dict[str, list[str]], remote: RemoteCluster, local: set[tuple[str, str]]) -> None:
    names = {
        objects.spec(queue).get("clusterQueue")
        for queue in remote.cache.all(resources.LOCAL_QUEUE)
        if (objects.namespace(queue), objects.name(queue)) in local
    }
    for queue in remote.cache.all(resources.CLUSTER_QUEUE):
        if objects.name(queue) not in names:
            continue
        for group in objects.nested_list(queue, "spec", "resourceGroups"):
            for flavor in group["flavors"]:
                for entry in flavor.get("resources") or ():
                    totals.setdefault(entry["name"], []).append(str(entry["nominalQuota"]))


def _text(amounts: list[str]) -> str:
    """The sum of quantities, in the format of the first one."""
    if not amounts:
        return "0"
    return str(functools.reduce(operator.add, map(quantity.parse, amounts)))
