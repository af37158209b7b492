"""The second pass: workloads with quota that need a topology assignment, or a replacement for a
failed node.

A workload gets a second pass if its topology was delayed until its admission checks are ready, or
if one of its nodes failed. The event handlers schedule it, and a cycle takes the attempts that are
due before it takes any head. An attempt that fails is followed by a later one.
"""

from typing import NamedTuple

from pykueue.engine.values import CheckState, DelayedTopology, Workload, WorkloadKey

_FIRST_PAUSE_NS = 10**9
_LONGEST_PAUSE_NS = 30 * 10**9


class ScheduledAttempt(NamedTuple):
    due_ns: int
    attempt: int
    """Counts from 1."""


def is_needed(workload: Workload) -> bool:
    if workload.admission is None or workload.finished or workload.eviction is not None or workload.on_hold:
        return False
    return has_failed_node(workload) or _has_delayed_topology(workload)


def has_failed_node(workload: Workload) -> bool:
    """Whether an admitted workload has pods on a node that failed."""
    if not workload.unhealthy_nodes or not workload.admitted or workload.admission is None:
        return False
    return any(
        domain.values[-1] in workload.unhealthy_nodes
        for pod_set in workload.admission.pod_sets
        if pod_set.topology is not None
        for domain in pod_set.topology.domains
    )


def _has_delayed_topology(workload: Workload) -> bool:
    """Whether its admission checks are ready, so that its topology can be assigned."""
    if workload.admitted or not workload.check_states or workload.admission is None:
        return False
    return all(check_state is CheckState.READY for check_state in workload.check_states.values()) and any(
        pod_set.topology is None and pod_set.delayed_topology is DelayedTopology.PENDING
        for pod_set in workload.admission.pod_sets
    )


def pause_ns(attempt: int) -> int:
    """The wait before an attempt: one second before the first, then twice as long each time."""
    return int(min(_FIRST_PAUSE_NS << min(attempt - 1, 32), _LONGEST_PAUSE_NS))


class SecondPassQueue:
    """The scheduled attempts of the workloads that need a second pass."""

    def __init__(self) -> None:
        self._attempts: dict[WorkloadKey, ScheduledAttempt] = {}

    def update(self, workload: Workload, now_ns: int) -> None:
        """Schedule the first attempt of a workload that needs one; remove one that does not."""
        if not is_needed(workload):
            self.remove(workload.key)
        elif workload.key not in self._attempts:
            self.schedule(workload.key, 1, now_ns)

    def schedule(self, key: WorkloadKey, attempt: int, now_ns: int) -> int:
        """Schedule an attempt; returns when it is due."""
        due_ns = now_ns + pause_ns(attempt)
        self._attempts[key] = ScheduledAttempt(due_ns, attempt)
        return due_ns

    def remove(self, key: WorkloadKey) -> None:
        self._attempts.pop(key, None)

    def pop_due(self, now_ns: int) -> list[tuple[WorkloadKey, int]]:
        """Remove and return the workloads that are due, with the numbers of their attempts."""
        if not self._attempts:
            return []
        due = [
            (key, scheduled.attempt)
            for key, scheduled in sorted(self._attempts.items(), key=lambda item: (item[1].due_ns, item[0]))
            if scheduled.due_ns <= now_ns
        ]
        for key, _ in due:
            del self._attempts[key]
        return due

    @property
    def next_due_ns(self) -> int | None:
        return min(scheduled.due_ns for scheduled in self._attempts.values()) if self._attempts else None
