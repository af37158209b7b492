"""The scheduler: runs engine cycles while there is something to decide, and writes the decisions.

The engine assumes what it decides, so a cycle never waits for the API. Decisions are written side
by side, but in order for each Workload. The engine hears of a refused write as an event.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from pykueue.api import resources
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.controllers.metrics.collector import Metrics
from pykueue.controllers.scheduler.cycle_runner import CycleRunner
from pykueue.controllers.scheduler.engine_audit import EngineAudit
from pykueue.controllers.scheduler.engine_events import REQUIRED_KINDS, EngineEventSource
from pykueue.controllers.scheduler.pending_statuses import PendingStatuses
from pykueue.controllers.scheduler.workload_writer import WorkloadWriter
from pykueue.controllers.workloads import predicates, transitions
from pykueue.controllers.workloads.unadmitted import UnadmittedStatus
from pykueue.engine import decisions, engine, events, values
from pykueue.engine.policy import AdmissionFairSharing
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.kube.controller.background_writes import BackgroundWrites
from pykueue.kube.controller.cache import ObjectCache
from pykueue.kube.controller.executor import OrderedWrites, WriteExecutor
from pykueue.kube.controller.work_queue import first_of
from pykueue.recording.ring import RingWriter
from pykueue.translate import devices, messages, outcomes, policy

log = logging.getLogger(__name__)


LONGEST_WAIT_SECONDS = 10
"""Something that is due later is looked at earlier, because the clock may be set back."""
LAST_WRITES_SECONDS = 3
"""How long a scheduler that stops waits for the answers to its writes; shorter than the time
between renewDeadline and leaseDuration."""
_SUCCESSES = (decisions.Admit, decisions.Preempt, decisions.AssignTopology, decisions.Evict)

Refusal = type[events.AdmissionRefused] | type[events.EvictionRefused]


class StatusWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A decision as a write of a Workload's status."""

    workload: values.WorkloadKey
    cluster_queue: values.ClusterQueueName
    guard: Callable[[Object], bool]
    """Whether the decision still applies to the Workload."""
    transition: Callable[[Object], object]
    """Edits the Workload; False when there is nothing to write."""
    events: Callable[[Object], Sequence[outcomes.WorkloadEvent]]
    """The events to record about the Workload as written."""
    refusal: Refusal | None = None
    """The engine event of a refused write; the engine hears of no other change until then."""
    on_written: Callable[[Object], None] = lambda _workload: None

    def change(self, workload: Object) -> bool:
        return self.guard(workload) and self.transition(workload) is not False


def _holds_places(workload: Object) -> bool:
    return predicates.holds_quota(workload) and not predicates.is_evicted(workload)


def _can_be_preempted(workload: Object) -> bool:
    return (
        predicates.has_quota_reservation(workload)
        and not predicates.is_finished(workload)
        and not predicates.is_evicted(workload)
    )


