"""The preemption loop guard (ours, off by default): workloads may not preempt each other in turn for ever.

In Kueue two workloads can evict each other again and again, when each finds the other a fair victim. With the guard a
workload preempts another at most once, and never one that preempted it; so every set of workloads comes to rest.
The preemption searches ask it, the report tells it, and the dead are forgotten.
"""

from pykueue.engine.values import WorkloadKey


class LoopGuard:
    def __init__(self) -> None:
        self._met: dict[WorkloadKey, set[WorkloadKey]] = {}
        """Who ever preempted, or was preempted by, whom."""

    def allows(self, preemptor: WorkloadKey, candidate: WorkloadKey) -> bool:
        return candidate not in self._met.get(preemptor, ())

    def record(self, preemptor: WorkloadKey, target: WorkloadKey) -> None:
        self._met.setdefault(preemptor, set()).add(target)
        self._met.setdefault(target, set()).add(preemptor)

    def forget(self, workload: WorkloadKey) -> None:
        for other in self._met.pop(workload, ()):
            self._met[other].discard(workload)
