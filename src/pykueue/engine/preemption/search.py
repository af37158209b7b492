"""Preemption: whom to evict so that a workload fits. What the classical and the fair search share.

A `Search` is one question: this workload, in this cluster queue, needs these amounts, and these flavor-resources are
short. `find_targets` answers with a minimal list of targets or none. `nominate` asks it for whole workloads, and for
single flavor-resources through `Possibilities`.
"""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pykueue.engine import values
from pykueue.engine.policy import Policy
from pykueue.engine.queues import pending_queue
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import UNLIMITED, add
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.reasons import Possibility, PreemptionReason
from pykueue.engine.topology.assigner import Demands
from pykueue.engine.values import PreemptionPolicy
from pykueue.engine.world import World

_TIMESTAMP_BUFFER_NS = 5 * 60 * 10**9


class Target(NamedTuple):
    holding: Reservation
    reason: PreemptionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    world: World
    queue: ClusterQueueState
    workload: values.Workload
    timestamp_ns: int
    requests: quota_tree.Usage
    needed: frozenset[quota_tree.Index]
    """The flavor-resources that are short: only workloads that use one of them can help."""
    demands: Demands = field(default_factory=dict)
    """Pods that need a place as well."""

    def fits(self, *, borrowing: bool) -> bool:
        node = self.queue.node
        for index, amount in self.requests.items():
            if not borrowing and quota_tree.borrows_with(node, index, amount):
                return False
            if amount > max(0, quota_tree.available(node, index)):
                return False
        return not self.demands or isinstance(self.world.places.place(self.demands), dict)

    def release(self, holding: Reservation) -> None:
        self.world.ledger.release(self.world.cluster_queues[holding.cluster_queue].node, holding.usage)
        self.world.ledger.release_places(holding.taken)

    def charge(self, holding: Reservation) -> None:
        self.world.ledger.charge(self.world.cluster_queues[holding.cluster_queue].node, holding.usage)
        self.world.ledger.charge_places(holding.taken)

    def candidates(self, queue: ClusterQueueState, policy: PreemptionPolicy) -> Iterator[Reservation]:
        """Those of one cluster queue that the policy lets us take, in candidate order: evicted ones first."""
        yield from self.evicted_candidates(queue, policy)
        yield from self.staying_candidates(queue, policy)

    def evicted_candidates(self, queue: ClusterQueueState, policy: PreemptionPolicy) -> Iterator[Reservation]:
        for holding in queue.holdings.evicted():
            if not self.needed.isdisjoint(holding.flavor_resources) and self.may_preempt(holding.workload, policy):
                yield holding

    def staying_candidates(self, queue: ClusterQueueState, policy: PreemptionPolicy) -> Iterator[Reservation]:
        """Lazily: a search that finds room early looks at few of many."""
        limit = UNLIMITED if policy is PreemptionPolicy.ANY else self.workload.priority
        for holding in queue.holdings.staying():
            if holding.workload.priority > limit:
                return
            if not self.needed.isdisjoint(holding.flavor_resources) and self.may_preempt(holding.workload, policy):
                yield holding

    def may_preempt(self, candidate: values.Workload, policy: PreemptionPolicy) -> bool:
        guard = self.world.loop_guard
        if guard is not None and not guard.allows(self.workload.key, candidate.key):
            return False
        return satisfies_policy(
            self.world.policy, policy, (self.workload.priority, self.timestamp_ns), candidate=candidate
        )

    def ordered(self, found: Iterable[Reservation]) -> list[Reservation]:
        """In candidate order over several cluster queues."""
        if self.world.policy.admission_fair_sharing is None:
            return sorted(found, key=self.order)
        return sorted(found, key=functools.cmp_to_key(self._compare_with_usage))

    def order(self, holding: Reservation) -> tuple[bool, bool, tuple[bool, int, int, str, str]]:
        """Already evicted first, the own queue last, then as within one queue."""
        return (not holding.evicted, holding.cluster_queue == self.queue.name, holding.order)

    def _compare_with_usage(self, left: Reservation, right: Reservation) -> int:
        """Within one cluster queue the local queue that used more gives first."""
        left_order, right_order = self.order(left), self.order(right)
        if left_order[:2] == right_order[:2] and left.cluster_queue == right.cluster_queue:
            left_usage, right_usage = (local_queue_usage(self.world, each) for each in (left, right))
            if left_usage != right_usage:
                return -1 if left_usage > right_usage else 1
        return -1 if left_order < right_order else 1


