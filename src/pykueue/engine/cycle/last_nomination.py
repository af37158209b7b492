"""The last nominations of a head without targets, and what they read.

A head is tried again in every cycle in which its tree changed. Most tries end like the one before:
its quota is still short, and only the missing amount differs, or it still fits alone. `repeated`
proves that from a few numbers: every flavor-resource fits or is short as before and borrows as
high, and preemption cannot help, because its own cluster queue is the only source of candidates
and these free too little. A workload without quota is placed as if its nodes were empty, so only
their capacity matters. Without a proof the head is nominated anew. `nominate` keeps a few, because
a head in a busy tree alternates between fitting and not fitting, and equal workloads of a cluster
queue share them: nothing of a workload but its pod sets, priority and flavors was read.
"""

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from pykueue.engine import reasons, values
from pykueue.engine.flavors.assigner import QuotaCheck
from pykueue.engine.flavors.assignment import Assignment
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.queues.scan_progress import ScanProgress, TriedFlavors
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import EXACT
from pykueue.engine.reasons import FlavorReason, Mode, Possibility
from pykueue.engine.state import EngineState
from pykueue.engine.topology import workload_placement
from pykueue.engine.values import PreemptionPolicy

MAX_NOMINATIONS = 4
MAX_RENEWALS = 64
"""The amounts that are missing repeat, because a cluster has few sizes of jobs."""

Renewal = tuple[Assignment, reasons.FlavorsShort]
"""What a new try gives: the assignment, and why it does not just fit."""


