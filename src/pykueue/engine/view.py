"""The read-only view of the engine, for statuses, metrics, the visibility API and explanations.

`Engine.view` is the only way to read the engine's state from outside. Every answer is a value: it
stays as it is when the engine handles the next event, and could be sent to another process.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pykueue.engine import decisions, values
from pykueue.engine.explain import explain
from pykueue.engine.explain.explanation import Explanation
from pykueue.engine.policy import Policy
from pykueue.engine.queues.scan_progress import TriedFlavors
from pykueue.engine.quota import fair_sharing, quota_tree
from pykueue.engine.quota.fair_sharing import DominantResourceShare
from pykueue.engine.quota.quota_tree import NodeKey
from pykueue.engine.reasons import Inactivity, NoFitReason
from pykueue.engine.state import EngineState
from pykueue.engine.values import FlavorResource

if TYPE_CHECKING:
    from pykueue.engine.engine import Engine

Amounts = Mapping[FlavorResource, int]
TreeKey = NodeKey
"""Names a cohort tree by its root."""


class PendingView(NamedTuple):
    workload: values.Workload
    is_inadmissible: bool


class ReservationView(NamedTuple):
    workload: values.Workload
    admission: values.Admission
    usage: Amounts


class ClusterQueueView(values.Value, frozen=True, kw_only=True):
    value: values.ClusterQueue
    inactivity: tuple[Inactivity, ...]
    """Why nothing is admitted; empty when the queue is active."""
    path: tuple[str, ...]
    """Names from the root cohort to the cluster queue."""
    pending_count: int
    reservation_count: int
    usage: Amounts
    share: DominantResourceShare | None
    """None without fair sharing."""
    version: tuple[int, int, int]
    """Differs when pending workloads or reservations changed, or the queue was created again."""

    @property
    def name(self) -> values.ClusterQueueName:
        return self.value.name

    @property
    def is_active(self) -> bool:
        return not self.inactivity

    @property
    def quotas(self) -> dict[FlavorResource, values.Quota]:
        return {
            FlavorResource(flavor.name, resource): quota
            for group in self.value.resource_groups
            for flavor in group.flavors
            for resource, quota in flavor.resources.items()
        }

    @property
    def covered_resources(self) -> frozenset[values.ResourceName]:
        return frozenset(resource for group in self.value.resource_groups for resource in group.covered_resources)


class CohortView(values.Value, frozen=True, kw_only=True):
    name: str
    path: tuple[str, ...]
    """Names from the root cohort to this one."""
    subtree_quota: Amounts
    share: DominantResourceShare | None
    """None without fair sharing."""


class EngineView:
    def __init__(self, state: EngineState, fork: "Callable[[], Engine]") -> None:
        self._state = state
        self._fork = fork

    def copy(self) -> "EngineView":
        """The view of a fork, which stays as it is and may be asked in another thread."""
        return self._fork().view

    @property
    def policy(self) -> Policy:
        return self._state.policy

    def flavor(self, name: values.FlavorName) -> values.ResourceFlavor | None:
        return self._state.flavors.get(name)

    def local_queue(self, key: values.LocalQueueKey) -> values.LocalQueue | None:
        return self._state.local_queues.get(key)

    def local_queues(self) -> list[values.LocalQueue]:
        """All local queues by key."""
        return [queue for _, queue in sorted(self._state.local_queues.items())]

    # Cluster queues.

    def cluster_queues(self) -> list[ClusterQueueView]:
        """All cluster queues by name."""
        return [view for name in sorted(self._state.cluster_queues) if (view := self.cluster_queue(name)) is not None]

    def cluster_queue(self, name: values.ClusterQueueName) -> ClusterQueueView | None:
        state = self._state
        queue = state.cluster_queues.get(name)
        if queue is None:
            return None
        state.refresh()
        return ClusterQueueView(
            value=queue.value,
            inactivity=queue.inactivity,
            path=queue.node.path,
            pending_count=len(queue.pending),
            reservation_count=len(queue.reservations),
            usage=self._by_name(queue.node.usage),
            share=self._share(queue.node),
            version=(queue.created_at, queue.pending.version, queue.reservations.version),
        )

    def is_active(self, name: values.ClusterQueueName) -> bool:
        queue = self._state.cluster_queues.get(name)
        return queue is not None and queue.is_active

    def bypassed_reason(self, key: values.WorkloadKey) -> NoFitReason | None:
        """Why an equivalent workload did not fit, for which this one was not tried."""
        workload = self._state.workloads.get(key)
        queue = None if workload is None else self._state.queue_of(workload)
        return None if queue is None else queue.pending.bypassed_reason(key)

    def has_reservations(self, name: values.ClusterQueueName) -> bool:
        queue = self._state.cluster_queues.get(name)
        return queue is not None and bool(len(queue.reservations))

    def path(self, name: values.ClusterQueueName) -> tuple[str, ...]:
        """Names from the root cohort to the cluster queue; empty if it does not exist."""
        node = self._state.tree.cluster_queues.get(name)
        return () if node is None else node.path

    def reservations(self, name: values.ClusterQueueName) -> list[ReservationView]:
        """The workloads with quota in a cluster queue, in candidate order of preemption."""
        queue = self._state.cluster_queues.get(name)
        return [
            ReservationView(reservation.workload, reservation.admission, self._by_name(reservation.usage))
            for reservation in (() if queue is None else queue.reservations)
        ]

    # Cohorts.

    def cohort_names(self) -> frozenset[str]:
        """Also implicit cohorts, which exist only because a queue or cohort names them."""
        return frozenset(self._state.tree.cohorts)

    def cohorts(self) -> list[CohortView]:
        return [view for name in sorted(self._state.tree.cohorts) if (view := self.cohort(name)) is not None]

    def cohort(self, name: str) -> CohortView | None:
        node = self._state.tree.cohorts.get(name)
        if node is None:
            return None
        self._state.refresh()
        return CohortView(name=name, path=node.path, subtree_quota=self._by_name(node.subtree), share=self._share(node))

    # Pending workloads.

    def pending(self, name: values.ClusterQueueName) -> list[PendingView]:
        """The pending workloads of a cluster queue, in no particular order."""
        queue = self._state.cluster_queues.get(name)
        if queue is None:
            return []
        return [PendingView(pending.workload, pending.is_inadmissible) for pending in queue.pending]

    def pending_in_order(self, name: values.ClusterQueueName) -> list[values.Workload] | None:
        """All pending workloads in queue order; None if the cluster queue does not exist."""
        queue = self._state.cluster_queues.get(name)
        return None if queue is None else [pending.workload for pending in queue.pending.in_order()]

    def tried_flavors(self, decided: Sequence[decisions.Decision]) -> tuple[TriedFlavors, ...]:
        """How far the flavor scans of requeued workloads are.

        A scan that goes on may end in the same decision as before, for another flavor.
        """
        requeued = [decision for decision in decided if isinstance(decision, decisions.Requeue)]
        if not requeued:
            return ()
        entries = [self._state.cluster_queues[one.cluster_queue].pending.get(one.workload) for one in requeued]
        return tuple(() if entry is None or entry.scan is None else entry.scan.tried for entry in entries)

    def pending_count(self, key: values.LocalQueueKey) -> int:
        """How many workloads of a local queue are pending; 0 if it is stopped."""
        state = self._state
        local_queue = state.local_queues.get(key)
        if local_queue is None or local_queue.stop_policy is not values.StopPolicy.NONE:
            return 0
        return sum(self._is_pending(workload) for workload in state.workloads_of(key))

    def workload(self, key: values.WorkloadKey) -> values.Workload | None:
        """A workload that is not finished."""
        return self._state.workloads.get(key)

    def workload_keys(self) -> set[values.WorkloadKey]:
        """The keys of all workloads that are not finished."""
        return set(self._state.workloads)

    def is_current(self, workload: values.Workload) -> bool:
        """Whether the engine has exactly this value of the workload."""
        return self._state.workloads.get(workload.key) == workload

    def _is_pending(self, workload: values.Workload) -> bool:
        if workload.may_queue and workload.key not in self._state.reservations:
            return True
        queue = self._state.queue_of(workload) if workload.waiting_for_replacement_pods else None
        return queue is not None and workload.key in queue.pending

    # Admission fair sharing.

    def local_queue_usage(self, key: values.LocalQueueKey) -> float:
        """The weighted usage by which admission fair sharing orders local queues."""
        return self._state.usage_of(key)

    def consumed(self, key: values.LocalQueueKey) -> dict[values.ResourceName, int]:
        """The decayed usage of a local queue, in nano-units."""
        return dict(self._state.local_queue_usage.consumed.get(key, {}))

    # Cycles and events.

    @property
    def skipped_preemptions(self) -> dict[str, int]:
        """Preemptions that the last cycle skipped, per cluster queue."""
        return dict(self._state.skipped_preemptions)

    @property
    def reactivated_trees(self) -> tuple[TreeKey, ...]:
        """Trees whose inadmissible workloads the last event reactivated."""
        return tuple(self._state.reactivated_trees)

    def cluster_queue_of(self, key: values.WorkloadKey) -> values.ClusterQueueName | None:
        """The cluster queue in which an unfinished workload has quota or is queued."""
        reservation, workload = self._state.reservations.get(key), self._state.workloads.get(key)
        if reservation is not None:
            return reservation.cluster_queue
        local_queue = None if workload is None else self._state.local_queues.get(workload.local_queue)
        return None if local_queue is None else local_queue.cluster_queue

    def tree_of(self, name: values.ClusterQueueName) -> TreeKey:
        return self._state.tree_of(name)

    def explain(
        self, key: values.WorkloadKey, largest_node: Mapping[values.ResourceName, int] | None = None
    ) -> Explanation | None:
        """Why a workload is admitted or pending; None if it does not exist or has finished.

        `largest_node` has the largest amount of each resource on one node, if nodes are known.
        """
        return explain.explain(self._state, key, self._fork, largest_node=largest_node)

    def _by_name(self, usage: quota_tree.Usage) -> dict[FlavorResource, int]:
        names = self._state.tree.flavor_resources.names
        return {names[index]: amount for index, amount in usage.items()}

    def _share(self, node: quota_tree.QuotaNode) -> DominantResourceShare | None:
        if self._state.policy.fair_sharing is None:
            return None
        return fair_sharing.share(self._state.tree, node)