def satisfies_policy(
    policy: Policy, allowed: PreemptionPolicy, preemptor: tuple[int, int], *, candidate: values.Workload
) -> bool:
    """`preemptor` is its effective priority and queue-order timestamp."""
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


def local_queue_usage(world: World, holding: Reservation) -> float:
    """Of the holding's local queue, where admission fair sharing applies; else 0 for all."""
    if not world.cluster_queues[holding.cluster_queue].value.uses_admission_fair_sharing:
        return 0.0
    return world.usage_of(holding.workload.local_queue)


def fill_back(search: Search, targets: list[Target], *, borrowing: bool) -> list[Target]:
    """Spare every target without which the workload fits all the same; the last one is always needed."""
    targets = list(targets)
    for position in range(len(targets) - 2, -1, -1):
        search.charge(targets[position].holding)
        if search.fits(borrowing=borrowing):
            targets[position] = targets[-1]
            targets.pop()
        else:
            search.release(targets[position].holding)
    return targets


def find_targets(search: Search) -> list[Target]:
    # Both searches build on this module.
    from pykueue.engine.preemption import classical, fair

    if search.world.policy.fair_sharing is not None:
        return fair.find_targets(search, search.world.policy.fair_sharing.preemption_strategies)
    return classical.find_targets(search)


_Asked = tuple[
    frozenset[quota_tree.Index], tuple[tuple[quota_tree.Index, int], ...], tuple[tuple[values.PodSetName, int], ...]
]


class Possibilities:
    """The searches for one head: the oracle of the flavor assigner, and the targets of whole workloads.

    What was asked before is remembered, for a workload that needs one resource asks the same twice.
    """

    __slots__ = ("_found", "_queue", "_timestamp_ns", "_workload", "_world")

    def __init__(self, world: World, queue: ClusterQueueState, pending: pending_queue.Pending) -> None:
        self._world = world
        self._queue = queue
        self._workload = pending.workload
        self._timestamp_ns = pending.timestamp_ns
        self._found: dict[_Asked, list[Target]] = {}

    def targets(
        self, requests: quota_tree.Usage, needed: frozenset[quota_tree.Index], demands: Demands | None = None
    ) -> list[Target]:
        asked = (needed, tuple(requests.items()), _counts(demands) if demands else ())
        found = self._found.get(asked)
        if found is None:
            found = self._found[asked] = find_targets(
                Search(
                    world=self._world,
                    queue=self._queue,
                    workload=self._workload,
                    timestamp_ns=self._timestamp_ns,
                    requests=requests,
                    needed=needed,
                    demands=demands or {},
                )
            )
        return found

    def __call__(self, index: quota_tree.Index, amount: int) -> tuple[Possibility, int]:
        targets = self.targets({index: amount}, frozenset((index,)))
        if not targets:
            return Possibility.NO_CANDIDATES, quota_tree.height_of_fit(self._queue.node, index, amount)[0]
        with self._world.ledger.trial():
            release(self._world, (target.holding for target in targets))
            borrowing, _ = quota_tree.height_of_fit(self._queue.node, index, amount)
        if any(target.holding.cluster_queue == self._queue.name for target in targets):
            return Possibility.PREEMPT, borrowing
        return Possibility.RECLAIM, borrowing


def release(world: World, holdings: Iterable[Reservation]) -> None:
    for holding in holdings:
        world.ledger.release(world.cluster_queues[holding.cluster_queue].node, holding.usage)
        world.ledger.release_places(holding.taken)


def _counts(demands: Demands) -> tuple[tuple[values.PodSetName, int], ...]:
    return tuple((demand.name, demand.count) for wanted in demands.values() for demand in wanted)


def fits_in_quota(node: quota_tree.QuotaNode, requests: quota_tree.Usage) -> tuple[bool, quota_tree.Usage]:
    """Whether all requests fit in the node's own quota, and what of them the local quota cannot take."""
    fits = all(
        add(node.usage.get(index, 0), amount) <= node.subtree.get(index, 0) for index, amount in requests.items()
    )
    rest = {index: max(0, amount - quota_tree.local_available(node, index)) for index, amount in requests.items()}
    return fits, rest
