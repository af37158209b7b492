"""The last nominations of a head without targets, and what they read.

A head is tried again in every cycle in which its tree changed. Most tries end like the one before:
its quota is still short, and only the missing amount differs, or it still fits alone. `repeated`
proves that from a few numbers: every flavor-resource fits or is short as before and borrows as
high, and preemption cannot help, because its own cluster queue is the only source of candidates
and these free too little. A workload without quota is placed as if its nodes were empty, so only
their capacity matters. Without a proof the head is nominated anew. `nominate` keeps a few for
each pending workload, because a head in a busy tree alternates between fitting and not fitting.
"""

import dataclasses
from collections.abc import Sequence

from pykueue.engine import reasons, values
from pykueue.engine.flavors.assigner import QuotaCheck
from pykueue.engine.flavors.assignment import Assignment
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.queues.scan_progress import TriedFlavors
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import EXACT
from pykueue.engine.reasons import FlavorReason, Mode, Possibility
from pykueue.engine.state import EngineState
from pykueue.engine.topology import workload_placement
from pykueue.engine.values import PreemptionPolicy

MAX_NOMINATIONS = 3


class LastNomination:
    __slots__ = (
        "_assignment",
        "_capacity_version",
        "_checks",
        "_freeable",
        "_node",
        "_queue_version",
        "_settings_version",
        "_tried",
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
        self._queue_version = queue.reservations.version
        self._freeable = _freeable(queue, workload, _searched(checks))

    def repeated(self, state: EngineState, queue: ClusterQueueState, tried: TriedFlavors) -> Assignment | None:
        """The assignment that a new try would give; None if that is not certain."""
        if (
            self._settings_version != state.settings_version
            or self._capacity_version not in (None, state.topology_cache.capacity_version)
            or (self._freeable and self._queue_version != queue.reservations.version)
            or self._tried != tried
        ):
            return None
        node = self._node
        changed: dict[reasons.QuotaShort, reasons.QuotaShort] = {}
        for index, total, height, unused_before, short, possibility in self._checks:
            available = quota_tree.available(node, index)
            unused = max(0, available)
            if (total > unused) != (short is not None) or quota_tree.height_of_fit(node, index, total) != height:
                return None
            if possibility is not None and not -EXACT < available < total - self._freeable[index]:
                return None
            if short is not None and unused != unused_before:
                changed[short] = reasons.QuotaShort(flavor=short.flavor, resource=short.resource, needed=total - unused)
        return self._with_reasons(changed) if changed else self._assignment

    def _with_reasons(self, changed: dict[reasons.QuotaShort, reasons.QuotaShort]) -> Assignment:
        def renewed(causes: tuple[FlavorReason, ...]) -> tuple[FlavorReason, ...]:
            return tuple(
                changed.get(cause, cause) if isinstance(cause, reasons.QuotaShort) else cause for cause in causes
            )

        pod_sets = [
            dataclasses.replace(
                pod_set,
                reasons=renewed(pod_set.reasons),
                attempts=tuple(attempt._replace(reasons=renewed(attempt.reasons)) for attempt in pod_set.attempts),
            )
            for pod_set in self._assignment.pod_sets
        ]
        return dataclasses.replace(self._assignment, pod_sets=pod_sets, _flavors_short=None)


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


def _searched(checks: Sequence[QuotaCheck]) -> list[quota_tree.Index]:
    return [check.flavor_resource for check in checks if check.possibility is not None]


def _has_only_own_candidates(queue: ClusterQueueState, searched: Sequence[quota_tree.Index]) -> bool:
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
    queue: ClusterQueueState, workload: values.Workload, indices: Sequence[quota_tree.Index]
) -> dict[quota_tree.Index, int]:
    """At most so much of each flavor-resource can be freed in the own queue."""
    freeable = dict.fromkeys(indices, 0)
    if not freeable or queue.value.preemption.within_cluster_queue is PreemptionPolicy.NEVER:
        return freeable
    may_be_equal = queue.value.preemption.within_cluster_queue is not PreemptionPolicy.LOWER_PRIORITY
    for reservation in queue.reservations:
        priority = reservation.workload.priority
        if priority < workload.priority or (may_be_equal and priority == workload.priority):
            for index in freeable:
                freeable[index] += reservation.usage.get(index, 0)
    return freeable
