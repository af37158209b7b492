"""The search for preemption targets: which workloads to evict so that another workload fits.

A `PreemptionSearch` says which workload needs which amounts in which cluster queue, and of which
flavor-resources there is too little. `find_targets` returns a minimal list of targets, or none. It
runs `classical_targets`, or `fair_sharing_targets` with fair sharing. `nominate` asks through
`PreemptionOracle`, for whole workloads and for single flavor-resources.
"""

import functools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from pykueue.engine import values
from pykueue.engine.policy import Policy
from pykueue.engine.queues import pending_queue
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import UNLIMITED, add
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.reasons import Possibility, PreemptionReason
from pykueue.engine.state import EngineState
from pykueue.engine.topology.workload_placement import PlacementRequests
from pykueue.engine.values import PreemptionPolicy

_TIMESTAMP_BUFFER_NS = 5 * 60 * 10**9


class PreemptionTarget(NamedTuple):
    reservation: Reservation
    reason: PreemptionReason


class PreemptionSearch(msgspec.Struct, frozen=True, kw_only=True):
    state: EngineState
    queue: ClusterQueueState
    workload: values.Workload
    timestamp_ns: int
    requests: quota_tree.Usage
    needed: frozenset[quota_tree.Index]
    """Flavor-resources without enough quota; only workloads that use one of them are candidates.
    """
    placement_requests: PlacementRequests = msgspec.field(default_factory=dict)
    """Pods that also need topology domains."""

    def fits(self, *, borrowing: bool) -> bool:
        node = self.queue.node
        for index, amount in self.requests.items():
            if not borrowing and quota_tree.borrows_with(node, index, amount):
                return False
            if amount > max(0, quota_tree.available(node, index)):
                return False
        if not self.placement_requests:
            return True
        return isinstance(self.state.topology_cache.place(self.placement_requests), dict)

    def release(self, reservation: Reservation) -> None:
        self.state.ledger.release(self.state.cluster_queues[reservation.cluster_queue].node, reservation.usage)
        self.state.ledger.release_topology(reservation.topology_usage)

    def charge(self, reservation: Reservation) -> None:
        self.state.ledger.charge(self.state.cluster_queues[reservation.cluster_queue].node, reservation.usage)
        self.state.ledger.charge_topology(reservation.topology_usage)

    def candidates(self, queue: ClusterQueueState, policy: PreemptionPolicy) -> Iterator[Reservation]:
        """The candidates of one cluster queue that the policy allows, in candidate order."""
        yield from self.evicted_candidates(queue, policy)
        yield from self.staying_candidates(queue, policy)

    def evicted_candidates(self, queue: ClusterQueueState, policy: PreemptionPolicy) -> Iterator[Reservation]:
        for reservation in queue.reservations.evicted():
            if not self.needed.isdisjoint(reservation.flavor_resources) and self.may_preempt(
                reservation.workload, policy
            ):
                yield reservation

    def staying_candidates(self, queue: ClusterQueueState, policy: PreemptionPolicy) -> Iterator[Reservation]:
        """Yields lazily, because a search that ends early needs few of many candidates."""
        limit = UNLIMITED if policy is PreemptionPolicy.ANY else self.workload.priority
        for reservation in queue.reservations.staying():
            if reservation.workload.priority > limit:
                return
            if not self.needed.isdisjoint(reservation.flavor_resources) and self.may_preempt(
                reservation.workload, policy
            ):
                yield reservation

    def may_preempt(self, candidate: values.Workload, policy: PreemptionPolicy) -> bool:
        guard = self.state.loop_guard
        if guard is not None and not guard.allows(self.workload.key, candidate.key):
            return False
        return satisfies_policy(
            self.state.policy, policy, (self.workload.priority, self.timestamp_ns), candidate=candidate
        )

    def ordered(self, candidates: Iterable[Reservation]) -> list[Reservation]:
        """Candidates of several cluster queues in candidate order."""
        if self.state.policy.admission_fair_sharing is None:
            return sorted(candidates, key=self.order)
        return sorted(candidates, key=functools.cmp_to_key(self._compare_with_usage))

    def order(self, reservation: Reservation) -> tuple[bool, bool, tuple[bool, int, int, str, str]]:
        """Evicted workloads first, those of the own cluster queue last, then as within a queue."""
        return (not reservation.evicted, reservation.cluster_queue == self.queue.name, reservation.order)

    def _compare_with_usage(self, left: Reservation, right: Reservation) -> int:
        """Within one cluster queue, the local queue with the greater usage comes first."""
        left_order, right_order = self.order(left), self.order(right)
        if left_order[:2] == right_order[:2] and left.cluster_queue == right.cluster_queue:
            left_usage, right_usage = local_queue_usage(self.state, left), local_queue_usage(self.state, right)
            if left_usage != right_usage:
                return -1 if left_usage > right_usage else 1
        return -1 if left_order < right_order else 1