class Scheduler:
    def __init__(
        self,
        client: Client,
        cache: ObjectCache,
        executor: WriteExecutor,
        *,
        clock: Clock,
        configuration: Mapping[str, Any],
        recorder: RingWriter | None = None,
    ) -> None:
        self._recorder = recorder
        self._cache = cache
        self._clock = clock
        self._policy = policy.engine_policy(configuration)
        self._encodes_by_prefix = policy.encodes_by_hostname_prefix(configuration)
        self._unadmitted = UnadmittedStatus(is_granular=self._policy.unadmitted_workloads_observability)
        self.engine = engine.Engine(self._policy)
        self._writer = WorkloadWriter(client, cache, executor, clock)
        self._cycles = CycleRunner(
            self.engine,
            clock,
            deliver=self._deliver,
            apply=self._apply,
            measure=self._measure,
            notify=self._notify,
            paused=self.background.paused,
            requeue_interval_ns=policy.requeue_interval_ns(configuration),
            recorder=recorder,
        )
        self._feed = EngineEventSource(cache, clock, configuration, self.handle)
        self._writes = OrderedWrites()
        self._wake = asyncio.Event()
        self._pending = PendingStatuses(
            self._writer,
            self._writes,
            view=self.engine.view,
            clock=clock,
            value_of=self._feed.value_of,
            unadmitted=self._unadmitted,
        )
        cache.on_change(resources.WORKLOAD, self._workload_changed)
        self.metrics: Metrics | None = None
        self.has_unanswered_writes = False
        """Set at the end: whether a write of this scheduler may still take effect."""
        self.on_decision: list[Callable[[values.ClusterQueueName], None]] = []
        """Called with every ClusterQueue whose queue or usage a decision changed."""

    @property
    def background(self) -> BackgroundWrites:
        return self._writer.background

    @property
    def usage_sharing(self) -> AdmissionFairSharing | None:
        return self._policy.admission_fair_sharing

    @property
    def shares_fairly(self) -> bool:
        return self._policy.fair_sharing is not None

    def audit(self, on_difference: Callable[[str], None]) -> EngineAudit:
        return EngineAudit(self._feed, self._cache, self.engine.view, on_difference)

    def inadmissibility(self, workload: Object) -> str:
        """Why no ClusterQueue may admit the requests of the Workload; "" if one may."""
        invalid = self._feed.value_of(workload).invalid_requests
        return "" if invalid is None else messages.invalid_requests(invalid)

    def device_fault(self, workload: Object) -> devices.DeviceFault | None:
        return self._feed.device_fault(workload)

    def handle(self, event: events.EngineEvent) -> None:
        """Give the engine an event, at the latest after the running cycle, and wake the loop."""
        self._cycles.handle(event)

    def _deliver(self, event: events.EngineEvent) -> None:
        """Give the engine an event and wake the scheduling loop.

        A Workload that is to the engine as before wakes nobody. Otherwise a reason that alternates
        from cycle to cycle, as the flavors of two pod sets do in Kueue, would be written for ever:
        each write would bring about the next cycle.
        """
        is_unchanged = isinstance(event, events.WorkloadChanged) and self.engine.view.is_current(event.workload)
        if isinstance(event, events.WorkloadArrived):
            self.background.arrived()
        if self._recorder is not None:
            self._recorder.event(event)
        self.engine.handle(event)
        reactivated = self.engine.view.reactivated_trees
        if reactivated:
            self._pending.reactivated(reactivated)
        if not is_unchanged:
            self._wake.set()

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._pending.changed(new)
        elif old is not None:
            self._pending.forget(values.WorkloadKey(predicates.key(old)))

    # The loop

    async def run(self) -> None:
        await self._cache.listed(REQUIRED_KINDS)
        self._feed.count_arrivals()
        self._wake.set()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.background.run())
                group.create_task(self._schedule())
        finally:
            self._writer.end()
            is_ended = await self._writes.end(LAST_WRITES_SECONDS)
            self.has_unanswered_writes = self._writer.has_unanswered_writes or not is_ended

    async def _schedule(self) -> None:
        while True:
            await self._wait()
            await self._cycles.pause()
            self._wake.clear()
            await self._cycles.run()

    async def _wait(self) -> None:
        """Wait until something changes, or until a Workload is due for another try."""
        due_ns = self.engine.next_due_ns
        seconds = None
        if due_ns is not None:
            seconds = min(max(0.0, (due_ns - self._clock.now_ns()) / SECOND_NS), LONGEST_WAIT_SECONDS)
        await first_of(self._wake, self._clock, seconds)

    def _measure(self, decided: list[decisions.Decision], seconds: float) -> None:
        if self.metrics is not None:
            is_success = any(isinstance(decision, _SUCCESSES) for decision in decided)
            self.metrics.cycle_ended(is_success=is_success, seconds=seconds)

    def _apply(self, decision: decisions.Decision) -> None:
        match decision:
            case decisions.Admit():
                self._admit(decision)
            case decisions.Preempt():
                self._preempt(decision)
            case decisions.AssignTopology():
                self._assign_topology(decision)
            case decisions.RetrySecondPass():
                self._record_missing_topology(decision)
            case decisions.Evict():
                self._evict_unplaceable(decision)
            case decisions.Migrate():
                self._migrate(decision)
            case decisions.Requeue() | decisions.MarkInadmissible():
                self._pending.set(decision)
        self._notify(decision.cluster_queue)

    def _notify(self, cluster_queue: values.ClusterQueueName) -> None:
        for notify in self.on_decision:
            notify(cluster_queue)

    # One method for each kind of decision

    def _admit(self, decision: decisions.Admit) -> None:
        now_ns = self._clock.now_ns()

        def reserve_quota(workload: Object) -> None:
            transitions.reserve_quota(workload, self._admission(decision), now_ns)
            if decision.admitted:
                transitions.sync_admitted(workload, now_ns, self._unadmitted)

        def finish_replaced_slice(written: Object) -> None:
            if decision.replaces is not None:
                self._finish_slice(decision, decision.replaces, self._feed.value_of(written))

        self._pending.forget(decision.workload)
        self._submit(
            StatusWrite(
                workload=decision.workload,
                cluster_queue=decision.cluster_queue,
                guard=predicates.is_admissible,
                transition=reserve_quota,
                events=lambda written: outcomes.admission_events(
                    decision, waited_ns=now_ns - predicates.queued_since_ns(written)
                ),
                refusal=events.AdmissionRefused,
                on_written=finish_replaced_slice,
            )
        )

    def _finish_slice(self, decision: decisions.Admit, key: values.WorkloadKey, replacement: values.Workload) -> None:
        """Finish the replaced slice; if that fails, the job controller does it."""
        now_ns = self._clock.now_ns()
        event = outcomes.slice_replaced_event(key, replacement)
        self._submit(
            StatusWrite(
                workload=key,
                cluster_queue=decision.cluster_queue,
                guard=lambda _workload: True,
                transition=lambda workload: transitions.finish(
                    workload, reason=event.reason, message=event.message, now_ns=now_ns
                ),
                events=lambda _written: [event],
            )
        )

    def _preempt(self, decision: decisions.Preempt) -> None:
        for target in decision.targets:
            if not target.already_evicted:
                self._preempt_target(decision, target)

    def _preempt_target(self, decision: decisions.Preempt, target: decisions.PreemptedWorkload) -> None:
        now_ns = self._clock.now_ns()
        preemptor, victim = self._value(decision.workload), self._value(target.workload)
        if preemptor is None or victim is None:
            self.handle(events.EvictionRefused(at_ns=now_ns, key=target.workload))
            return
        message = outcomes.preemption_message(preemptor, decision, target)
        recorded = outcomes.preemption_events(decision, target, preemptor=preemptor, victim=victim)

        def count(_written: Object) -> None:
            if self.metrics is not None:
                self.metrics.preempted(decision.cluster_queue, target.reason.value)

        self._submit(
            StatusWrite(
                workload=target.workload,
                cluster_queue=target.cluster_queue,
                guard=_can_be_preempted,
                transition=lambda workload: transitions.preempt(
                    workload, reason=target.reason.value, message=message, now_ns=now_ns
                ),
                events=lambda _written: recorded,
                refusal=events.EvictionRefused,
                on_written=count,
            )
        )

    def _assign_topology(self, decision: decisions.AssignTopology) -> None:
        now_ns = self._clock.now_ns()
        self._submit(
            StatusWrite(
                workload=decision.workload,
                cluster_queue=decision.cluster_queue,
                guard=_holds_places,
                transition=lambda workload: transitions.assign_topology(
                    workload, self._admission(decision), now_ns, self._unadmitted
                ),
                events=lambda _written: outcomes.placement_events(decision),
                refusal=events.AdmissionRefused,
            )
        )

    def _record_missing_topology(self, decision: decisions.RetrySecondPass) -> None:
        workload = self._writer.cached(decision.workload)
        if workload is not None:
            self._writer.record([outcomes.no_place_event(decision)], workload)

    def _evict_unplaceable(self, decision: decisions.Evict) -> None:
        now_ns = self._clock.now_ns()
        message = outcomes.no_replacement_message(decision)
        self._submit(
            StatusWrite(
                workload=decision.workload,
                cluster_queue=decision.cluster_queue,
                guard=_holds_places,
                transition=lambda workload: transitions.evict(
                    workload, reason="NodeFailures", message=message, now_ns=now_ns
                ),
                events=lambda _written: [outcomes.no_replacement_event(decision)],
                refusal=events.EvictionRefused,
            )
        )

    def _migrate(self, decision: decisions.Migrate) -> None:
        now_ns = self._clock.now_ns()
        variant = self._value(decision.workload)
        if variant is None:
            self.handle(events.EvictionRefused(at_ns=now_ns, key=decision.victim))
            return
        event = outcomes.migration_event(decision, variant)
        self._submit(
            StatusWrite(
                workload=decision.victim,
                cluster_queue=decision.cluster_queue,
                guard=_can_be_preempted,
                transition=lambda workload: transitions.evict(
                    workload, reason=outcomes.FLAVOR_MIGRATION, message=event.message, now_ns=now_ns
                ),
                events=lambda _written: [event],
                refusal=events.EvictionRefused,
            )
        )

    def _admission(self, decision: decisions.Admit | decisions.AssignTopology) -> Object:
        return outcomes.admission(decision.admission, by_hostname_prefix=self._encodes_by_prefix)

    # Writing

    def _submit(self, status_write: StatusWrite) -> None:
        key, refusal = status_write.workload, status_write.refusal

        async def write() -> None:
            written = await self._writer.write(key, status_write.change)
            self.background.written()
            if isinstance(written, dict):
                if refusal is events.AdmissionRefused:
                    self._feed.confirm(key, written)
                self._writer.record(status_write.events(written), written)
                status_write.on_written(written)
            elif refusal is not None:
                self.handle(refusal(at_ns=self._clock.now_ns(), key=key))
                self._confirm_present(key)
            if refusal is not None:
                self._feed.resume(key)
                self._notify(status_write.cluster_queue)

        if refusal is not None:
            self._feed.pause(key)
        self.background.decided()
        self._writes.submit(key, write)

    def _confirm_present(self, key: values.WorkloadKey) -> None:
        """After a refusal the Workload may have quota all the same: the answer to an earlier
        attempt was lost. The engine hears of it before its next cycle.
        """
        workload = self._writer.cached(key)
        if workload is not None:
            self._feed.confirm(key, workload)

    def _value(self, key: values.WorkloadKey) -> values.Workload | None:
        workload = self._writer.cached(key)
        return None if workload is None else self._feed.value_of(workload)
