"""The second pass: workloads that hold quota but still need places, or need them again.

Two kinds come here: those whose places waited for an admission check (nodes were to be provisioned first), and those that lost
a node. The world notes them as they are seen; a cycle takes those whose turn has come before it takes any head. A turn that
finds no place is followed by a later one.
"""

from typing import NamedTuple

from pykueue.engine.values import CheckState, DelayedTopology, Workload, WorkloadKey

_FIRST_PAUSE_NS = 10**9
_LONGEST_PAUSE_NS = 30 * 10**9


class Turn(NamedTuple):
    due_ns: int
    attempt: int
    """1 is the first."""


def is_needed(workload: Workload) -> bool:
    if workload.admission is None or workload.finished or workload.eviction is not None or workload.on_hold:
        return False
    return has_lost_places(workload) or _waits_for_places(workload)


def has_lost_places(workload: Workload) -> bool:
    """It runs, and some of its pods were placed on a node that failed."""
    if not workload.unhealthy_nodes or not workload.admitted or workload.admission is None:
        return False
    return any(
        domain.values[-1] in workload.unhealthy_nodes
        for pod_set in workload.admission.pod_sets
        if pod_set.topology is not None
        for domain in pod_set.topology.domains
    )


def _waits_for_places(workload: Workload) -> bool:
    """Its checks are ready, so its nodes are there."""
    if workload.admitted or not workload.check_states or workload.admission is None:
        return False
    return all(state is CheckState.READY for state in workload.check_states.values()) and any(
        pod_set.topology is None and pod_set.delayed_topology is DelayedTopology.PENDING
        for pod_set in workload.admission.pod_sets
    )


def pause_ns(attempt: int) -> int:
    """Before an attempt: one second before the first, twice as long before each further one."""
    return int(min(_FIRST_PAUSE_NS << min(attempt - 1, 32), _LONGEST_PAUSE_NS))


class SecondPasses:
    """Whose turn comes when."""

    def __init__(self) -> None:
        self._turns: dict[WorkloadKey, Turn] = {}

    def note(self, workload: Workload, now_ns: int) -> None:
        """Seen anew. A turn once given is kept as long as it is needed."""
        if not is_needed(workload):
            self.drop(workload.key)
        elif workload.key not in self._turns:
            self.put_off(workload.key, 1, now_ns)

    def put_off(self, key: WorkloadKey, attempt: int, now_ns: int) -> int:
        """Answers when it will be tried."""
        due_ns = now_ns + pause_ns(attempt)
        self._turns[key] = Turn(due_ns, attempt)
        return due_ns

    def drop(self, key: WorkloadKey) -> None:
        self._turns.pop(key, None)

    def take_due(self, now_ns: int) -> list[tuple[WorkloadKey, int]]:
        """Those whose turn has come, each with the number of its attempt; the longest due first."""
        due = [
            (key, turn.attempt)
            for key, turn in sorted(self._turns.items(), key=lambda item: (item[1].due_ns, item[0]))
            if turn.due_ns <= now_ns
        ]
        for key, _ in due:
            del self._turns[key]
        return due

    @property
    def next_due_ns(self) -> int | None:
        return min((turn.due_ns for turn in self._turns.values()), default=None)