def satisfies_policy(
    policy: Policy, allowed: PreemptionPolicy, preemptor: tuple[int, int], *, candidate: values.Workload
) -> bool:
    """Whether a policy allows a candidate.

    `preemptor` is (effective priority, queue order timestamp).
    """
    priority, timestamp_ns = preemptor
    match allowed:
        case PreemptionPolicy.ANY:
            return True
        case PreemptionPolicy.LOWER_PRIORITY:
            return priority > candidate.priority
        case PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY:
            if priority != candidate.priority:
                return priority > candidate.priority
            newer_by = pending_queue.queue_order_timestamp(candidate, policy) - timestamp_ns
            return newer_by > (_TIMESTAMP_BUFFER_NS if policy.timestamp_preemption_buffer else 0)
        case _:
            return False


def local_queue_usage(state: EngineState, reservation: Reservation) -> float:
    """The usage of the workload's local queue; 0 without admission fair sharing."""
    if not state.cluster_queues[reservation.cluster_queue].value.uses_admission_fair_sharing:
        return 0.0
    return state.usage_of(reservation.workload.local_queue)


def fill_back(search: PreemptionSearch, targets: list[PreemptionTarget], *, borrowing: bool) -> list[PreemptionTarget]:
    """Drop targets without which the workload still fits; the last one is always needed."""
    targets = list(targets)
    for position in range(len(targets) - 2, -1, -1):
        search.charge(targets[position].reservation)
        if search.fits(borrowing=borrowing):
            targets[position] = targets[-1]
            targets.pop()
        else:
            search.release(targets[position].reservation)
    return targets


def find_targets(search: PreemptionSearch) -> list[PreemptionTarget]:
    # Both modules import this one.
    from pykueue.engine.preemption import classical_targets, fair_sharing_targets

    if search.state.policy.fair_sharing is not None:
        return fair_sharing_targets.find_targets(search, search.state.policy.fair_sharing.preemption_strategies)
    return classical_targets.find_targets(search)


_SearchKey = tuple[
    frozenset[quota_tree.Index], tuple[tuple[quota_tree.Index, int], ...], tuple[tuple[values.PodSetName, int], ...]
]


class PreemptionOracle:
    """All searches for one head: for single flavor-resources (the flavor assigner) and for the
    whole workload.

    Results are cached, because a workload that needs one resource starts the same search twice.
    """

    __slots__ = ("_queue", "_results", "_state", "_timestamp_ns", "_workload")

    def __init__(self, state: EngineState, queue: ClusterQueueState, pending: pending_queue.PendingWorkload) -> None:
        self._state = state
        self._queue = queue
        self._workload = pending.workload
        self._timestamp_ns = pending.timestamp_ns
        self._results: dict[_SearchKey, list[PreemptionTarget]] = {}

    def targets(
        self,
        requests: quota_tree.Usage,
        needed: frozenset[quota_tree.Index],
        placement_requests: PlacementRequests | None = None,
    ) -> list[PreemptionTarget]:
        key = (needed, tuple(requests.items()), _counts(placement_requests) if placement_requests else ())
        targets = self._results.get(key)
        if targets is None:
            targets = self._results[key] = find_targets(
                PreemptionSearch(
                    state=self._state,
                    queue=self._queue,
                    workload=self._workload,
                    timestamp_ns=self._timestamp_ns,
                    requests=requests,
                    needed=needed,
                    placement_requests=placement_requests or {},
                )
            )
        return targets

    def __call__(self, index: quota_tree.Index, amount: int) -> tuple[Possibility, int]:
        targets = self.targets({index: amount}, frozenset((index,)))
        if not targets:
            return Possibility.NO_CANDIDATES, quota_tree.height_of_fit(self._queue.node, index, amount)[0]
        borrowing = 0
        if quota_tree.borrows_with(self._queue.node, index, amount):
            with self._state.ledger.trial():
                release(self._state, (target.reservation for target in targets))
                borrowing, _ = quota_tree.height_of_fit(self._queue.node, index, amount)
        if any(target.reservation.cluster_queue == self._queue.name for target in targets):
            return Possibility.PREEMPT, borrowing
        return Possibility.RECLAIM, borrowing


def release(state: EngineState, reservations: Iterable[Reservation]) -> None:
    for reservation in reservations:
        state.ledger.release(state.cluster_queues[reservation.cluster_queue].node, reservation.usage)
        state.ledger.release_topology(reservation.topology_usage)


def _counts(requests: PlacementRequests) -> tuple[tuple[values.PodSetName, int], ...]:
    return tuple((request.name, request.count) for of_flavor in requests.values() for request in of_flavor)


def fits_in_quota(node: quota_tree.QuotaNode, requests: quota_tree.Usage) -> tuple[bool, quota_tree.Usage]:
    """Whether all requests fit in the quota of a node, and what exceeds its local quota."""
    fits = all(
        add(node.usage.get(index, 0), amount) <= node.subtree.get(index, 0) for index, amount in requests.items()
    )
    rest = {index: max(0, amount - quota_tree.local_available(node, index)) for index, amount in requests.items()}
    return fits, rest
