"""Checks each change of a cluster: no ClusterQueue uses more than its quota."""

from collections import Counter

from pykueue.api import objects, quantity
from pykueue.simulate.monitor import holds_quota, usage_of

GROUP = "kueue.x-k8s.io"


class QuotaCheck:
    """A listener of a store, which may be that of a backup."""

    def __init__(self, cluster_name, store, violations):
        self._cluster_name = cluster_name
        self._violations = violations
        self._limits = {}
        self._usage = {}
        """By the queue, then by the key of the Workload."""
        for plural in ("clusterqueues", "workloads"):
            for stored in store.select(GROUP, plural):
                self._change(stored, is_deleted=False)

    def __call__(self, changes):
        for change in changes:
            if change.now.key.group == GROUP:
                self._change(change.now, is_deleted=change.is_deleted)

    def _change(self, stored, *, is_deleted):
        if stored.key.plural == "clusterqueues":
            self._limits[stored.key.name] = _limits(stored.shared_or_decoded())
        elif stored.key.plural == "workloads":
            self._workload_changed(stored.key, stored.shared_or_decoded(), is_deleted=is_deleted)

    def _workload_changed(self, key, workload, *, is_deleted):
        former = Counter()
        for workloads in self._usage.values():
            former += workloads.pop(key, Counter())
        if is_deleted or not holds_quota(workload):
            return
        queue = objects.status(workload)["admission"]["clusterQueue"]
        usage = usage_of(workload)
        self._usage.setdefault(queue, {})[key] = usage
        total = sum(self._usage[queue].values(), Counter())
        for index in usage - former:
            if total[index] > self._limits[queue][index]:
                used = f"{total[index]} of {self._limits[queue][index]} milli {index}"
                self._violations.append(f"{self._cluster_name}: {queue} uses {used} with {key.name}")


def _limits(queue):
    return Counter(
        {
            (flavor["name"], resource["name"]): quantity.parse(resource["nominalQuota"]).milli()
            for group in objects.spec(queue).get("resourceGroups") or ()
            for flavor in group["flavors"]
            for resource in flavor["resources"]
        }
    )
