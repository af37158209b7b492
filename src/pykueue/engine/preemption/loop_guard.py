"""The preemption loop guard: workloads must not preempt each other in turn for ever. Kueue does
not have it.

In Kueue two workloads can evict each other again and again, if each is a valid target of the
other. With the guard a workload preempts another at most once, and never one that preempted it, so
preemption always ends. It is off by default. The preemption searches ask `allows`, and the cycle
records every preemption.
"""

from pykueue.engine.values import WorkloadKey


class LoopGuard:
    def __init__(self) -> None:
        self._met: dict[WorkloadKey, set[WorkloadKey]] = {}
        """Workload to those that it preempted or was preempted by."""

    def allows(self, preemptor: WorkloadKey, candidate: WorkloadKey) -> bool:
        return candidate not in self._met.get(preemptor, ())

    def record(self, preemptor: WorkloadKey, target: WorkloadKey) -> None:
        self._met.setdefault(preemptor, set()).add(target)
        self._met.setdefault(target, set()).add(preemptor)

    def forget(self, workload: WorkloadKey) -> None:
        for other in self._met.pop(workload, ()):
            self._met[other].discard(workload)