class LastNomination:
    __slots__ = (
        "_assignment",
        "_capacity_version",
        "_checks",
        "_flat_checks",
        "_freeable",
        "_node",
        "_priority",
        "_queue_version",
        "_renewals",
        "_root",
        "_settings_version",
        "_shorts",
        "_tried",
        "refusal",
        "scan",
    )

    def __init__(
        self,
        state: EngineState,
        queue: ClusterQueueState,
        workload: values.Workload,
        *,
        assignment: Assignment,
        checks: Sequence[QuotaCheck],
        tried: TriedFlavors,
    ) -> None:
        self._assignment = assignment
        self._checks = tuple(checks)
        self._node = queue.node
        self._tried = tried
        self._settings_version = state.settings_version
        self._capacity_version = (
            state.topology_cache.capacity_version if workload_placement.needs_placement(queue, workload) else None
        )
        self._priority = workload.priority
        self._queue_version = queue.reservations.version
        self._freeable = _freeable(queue, workload.priority, _searched(checks))
        self._shorts = [(check.total, check.short) for check in checks if check.short is not None]
        unused = tuple(check.unused for check in checks if check.short is not None)
        self._renewals: dict[tuple[int, ...], Renewal] = {unused: (assignment, assignment.flavors_short())}
        """By what is unused of the flavor-resources that are short."""
        self._root = queue.node.root
        self._flat_checks = _flat_checks(queue.node, checks)
        is_hopeless = assignment.mode is not Mode.FIT and not assignment.topology_usage
        self.refusal = assignment.refusal if is_hopeless else None
        """How a head is requeued that can get no quota; None if it may get some."""
        self.scan: ScanProgress | None = None
        """The scan of a try that is repeated; None if flavors remain, which depends on the try."""

    def repeated(self, state: EngineState, queue: ClusterQueueState, tried: TriedFlavors) -> Renewal | None:
        """What a new try would give, with the amounts that are missing now.

        None if that is not certain.
        """
        if (
            self._settings_version != state.settings_version
            or self._tried != tried
            or (self._capacity_version is not None and self._capacity_version != state.topology_cache.capacity_version)
        ):
            return None
        if self._freeable and self._queue_version != queue.reservations.version:
            if not _has_only_own_candidates(queue, self._freeable):
                return None
            self._freeable = _freeable(queue, self._priority, self._freeable)
            self._queue_version = queue.reservations.version
        unused = self._unused_of_short() if self._flat_checks is None else self._unused_of_short_in_flat_tree()
        if unused is None:
            return None
        renewal = self._renewals.get(unused)
        if renewal is None:
            if self._assignment.mode is Mode.FIT:
                assignment = self._renewed(unused)
                return assignment, assignment.flavors_short()
            if len(self._renewals) >= MAX_RENEWALS:
                self._renewals.clear()
            renewal = self._renewals[unused] = self._assignment, self._shortage(unused)
        return renewal

    def _unused_of_short(self) -> tuple[int, ...] | None:
        """What is unused of the flavor-resources that are short.

        None if a check ends in another way.
        """
        node = self._node
        result: tuple[int, ...] = ()
        for index, total, height, _, short, possibility in self._checks:
            available = quota_tree.available(node, index)
            unused = max(0, available)
            if (total > unused) != (short is not None) or quota_tree.height_of_fit(node, index, total) != height:
                return None
            if possibility is not None and not -EXACT < available < total - self._freeable[index]:
                return None
            if short is not None:
                result += (unused,)
        return result

    def _unused_of_short_in_flat_tree(self) -> tuple[int, ...] | None:
        """The same where only the usage of the queue and of the root matter: in most trees."""
        assert self._flat_checks is not None
        usage, usage_of_root = self._node.usage, self._root.usage
        result: tuple[int, ...] = ()
        for index, total, own_limit, borrows, quota, is_short, is_searched in self._flat_checks:
            available = quota - usage_of_root.get(index, 0)
            unused = max(0, available)
            if (total > unused) != is_short or (usage.get(index, 0) > own_limit) != borrows:
                return None
            if is_searched and available >= total - self._freeable[index]:
                return None
            if available <= -EXACT:
                return None
            if is_short:
                result += (unused,)
        return result

    def _shortage(self, unused: tuple[int, ...]) -> reasons.FlavorsShort:
        """Why the assignment does not fit; what else says so in it is not read."""
        changed = self._changed(unused)
        return reasons.FlavorsShort(
            pod_sets=tuple(
                reasons.PodSetShortage(
                    name=pod_set.name, reasons=_renewed(pod_set.reasons, changed), conflict=pod_set.conflict
                )
                for pod_set in self._assignment.pod_sets
                if pod_set.reasons or pod_set.conflict is not None
            )
        )

    def _renewed(self, unused: tuple[int, ...]) -> Assignment:
        """The assignment of a workload that fits, of which also the tried flavors are shown."""
        changed = self._changed(unused)
        pod_sets = [
            dataclasses.replace(
                pod_set,
                reasons=_renewed(pod_set.reasons, changed),
                attempts=tuple(
                    attempt._replace(reasons=_renewed(attempt.reasons, changed)) for attempt in pod_set.attempts
                ),
            )
            for pod_set in self._assignment.pod_sets
        ]
        return self._assignment.with_pod_sets(pod_sets)

    def _changed(self, unused: tuple[int, ...]) -> dict[FlavorReason, FlavorReason]:
        return {
            short: reasons.QuotaShort(flavor=short.flavor, resource=short.resource, needed=total - now)
            for (total, short), now in zip(self._shorts, unused, strict=True)
        }


def _renewed(causes: tuple[FlavorReason, ...], changed: dict[FlavorReason, FlavorReason]) -> tuple[FlavorReason, ...]:
    return tuple([changed.get(cause, cause) if isinstance(cause, reasons.QuotaShort) else cause for cause in causes])


class Nominations:
    """The last nominations of equal workloads of one cluster queue, the last used one first."""

    __slots__ = ("_allowed_flavors", "_pod_sets", "_priority", "_refuses_levels", "last")

    def __init__(self, workload: values.Workload) -> None:
        self._pod_sets = workload.pod_sets
        self._priority = workload.priority
        self._allowed_flavors = workload.allowed_flavors
        self._refuses_levels = workload.refuses_levels
        self.last: tuple[LastNomination, ...] = ()

    def serve(self, workload: values.Workload) -> bool:
        """Whether the workload equals the others in everything that a nomination reads."""
        return (
            self._pod_sets == workload.pod_sets
            and self._priority == workload.priority
            and self._allowed_flavors == workload.allowed_flavors
            and self._refuses_levels == workload.refuses_levels
        )

    def add(self, nomination: LastNomination) -> None:
        self.last = (nomination, *self.last[: MAX_NOMINATIONS - 1])

    def move_to_front(self, nomination: LastNomination) -> None:
        self.last = (nomination, *(other for other in self.last if other is not nomination))


