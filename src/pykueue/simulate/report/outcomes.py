"""Listens to a simulation and keeps what the report needs, as columns and step functions."""

import heapq
from array import array

from pykueue.engine import values
from pykueue.engine.view import EngineView
from pykueue.simulate.engine_driver.jobs import JobTable
from pykueue.simulate.engine_driver.simulation import JobRun
from pykueue.simulate.report.timeline import Timeline
from pykueue.translate import messages, outcomes

NEVER = -1
WORST_WAITS = 10
ENDINGS = ("pending", "running", "finished", "stopped", "deactivated", "looping")
_PENDING, _RUNNING = 0, 1
_LONGEST_REASON = 400


class Outcomes:
    """The observer of a run. Columns have one entry for each job of the table."""

    def __init__(self, jobs: JobTable, view: EngineView, start_ns: int = 0) -> None:
        self.jobs = jobs
        self.start_ns = start_ns
        self.end_ns = start_ns
        self.first_start_ns = array("q")
        self.start_ns_of = array("q")
        self.ended_ns = array("q")
        self.evictions = array("i")
        self.preemptions = array("i")
        self.lost_ns = array("q")
        self.ending = array("b")
        self.flavor = array("h")
        self.flavors: list[str] = [""]
        self.interrupted: list[tuple[int, int, int]] = []
        """Runs that ended by an eviction: job, start and end."""
        self.timeline = Timeline(start_ns)
        self.eviction_reasons: dict[str, int] = {}
        self.preemptors: dict[tuple[str, str], int] = {}
        """How often workloads of one cluster queue evicted those of another."""
        self._queue_of: dict[values.LocalQueueKey, str] = {
            queue.key: str(queue.cluster_queue) for queue in view.local_queues()
        }
        self._nominal = {
            (str(queue.name), str(name.flavor), str(name.resource)): quota.nominal
            for queue in view.cluster_queues()
            for name, quota in queue.quotas.items()
        }
        self._worst: list[tuple[int, int, str]] = []
        self._grow(len(jobs))

    def _grow(self, count: int) -> None:
        missing = count - len(self.ending)
        if missing > 0:
            for column in (self.first_start_ns, self.start_ns_of, self.ended_ns):
                column.extend([NEVER] * missing)
            for numbers in (self.evictions, self.preemptions, self.lost_ns, self.ending, self.flavor):
                numbers.extend([0] * missing)

    def cluster_queue(self, number: int) -> str:
        return self.cluster_queue_of(self.jobs.prototype(number))

    def cluster_queue_of(self, prototype: values.Workload) -> str:
        return self._queue_of.get(prototype.local_queue, "")

    # What the simulation says

    def queued(self, job: JobRun, at_ns: int) -> None:
        if job.number >= len(self.ending):
            self._grow(len(self.jobs))
        self.ending[job.number] = _PENDING
        queue = self._queue_of.get(job.workload.local_queue, "")
        level = self.timeline.add(("pending", queue), 1, at_ns)
        if not job.evictions:
            job.queued_ahead = level - 1

    def reserved(self, job: JobRun, at_ns: int) -> None:
        number = job.number
        if number >= len(self.ending):
            self._grow(len(self.jobs))
        else:
            self.timeline.add(("pending", self._queue_of.get(job.workload.local_queue, "")), -1, at_ns)
        self._charge(job.workload, 1, at_ns)

    def started(self, job: JobRun, at_ns: int) -> None:
        number = job.number
        self.start_ns_of[number] = at_ns
        self.ending[number] = _RUNNING
        if self.first_start_ns[number] == NEVER:
            self.first_start_ns[number] = at_ns
            self._remember_wait(job, at_ns - self.jobs.submit_ns[number])
        self.flavor[number] = self._flavor_index(job.workload)

    def evicted(self, job: JobRun, at_ns: int, *, reason: str, by: values.WorkloadKey | None, lost_ns: int) -> None:
        number = job.number
        self.evictions[number] += 1
        self.preemptions[number] += reason == "Preempted"
        self.lost_ns[number] += lost_ns
        self.eviction_reasons[reason] = self.eviction_reasons.get(reason, 0) + 1
        if self.start_ns_of[number] != NEVER and self.ending[number] == _RUNNING:
            self.interrupted.append((number, self.start_ns_of[number], at_ns))
        self.ending[number] = _PENDING
        del by

    def released(self, job: JobRun, at_ns: int) -> None:
        self._charge(job.workload, -1, at_ns)

    def ended(self, job: JobRun, at_ns: int, *, how: str) -> None:
        self.ending[job.number] = ENDINGS.index(how)
        self.ended_ns[job.number] = at_ns
        self.end_ns = max(self.end_ns, at_ns)
        if job.workload.admission is not None:
            self._charge(job.workload, -1, at_ns)

    def finish(self, at_ns: int) -> None:
        """The run is over."""
        self.end_ns = max(self.end_ns, at_ns)
        self.timeline.finish(self.end_ns)

    # Usage

    def _charge(self, workload: values.Workload, sign: int, at_ns: int) -> None:
        admission = workload.admission
        assert admission is not None
        add, queue = self.timeline.add, admission.cluster_queue
        for pod_set in admission.pod_sets:
            flavors = pod_set.flavors
            for resource, amount in pod_set.usage.items():
                flavor = flavors.get(resource)
                if flavor is None or not amount:
                    continue
                level = add(("used", queue, flavor, resource), sign * amount, at_ns)
                nominal = self._nominal.get((queue, flavor, resource), 0)
                before, after = max(0, level - sign * amount - nominal), max(0, level - nominal)
                if before != after:
                    add(("borrowed", queue, flavor, resource), after - before, at_ns)

    def _flavor_index(self, workload: values.Workload) -> int:
        assert workload.admission is not None
        names = {flavor for pod_set in workload.admission.pod_sets for flavor in pod_set.flavors.values()}
        name = "+".join(sorted(names))
        try:
            return self.flavors.index(name)
        except ValueError:
            self.flavors.append(name)
            return len(self.flavors) - 1

    # The longest waits

    def _remember_wait(self, job: JobRun, wait_ns: int) -> None:
        entry = (wait_ns, -job.number)
        if len(self._worst) < WORST_WAITS:
            heapq.heappush(self._worst, (*entry, _why(job)))
        elif entry > self._worst[0][:2]:
            heapq.heapreplace(self._worst, (*entry, _why(job)))

    def worst_waits(self) -> list[tuple[int, int, str]]:
        """Wait, number and explanation of the jobs that waited longest and then started."""
        return [(wait_ns, -negated, why) for wait_ns, negated, why in sorted(self._worst, reverse=True)]


def _why(job: JobRun) -> str:
    parts = []
    if job.queued_ahead:
        words = "1 job was" if job.queued_ahead == 1 else f"{job.queued_ahead} jobs were"
        parts.append(f"{words} pending in its ClusterQueue when it arrived")
    if job.tries > 1:
        times = "once" if job.tries == 2 else f"{job.tries - 1} times"
        parts.append(f"it was tried {times} before it fitted")
    text = f"{'; '.join(parts)}. " if parts else ""
    if job.pending is not None:
        reason = messages.pending(job.pending, outcomes.amount_text)
        text += f"The last try: {reason[:_LONGEST_REASON]}"
    return (text[:1].upper() + text[1:]).strip() or "It was not tried before: jobs ahead of it took the quota."
