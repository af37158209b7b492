"""Quota reservations: the workloads with quota of each cluster queue, in candidate order of
preemption.

`EngineState` adds and removes them, and the preemption searches read them.
"""

import bisect
import copy
import itertools
from collections.abc import Iterable, Iterator

from pykueue.engine import values
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import add
from pykueue.engine.topology.cache import TopologyUsage, TopologyUsages

_NEVER_RESERVED = 2**63


class Reservation:
    """One workload and the quota that it is charged."""

    __slots__ = (
        "admission",
        "evicted",
        "flavor_resources",
        "order",
        "reserved_at_ns",
        "topology_usage",
        "usage",
        "workload",
    )

    def __init__(
        self,
        workload: values.Workload,
        admission: values.Admission,
        usage: quota_tree.Usage,
        *,
        flavor_resources: Iterable[quota_tree.Index],
        reserved_at_ns: int | None,
        topology_usage: TopologyUsages = (),
    ) -> None:
        self.workload = workload
        self.admission = admission
        self.usage = usage
        self.topology_usage = topology_usage
        self.flavor_resources = frozenset(flavor_resources)
        self.reserved_at_ns = reserved_at_ns
        self.evicted = workload.eviction is not None and workload.admission is not None
        self.order = self._order()

    def __deepcopy__(self, memo: dict[int, object]) -> "Reservation":
        clone = memo[id(self)] = Reservation(
            self.workload,
            self.admission,
            self.usage,
            flavor_resources=self.flavor_resources,
            reserved_at_ns=self.reserved_at_ns,
            topology_usage=self.topology_usage,
        )
        clone.set_evicted(evicted=self.evicted)
        return clone

    @property
    def cluster_queue(self) -> values.ClusterQueueName:
        return self.admission.cluster_queue

    def confirm(self, workload: values.Workload) -> None:
        """An event confirmed the admission that was assumed."""
        self.workload = workload
        self.reserved_at_ns = workload.reserved_at_ns
        self.evicted = workload.eviction is not None
        self.order = self._order()

    def _order(self) -> tuple[bool, int, int, str, str]:
        """Evicted first, then lower priority, then later reservation; uid and key end ties."""
        workload = self.workload
        reserved_at = _NEVER_RESERVED if self.reserved_at_ns is None else self.reserved_at_ns
        return (not self.evicted, workload.priority, -reserved_at, workload.uid, workload.key)

    def set_evicted(self, *, evicted: bool) -> None:
        self.evicted = evicted
        self.order = self._order()

    @property
    def key(self) -> values.WorkloadKey:
        return self.workload.key


def from_admission(workload: values.Workload, flavor_resources: quota_tree.FlavorResources) -> Reservation:
    """The reservation of a workload that has an admission."""
    admission = workload.admission
    assert admission is not None
    usage: quota_tree.Usage = {}
    indices: set[quota_tree.Index] = set()
    for pod_set in admission.pod_sets:
        for resource, flavor in pod_set.flavors.items():
            indices.add(flavor_resources.index(flavor, resource))
        for resource, amount in pod_set.usage.items():
            index = flavor_resources.index(pod_set.flavors.get(resource, values.FlavorName("")), resource)
            usage[index] = add(usage.get(index, 0), amount)
    return Reservation(
        workload,
        admission,
        usage,
        flavor_resources=indices,
        reserved_at_ns=workload.reserved_at_ns,
        topology_usage=topology_usage_of(workload, admission),
    )


def topology_usage_of(workload: values.Workload, admission: values.Admission) -> TopologyUsages:
    """What the pods of an admission use of topology domains, in every flavor of their pod set."""
    if all(pod_set.topology is None for pod_set in admission.pod_sets):
        return ()
    pod_requests = {pod_set.name: pod_set.pod_requests for pod_set in workload.pod_sets}
    return tuple(
        TopologyUsage(flavor, domain.values, pod_requests.get(pod_set.name, {}), domain.pods)
        for pod_set in admission.pod_sets
        if pod_set.topology is not None
        for flavor in sorted(set(pod_set.flavors.values()))
        for domain in pod_set.topology.domains
    )


class Reservations:
    """The reservations of one cluster queue in candidate order."""

    __slots__ = ("_by_key", "_ordered", "_orders", "version")

    def __init__(self) -> None:
        self.version = 0
        """Grows with every change, so that a reader can keep its counts while this is the same."""
        self._by_key: dict[values.WorkloadKey, Reservation] = {}
        self._ordered: list[Reservation] = []
        self._orders: list[tuple[object, ...]] = []
        """The orders of `_ordered`: a search compares them without a call for each of them."""

    def __deepcopy__(self, memo: dict[int, object]) -> "Reservations":
        clone = memo[id(self)] = Reservations()
        clone.version = self.version
        clone._ordered = [copy.deepcopy(reservation, memo) for reservation in self._ordered]
        clone._orders = list(self._orders)
        clone._by_key = {reservation.key: reservation for reservation in clone._ordered}
        return clone

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._ordered)

    def evicted(self) -> list[Reservation]:
        """The evicted workloads, in candidate order."""
        return self._ordered[: self._evicted_count()]

    def staying(self) -> Iterator[Reservation]:
        """The workloads that are not evicted, in candidate order: by ascending priority first."""
        return itertools.islice(self._ordered, self._evicted_count(), None)

    def _evicted_count(self) -> int:
        if not self._ordered or not self._ordered[0].evicted:
            return 0
        return bisect.bisect_left(self._orders, (True,))

    def get(self, key: values.WorkloadKey) -> Reservation | None:
        return self._by_key.get(key)

    def put(self, reservation: Reservation) -> None:
        self.version += 1
        self._by_key[reservation.key] = reservation
        position = bisect.bisect_right(self._orders, reservation.order)
        self._orders.insert(position, reservation.order)
        self._ordered.insert(position, reservation)

    def remove(self, key: values.WorkloadKey) -> Reservation:
        self.version += 1
        reservation = self._by_key.pop(key)
        position = bisect.bisect_left(self._orders, reservation.order)
        del self._orders[position], self._ordered[position]
        return reservation