def is_repeatable(
    state: EngineState,
    queue: ClusterQueueState,
    workload: values.Workload,
    *,
    assignment: Assignment,
    checks: Sequence[QuotaCheck],
) -> bool:
    """Whether `LastNomination` can prove that a later try ends in the same way."""
    if workload.replaces is not None or assignment.depends_on_usage_of_nodes:
        return False
    if assignment.mode is not Mode.FIT and any(pod_set.min_count is not None for pod_set in workload.pod_sets):
        return False
    if state.policy.fair_sharing is not None and _searched(checks):
        return False
    names = state.tree.flavor_resources.names
    for check in checks:
        is_certain = (
            check.possibility is Possibility.NO_CANDIDATES and names[check.flavor_resource].resource != values.PODS
        )
        if check.total >= EXACT or not (check.possibility is None or is_certain):
            return False
    return _has_only_own_candidates(queue, _searched(checks))


class _FlatCheck(NamedTuple):
    """A `QuotaCheck` of a cluster queue that is a root, or a child of a root without limits."""

    flavor_resource: quota_tree.Index
    total: int
    own_limit: int
    """With more usage than this the cluster queue borrows."""
    borrows: bool
    quota: int
    """The quota of the whole tree."""
    is_short: bool
    is_searched: bool
    """A simulated preemption found no candidates."""


def _flat_checks(node: quota_tree.QuotaNode, checks: Sequence[QuotaCheck]) -> list[_FlatCheck] | None:
    """The checks of a flat tree, which are simple comparisons; None in other trees.

    There all usage is passed to the root, so what is available is what the root does not use.
    """
    root = node if node.parent is None else node.parent
    if root.parent is not None or root.local or node.local or node.borrowing_limit:
        return None
    result = []
    for check in checks:
        index = check.flavor_resource
        own, quota = node.subtree.get(index, 0), root.subtree.get(index, 0)
        if not 0 <= check.total < EXACT or not 0 <= own < EXACT or not 0 <= quota < EXACT:
            return None
        own_limit = EXACT if node is root else own - check.total
        borrows = node is not root and not check.height[1]
        is_short, is_searched = check.short is not None, check.possibility is not None
        result.append(_FlatCheck(index, check.total, own_limit, borrows, quota, is_short, is_searched))
    return result


def _searched(checks: Sequence[QuotaCheck]) -> list[quota_tree.Index]:
    return [check.flavor_resource for check in checks if check.possibility is not None]


def _has_only_own_candidates(queue: ClusterQueueState, searched: Collection[quota_tree.Index]) -> bool:
    """Whether preemption finds candidates in the own queue alone, whatever other queues use.

    That is so for a queue that may not reclaim, and for one directly below the root that would
    borrow, because it has no hierarchical advantage there.
    """
    node, preemption = queue.node, queue.value.preemption
    if not searched or node.parent is None or preemption.reclaim_within_cohort is PreemptionPolicy.NEVER:
        return True
    if node.parent.parent is not None or preemption.borrow_within_cohort is not None:
        return False
    return all(node.usage.get(index, 0) >= node.nominal.get(index, 0) for index in searched)


def _freeable(
    queue: ClusterQueueState, priority: int, indices: Iterable[quota_tree.Index]
) -> dict[quota_tree.Index, int]:
    """At most so much of each flavor-resource can be freed in the own queue."""
    freeable = dict.fromkeys(indices, 0)
    policy = queue.value.preemption.within_cluster_queue
    if not freeable or policy is PreemptionPolicy.NEVER:
        return freeable
    limit = priority if policy is not PreemptionPolicy.LOWER_PRIORITY else priority - 1
    for reservation in queue.reservations:
        if reservation.workload.priority <= limit:
            for index in freeable:
                freeable[index] += reservation.usage.get(index, 0)
        elif not reservation.evicted:
            break  # The others have this priority, or a higher one.
    return freeable
