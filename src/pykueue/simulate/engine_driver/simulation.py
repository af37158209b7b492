"""The discrete-event driver: moves time from event to event and answers the engine's decisions.

Whatever happens at one time is handled together: ended runs and other timers in the order in which
they were set, then arrivals, then scheduling cycles until one decides nothing new. That order is
total, so a simulation has no randomness of its own.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec
from msgspec import structs

from pykueue.api.times import SECOND_NS
from pykueue.controllers.scheduler.cycle_runner import CYCLES_REMEMBERED
from pykueue.controllers.workloads.transitions import backoff_seconds
from pykueue.engine import decisions, events, reasons, values
from pykueue.engine.engine import Engine
from pykueue.simulate.engine_driver import lifecycle
from pykueue.simulate.engine_driver.jobs import UNKNOWN_NS, JobTable
from pykueue.simulate.engine_driver.usage_sampling import UsageSampling
from pykueue.simulate.engine_driver.world import World
from pykueue.translate import policy

_ADMITS = (decisions.Admit, decisions.AssignTopology, decisions.Evict)


class SimulationOptions(msgspec.Struct, frozen=True, kw_only=True):
    eviction_delay_ns: int = SECOND_NS
    """How long an evicted job keeps its quota, as while its pods terminate.

    It is positive: otherwise jobs that evict each other in turn would stop the clock.
    """
    most_evictions: int = 1000
    """A job that is evicted so often ends as `looping`: it and others evict each other."""
    checkpoint_ns: int | None = None
    """How often jobs save their work: an evicted job loses what it did since. None: all of it."""
    cycle_ns: int = 0
    """How long a scheduling cycle takes. Jobs that it evicts may stop before the next one."""
    collects_changes: bool = True
    """Whether inadmissible jobs wait for more changes where arrivals preempt, as they do live."""
    check_delay_ns: int = 0
    """How long an admission check takes after quota is reserved."""
    check_delays_ns: dict[str, int] = msgspec.field(default_factory=dict)
    """The delays of single checks by name."""

    def __post_init__(self) -> None:
        assert self.eviction_delay_ns > 0


class JobRun:
    """One job that has arrived and not ended."""

    __slots__ = (
        "epoch", "evictions", "left_ns", "number", "past_ns", "pending", "queued_ahead", "requeues", "started_ns", "startup_ns",
        "tries", "workload",
    )  # fmt: skip

    def __init__(self, number: int, workload: values.Workload, *, run_ns: int, startup_ns: int) -> None:
        self.number = number
        """The number of the job in the `JobTable`."""
        self.workload = workload
        self.left_ns = run_ns
        """How long it still has to run; `UNKNOWN_NS` if nobody knows."""
        self.past_ns = 0
        """How long it ran before its evictions."""
        self.startup_ns = startup_ns
        self.started_ns: int | None = None
        """When its pods started; None while it does not run."""
        self.epoch = 0
        """Grows when the job starts or stops, so that older timers are ignored."""
        self.evictions = 0
        self.requeues = 0
        """How often its pods were not ready in time."""
        self.tries = 0
        self.queued_ahead = 0
        """How many jobs were pending in its cluster queue when it arrived."""
        self.pending: reasons.PendingReason | None = None
        """Why the last try did not admit it."""

    @property
    def key(self) -> values.WorkloadKey:
        return self.workload.key


class Observer(Protocol):
    """Hears of the steps of all jobs, for reports."""

    def queued(self, job: JobRun, at_ns: int) -> None:
        """The job arrived, or was evicted and is pending again."""

    def reserved(self, job: JobRun, at_ns: int) -> None:
        """Quota is reserved: `job.workload.admission` says where."""

    def started(self, job: JobRun, at_ns: int) -> None:
        """The pods start."""

    def evicted(self, job: JobRun, at_ns: int, *, reason: str, by: values.WorkloadKey | None, lost_ns: int) -> None:
        """The job stops; its quota is released when it has stopped."""

    def released(self, job: JobRun, at_ns: int) -> None:
        """The quota of an evicted job is free; `job.workload` still has its admission."""

    def ended(self, job: JobRun, at_ns: int, *, how: str) -> None:
        """The job has `finished`, was `stopped` by its time limit, was `deactivated` because its
        pods were never ready, or is `looping`.
        """


Timer = Callable[[JobRun], None]


class Simulation:
    def __init__(
        self,
        world: World,
        jobs: JobTable | None = None,
        *,
        options: SimulationOptions | None = None,
        observer: Observer | None = None,
        on_decision: Callable[[int, decisions.Decision], None] | None = None,
    ) -> None:
        self.world = world
        self.engine: Engine = world.engine
        self.jobs = JobTable() if jobs is None else jobs
        self.options = options or SimulationOptions()
        self.now_ns = world.clock.at_ns
        collects = self.options.collects_changes
        self._requeue_interval_ns = policy.requeue_interval_ns(world.configuration) if collects else 0
        self.runs: dict[values.WorkloadKey, JobRun] = {}
        """The jobs that have arrived and not ended."""
        self.arrived_count = 0
        self.ended_count = 0
        self.cycle_count = 0
        self._pending_count = 0
        """Jobs without quota. While it is 0, cycles have no heads and are left out."""
        self._observer = observer
        self.on_decision = on_decision
        self._pods_ready = world.pods_ready
        self._arrivals: Iterator[int] = iter(self.jobs.in_order_of_arrival())
        self._next_arrival: int | None = next(self._arrivals, None)
        self._timers: list[tuple[int, int, Timer | None, JobRun | Callable[[], None], int]] = []
        self._sequence = 0
        self._next_cycle_ns: int | None = None
        """When the next cycle may start; None if the last one decided nothing or took no time."""
        self._recent: deque[tuple[list[decisions.Decision], Any]] = deque(maxlen=CYCLES_REMEMBERED)
        """What the last cycles decided, since something else happened."""
        self._sampling = UsageSampling.of(self.engine, self.now_ns)

    # Input besides the table of jobs

    def adopt(self, workload: values.Workload, *, run_ns: int | None, startup_ns: int = 0) -> JobRun:
        """Take over a Workload that the engine already has.

        `run_ns` is how long it will run from now on, or from its start if it is pending.
        """
        limit = UNKNOWN_NS if run_ns is None else run_ns
        number = self.jobs.add(
            self.jobs.add_adopted(workload),
            submit_ns=workload.created_at_ns,
            run_ns=run_ns,
            name=workload.key.partition("/")[2],
            startup_ns=startup_ns,
        )
        job = JobRun(number, workload, run_ns=limit, startup_ns=startup_ns)
        self.runs[workload.key] = job
        self.arrived_count += 1
        self._resume(job)
        return job

    def submit(
        self, prototype: values.Workload, *, run_ns: int | None, at_ns: int | None = None, name: str | None = None
    ) -> int:
        """Add a job while the simulation runs; return its number."""
        submit_ns = max(self.now_ns, self.now_ns if at_ns is None else at_ns)
        number = self.jobs.add(self.jobs.add_template(prototype), submit_ns=submit_ns, run_ns=run_ns, name=name)
        self.at(submit_ns, lambda: self._arrive(number))
        return number

    def at(self, at_ns: int, action: Callable[[], None]) -> None:
        """Call a function at a time, before the cycles of that time."""
        self._sequence += 1
        heapq.heappush(self._timers, (at_ns, self._sequence, None, action, 0))

    # Running

    def run(self, until_ns: int | None = None, *, stop: Callable[[], bool] | None = None) -> None:
        """Run until nothing can happen, until a time, or until `stop` says so after some step."""
        self._decide()
        if stop is not None and stop():
            return
        while (at_ns := self.next_ns()) is not None and (until_ns is None or at_ns <= until_ns):
            self._advance(at_ns)
            if stop is not None and stop():
                return
        if until_ns is not None:
            self._set_time(max(self.now_ns, until_ns))

    def run_until_started(self, key: values.WorkloadKey, until_ns: int | None = None) -> int | None:
        """When the job starts; None if that does not happen (until `until_ns`)."""

        def has_started() -> bool:
            job = self.runs.get(key)
            return job is not None and job.started_ns is not None

        if not has_started():
            self.run(until_ns, stop=has_started)
        job = self.runs.get(key)
        return None if job is None else job.started_ns

    def evict(self, job: JobRun, reason: str) -> None:
        """Evict a running job, as an administrator or a stopped queue would."""
        self._evict(job, reason)

    def end(self, job: JobRun) -> None:
        """Let a job end now, as its user would."""
        self._end(job, "finished")

    def lose_node(self, name: str) -> None:
        """Delete a node; the Workloads that were placed on it look for another one."""
        self.engine.handle(events.NodeGone(at_ns=self.now_ns, name=name))
        for job in [job for job in self.runs.values() if _is_placed_on(job.workload, name)]:
            nodes = (*job.workload.unhealthy_nodes, name)
            self._send(job, structs.replace(job.workload, unhealthy_nodes=nodes))

    def next_ns(self) -> int | None:
        """When something happens next; None if nothing will."""
        next_ns = self._timers[0][0] if self._timers else None
        arrival = self._next_arrival
        for at_ns in (
            None if arrival is None else self.jobs.submit_ns[arrival],
            self.engine.next_due_ns if self._next_cycle_ns is None else self._next_cycle_ns,
        ):
            if at_ns is not None and (next_ns is None or at_ns < next_ns):
                next_ns = at_ns
        if self._sampling is not None and (self.runs or next_ns is not None):
            next_ns = self._sampling.due_ns if next_ns is None else min(next_ns, self._sampling.due_ns)
        return None if next_ns is None else max(self.now_ns, next_ns)

    def _set_time(self, at_ns: int) -> None:
        self.now_ns = at_ns
        self.world.clock.at_ns = at_ns

    def _advance(self, at_ns: int) -> None:
        self._set_time(at_ns)
        if at_ns != self._next_cycle_ns:
            self._recent.clear()
        timers = self._timers
        while timers and timers[0][0] <= at_ns:
            _, _, timer, subject, epoch = heapq.heappop(timers)
            if not isinstance(subject, JobRun):
                subject()
            elif subject.epoch == epoch and timer is not None:
                timer(subject)
        submit_ns = self.jobs.submit_ns
        while self._next_arrival is not None and submit_ns[self._next_arrival] <= at_ns:
            self._arrive(self._next_arrival)
            self._next_arrival = next(self._arrivals, None)
        if self._sampling is not None and self._sampling.due_ns <= at_ns:
            self._sampling.sample(at_ns)
        self._decide()

    def _decide(self) -> None:
        """Run cycles until one decides nothing new, as the scheduler does."""
        if self._next_cycle_ns is not None and self.now_ns < self._next_cycle_ns:
            return
        self._next_cycle_ns = None
        recent = self._recent
        cycle_due = events.CycleDue(at_ns=self.now_ns, requeue_interval_ns=self._requeue_interval_ns)
        while self._may_decide() and (decided := self.engine.handle(cycle_due)):
            if not isinstance(decided[0], _ADMITS):
                outcome = (decided, self.engine.view.tried_flavors(decided))
                if outcome in recent:
                    return
                recent.append(outcome)
            self.cycle_count += 1
            for decision in decided:
                self._apply(decision)
            if self.options.cycle_ns:
                self._next_cycle_ns = self.now_ns + self.options.cycle_ns
                return

    def _may_decide(self) -> bool:
        if self._pending_count:
            return True
        due_ns = self.engine.next_due_ns
        return due_ns is not None and due_ns <= self.now_ns

    # Decisions

    def _apply(self, decision: decisions.Decision) -> None:
        if self.on_decision is not None:
            self.on_decision(self.now_ns, decision)
        match decision:
            case decisions.MarkInadmissible() | decisions.Requeue():
                job = self.runs[decision.workload]
                job.tries += 1
                job.pending = decision.pending
            case decisions.Admit():
                self._reserve(self.runs[decision.workload], decision)
            case decisions.Preempt():
                for target in decision.targets:
                    if not target.already_evicted:
                        job = self.runs[target.workload]
                        self._evict(job, "Preempted", preemption_reason=target.reason.value, by=decision.workload)
            case decisions.AssignTopology():
                self._place(self.runs[decision.workload], decision)
            case decisions.Evict():
                self._evict(self.runs[decision.workload], "NodeFailures")
            case decisions.Migrate():
                self._evict(self.runs[decision.victim], "FlavorMigration", by=decision.workload)

    def _reserve(self, job: JobRun, decision: decisions.Admit) -> None:
        job.tries += 1
        self._pending_count -= 1
        self._send(job, lifecycle.reserved(job.workload, decision))
        if self._observer is not None:
            self._observer.reserved(job, self.now_ns)
        if decision.replaces is not None and decision.replaces in self.runs:
            self._end(self.runs[decision.replaces], "finished")
        if decision.admitted:
            self._start(job)
        else:
            self._await_checks(job)

    def _place(self, job: JobRun, decision: decisions.AssignTopology) -> None:
        self._send(job, lifecycle.placed(job.workload, decision))
        if decision.admitted and job.started_ns is None:
            self._start(job)

    def _await_checks(self, job: JobRun) -> None:
        names = self._required_checks(job.workload)
        delays = [self.options.check_delays_ns.get(name, self.options.check_delay_ns) for name in names]
        self._set_timer(self.now_ns + max(delays, default=0), self._checks_ready, job)

    def _required_checks(self, workload: values.Workload) -> list[values.CheckName]:
        admission = workload.admission
        assert admission is not None
        queue = self.engine.view.cluster_queue(admission.cluster_queue)
        used = {flavor for pod_set in admission.pod_sets for flavor in pod_set.flavors.values()}
        checks = {} if queue is None else queue.value.admission_checks
        return [name for name, flavors in checks.items() if not flavors or not flavors.isdisjoint(used)]

    # Steps of a job

    def _send(self, job: JobRun, workload: values.Workload) -> None:
        job.workload = workload
        self.engine.handle(events.WorkloadChanged(at_ns=self.now_ns, workload=workload))

    def _set_timer(self, at_ns: int, timer: Timer, job: JobRun) -> None:
        self._sequence += 1
        heapq.heappush(self._timers, (at_ns, self._sequence, timer, job, job.epoch))

    def _arrive(self, number: int) -> None:
        jobs = self.jobs
        prototype = jobs.prototype(number)
        if jobs.key(number) in self.runs:
            jobs.names[number] = f"{jobs.name(number)}-{number}"
        self.arrived_count += 1
        workload = lifecycle.arrived(
            prototype, jobs.key(number), arrival=self.arrived_count, created_at_ns=jobs.submit_ns[number]
        )
        job = JobRun(number, workload, run_ns=jobs.run_ns[number], startup_ns=jobs.startup_ns.get(number, 0))
        self.runs[workload.key] = job
        self._pending_count += 1
        self.engine.handle(events.WorkloadArrived(at_ns=self.now_ns, workload=workload))
        if self._observer is not None:
            self._observer.queued(job, self.now_ns)

    def _resume(self, job: JobRun) -> None:
        """Set the timers of a Workload that somebody else brought to its state."""
        workload = job.workload
        if workload.admission is None:
            self._pending_count += 1
            if workload.requeue_at_ns is not None:
                self._set_timer(max(self.now_ns, workload.requeue_at_ns), self._requeue, job)
            if self._observer is not None:
                self._observer.queued(job, self.now_ns)
            return
        if self._observer is not None:
            self._observer.reserved(job, self.now_ns)
        if workload.eviction is not None:
            self._set_timer(self.now_ns + self.options.eviction_delay_ns, self._stopped, job)
        elif workload.admitted:
            self._start(job)
        else:
            self._await_checks(job)

    def _start(self, job: JobRun) -> None:
        job.epoch += 1
        job.started_ns = self.now_ns
        if self._observer is not None:
            self._observer.started(job, self.now_ns)
        pods_ready = self._pods_ready
        if pods_ready is not None and job.startup_ns > pods_ready.timeout_ns:
            self._set_timer(self.now_ns + pods_ready.timeout_ns, self._pods_ready_timeout, job)
            return
        if pods_ready is not None and pods_ready.block_admission and not job.workload.pods_ready:
            self._set_timer(self.now_ns + job.startup_ns, self._became_ready, job)
        limit_ns = self.jobs.limits_ns[self.jobs.template[job.number]]
        run_ns = None if job.left_ns == UNKNOWN_NS else job.startup_ns + job.left_ns
        if limit_ns is not None and (run_ns is None or job.past_ns + run_ns > limit_ns):
            self._set_timer(self.now_ns + max(0, limit_ns - job.past_ns), self._time_out, job)
        elif run_ns is not None:
            self._set_timer(self.now_ns + run_ns, self._finish, job)

    def _checks_ready(self, job: JobRun) -> None:
        ready = dict.fromkeys(self._required_checks(job.workload), values.CheckState.READY)
        self._send(job, lifecycle.checked(job.workload, ready))
        if job.workload.admitted:
            self._start(job)

    def _became_ready(self, job: JobRun) -> None:
        self._send(job, structs.replace(job.workload, pods_ready=True))

    def _pods_ready_timeout(self, job: JobRun) -> None:
        pods_ready = self._pods_ready
        assert pods_ready is not None
        job.requeues += 1
        if pods_ready.backoff_limit_count is not None and job.requeues > pods_ready.backoff_limit_count:
            self._end(job, "deactivated")
            return
        wait = backoff_seconds(
            job.requeues, base_seconds=pods_ready.backoff_base_seconds, max_seconds=pods_ready.backoff_max_seconds
        )
        self._evict(job, "PodsReadyTimeout", requeue_at_ns=self.now_ns + wait * SECOND_NS)

    def _evict(
        self,
        job: JobRun,
        reason: str,
        *,
        preemption_reason: str = "",
        by: values.WorkloadKey | None = None,
        requeue_at_ns: int | None = None,
    ) -> None:
        job.epoch += 1
        job.evictions += 1
        lost_ns = self._stop_work(job)
        workload = lifecycle.evicted(job.workload, reason, self.now_ns, preemption_reason=preemption_reason)
        self._send(job, structs.replace(workload, requeue_at_ns=requeue_at_ns))
        if self._observer is not None:
            self._observer.evicted(job, self.now_ns, reason=reason, by=by, lost_ns=lost_ns)
        self._set_timer(self.now_ns + self.options.eviction_delay_ns, self._stopped, job)

    def _stop_work(self, job: JobRun) -> int:
        """Count what the job did, and return how much of it is lost."""
        if job.started_ns is None:
            return 0
        elapsed_ns = self.now_ns - job.started_ns
        job.past_ns += elapsed_ns
        worked_ns = max(0, elapsed_ns - job.startup_ns)
        step_ns = self.options.checkpoint_ns
        saved_ns = 0 if step_ns is None else worked_ns if step_ns == 0 else worked_ns // step_ns * step_ns
        if job.left_ns != UNKNOWN_NS:
            job.left_ns = max(0, job.left_ns - saved_ns)
        job.started_ns = None
        return worked_ns - saved_ns

    def _stopped(self, job: JobRun) -> None:
        if job.evictions >= self.options.most_evictions:
            self._end(job, "looping")
            return
        if self._observer is not None:
            self._observer.released(job, self.now_ns)
        self._pending_count += 1
        requeue_at_ns = job.workload.requeue_at_ns
        self._send(job, lifecycle.stopped(job.workload, requeue_at_ns=requeue_at_ns))
        if requeue_at_ns is not None:
            self._set_timer(max(self.now_ns, requeue_at_ns), self._requeue, job)
        if self._observer is not None:
            self._observer.queued(job, self.now_ns)

    def _requeue(self, job: JobRun) -> None:
        self._send(job, lifecycle.requeued(job.workload))

    def _finish(self, job: JobRun) -> None:
        self._end(job, "finished")

    def _time_out(self, job: JobRun) -> None:
        self._end(job, "stopped")

    def _end(self, job: JobRun, how: str) -> None:
        """The quota is free at once. The engine need not remember the job, so it is gone."""
        job.epoch += 1
        del self.runs[job.key]
        self._pending_count -= job.workload.admission is None
        self.ended_count += 1
        self.engine.handle(events.WorkloadGone(at_ns=self.now_ns, key=job.key))
        if self._observer is not None:
            self._observer.ended(job, self.now_ns, how=how)


def _is_placed_on(workload: values.Workload, node: str) -> bool:
    return workload.admission is not None and any(
        pod_set.topology is not None and any(domain.values[-1] == node for domain in pod_set.topology.domains)
        for pod_set in workload.admission.pod_sets
    )
