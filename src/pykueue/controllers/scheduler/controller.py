"""The scheduler's loop: something happened → one cycle after another until nothing more can be decided → writes.

The engine has already assumed what it decides, so a cycle never waits for the API: decisions are written side by side, in
order for each Workload, and what the API refuses is told to the engine as an event.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from pykueue.api import resources
from pykueue.api.errors import ApiError
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.controllers.metrics.collector import Metrics
from pykueue.controllers.scheduler.engine_events import REQUIRED_KINDS, EngineEventSource
from pykueue.controllers.scheduler.pending_events import PendingEventFilter
from pykueue.controllers.workloads import predicates, transitions
from pykueue.engine import decisions, engine, events, reasons, values
from pykueue.engine.policy import AdmissionFairSharing
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.kube.controller.apply import Applier
from pykueue.kube.controller.cache import ObjectCache, named
from pykueue.kube.controller.ordered_writes import OrderedWrites
from pykueue.kube.controller.plan import Event, Write
from pykueue.kube.controller.work_queue import first_of
from pykueue.translate import devices, outcomes, policy

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.005
"""Changes that come together are decided together."""
CYCLES_REMEMBERED = 8
"""Heads that go round in circles wait for something to happen."""
ATTEMPTS = 8

_SUCCESSES = (decisions.Admit, decisions.Preempt, decisions.AssignTopology, decisions.Evict)

Change = Callable[[Object], bool]
"""Edits a Workload; False when the decision no longer applies to it."""


class Scheduler:
    def __init__(
        self, client: Client, mirror: ObjectCache, applier: Applier, *, clock: Clock, configuration: Mapping[str, Any]
    ) -> None:
        self._client = client
        self._mirror = mirror
        self._applier = applier
        self._clock = clock
        self._policy = policy.engine_policy(configuration)
        self.engine = engine.Engine(self._policy)
        self._feed = EngineEventSource(mirror, clock, configuration, self._tell)
        self._writes = OrderedWrites()
        self._news = asyncio.Event()
        self._pending_news = PendingEventFilter()
        mirror.on_change(resources.WORKLOAD, self._workload_changed)
        self.metrics: Metrics | None = None
        self.watchers: list[Callable[[values.ClusterQueueName], None]] = []
        """Told of every ClusterQueue whose queue or usage a decision touched."""

    @property
    def usage_sharing(self) -> AdmissionFairSharing | None:
        return self._policy.admission_fair_sharing

    @property
    def shares_fairly(self) -> bool:
        return self._policy.fair_sharing is not None

    def device_fault(self, workload: Object) -> devices.Fault | None:
        return self._feed.device_fault(workload)

    def tell(self, event: events.EngineEvent) -> None:
        """For news that the feed of queues and workloads does not bring: samples of usage, nodes."""
        self._tell(event)

    def _tell(self, event: events.EngineEvent) -> None:
        self._carry_out(self.engine.handle(event))
        reactivated = self.engine.view.reactivated_trees
        if reactivated:
            self._pending_news.reactivated(reactivated, self._clock.now_ns())
        self._news.set()

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._pending_news.forget(values.WorkloadKey(predicates.key(old)))

    async def run(self) -> None:
        await self._mirror.listed(REQUIRED_KINDS)
        self._news.set()
        while True:
            await self._news_or_due()
            await self._clock.sleep(PAUSE_SECONDS)
            self._news.clear()
            await self._run_cycles()

    async def _news_or_due(self) -> None:
        """Until something happened, or somebody's turn has come."""
        due_ns = self.engine.next_due_ns
        seconds = None if due_ns is None else max(0.0, (due_ns - self._clock.now_ns()) / SECOND_NS)
        await first_of(self._news, self._clock, seconds)

    async def _run_cycles(self) -> None:
        """Until a cycle decides nothing new; others get their turn between two cycles."""
        lately: deque[list[decisions.Decision]] = deque(maxlen=CYCLES_REMEMBERED)
        while True:
            started = time.perf_counter()
            decided = self.engine.handle(events.CycleDue(at_ns=self._clock.now_ns()))
            if not decided or decided in lately:
                return
            self._measure(decided, time.perf_counter() - started)
            self._carry_out(decided)
            lately.append(decided)
            await asyncio.sleep(0)

    def _measure(self, decided: list[decisions.Decision], seconds: float) -> None:
        if self.metrics is None:
            return
        is_success = any(isinstance(each, _SUCCESSES) for each in decided)
        self.metrics.cycle_ended(is_success=is_success, seconds=seconds)

    def _carry_out(self, decided: list[decisions.Decision]) -> None:
        for decision in decided:
            match decision:
                case decisions.Admit():
                    self._admit(decision)
                case decisions.Preempt():
                    self._preempt(decision)
                case decisions.AssignTopology():
                    self._place(decision)
                case decisions.RetrySecondPass():
                    self._place_later(decision)
                case decisions.Evict():
                    self._give_up(decision)
                case decisions.Requeue() | decisions.MarkInadmissible():
                    self._put_off(decision)
            for watcher in self.watchers:
                watcher(decision.cluster_queue)

    # One kind of decision each.

    def _admit(self, decision: decisions.Admit) -> None:
        now_ns = self._clock.now_ns()

        def reserve(workload: Object) -> bool:
            if not predicates.is_admissible(workload):
                return False
            transitions.reserve_quota(workload, outcomes.admission(decision.admission), now_ns)
            if decision.admitted:
                transitions.sync_admitted(workload, now_ns)
            return True

        async def write() -> None:
            written = await self._write(decision.workload, reserve)
            if written is None:
                self._tell(events.AdmissionRefused(at_ns=self._clock.now_ns(), key=decision.workload))
            else:
                waited_ns = now_ns - predicates.queued_since_ns(written)
                self._record(outcomes.admission_events(decision, waited_ns=waited_ns), written)
                if decision.replaces is not None:
                    self._finish_slice(decision.replaces, self._feed.value_of(written))
            self._feed.resume(decision.workload)

        self._pending_news.forget(decision.workload)
        self._feed.pause(decision.workload)
        self._writes.submit(decision.workload, write)

    def _finish_slice(self, key: values.WorkloadKey, replacement: values.Workload) -> None:
        """If it cannot be written now, the job's controller sees two slices and ends the older one."""
        now_ns = self._clock.now_ns()
        told = outcomes.slice_replaced_event(key, replacement)

        def finish(workload: Object) -> bool:
            return transitions.finish(workload, reason=told.reason, message=told.message, now_ns=now_ns)

        async def write() -> None:
            written = await self._write(key, finish)
            if written is not None:
                self._record([told], written)

        self._writes.submit(key, write)

    def _preempt(self, decision: decisions.Preempt) -> None:
        for target in decision.targets:
            if not target.already_evicted:
                self._evict(decision, target)

    def _evict(self, decision: decisions.Preempt, target: decisions.PreemptedWorkload) -> None:
        now_ns = self._clock.now_ns()
        preemptor, victim = self._value(decision.workload), self._value(target.workload)
        if preemptor is None or victim is None:
            self._tell(events.EvictionRefused(at_ns=now_ns, key=target.workload))
            return
        message = outcomes.preemption_message(preemptor, decision, target)
        told = outcomes.preemption_events(decision, target, preemptor=preemptor, victim=victim)

        def preempt(workload: Object) -> bool:
            if (
                predicates.is_finished(workload)
                or predicates.is_evicted(workload)
                or not predicates.has_quota_reservation(workload)
            ):
                return False
            transitions.preempt(workload, reason=target.reason.value, message=message, now_ns=now_ns)
            return True

        async def write() -> None:
            written = await self._write(target.workload, preempt)
            if written is None:
                self._tell(events.EvictionRefused(at_ns=self._clock.now_ns(), key=target.workload))
            else:
                self._record(told, written)
                if self.metrics is not None:
                    self.metrics.preempted(decision.cluster_queue, target.reason.value)
            self._feed.resume(target.workload)

        self._feed.pause(target.workload)
        self._writes.submit(target.workload, write)

    def _place(self, decision: decisions.AssignTopology) -> None:
        now_ns = self._clock.now_ns()

        def place(workload: Object) -> bool:
            if not predicates.holds_quota(workload) or predicates.is_evicted(workload):
                return False
            transitions.place(workload, outcomes.admission(decision.admission), now_ns)
            return True

        async def write() -> None:
            written = await self._write(decision.workload, place)
            if written is None:
                self._tell(events.AdmissionRefused(at_ns=self._clock.now_ns(), key=decision.workload))
            else:
                self._record(outcomes.placement_events(decision), written)
            self._feed.resume(decision.workload)

        self._feed.pause(decision.workload)
        self._writes.submit(decision.workload, write)

    def _place_later(self, decision: decisions.RetrySecondPass) -> None:
        namespace, _, name = decision.workload.partition("/")
        workload = self._mirror.get(resources.WORKLOAD, name, namespace)
        if workload is not None:
            self._record([outcomes.no_place_event(decision)], workload)

    def _give_up(self, decision: decisions.Evict) -> None:
        now_ns = self._clock.now_ns()
        message = outcomes.no_replacement_message(decision)

        def evict(workload: Object) -> bool:
            if not predicates.holds_quota(workload) or predicates.is_evicted(workload):
                return False
            transitions.evict(workload, reason="NodeFailures", message=message, now_ns=now_ns)
            return True

        async def write() -> None:
            written = await self._write(decision.workload, evict)
            if written is None:
                self._tell(events.EvictionRefused(at_ns=self._clock.now_ns(), key=decision.workload))
            else:
                self._record([outcomes.no_replacement_event(decision)], written)
            self._feed.resume(decision.workload)

        self._feed.pause(decision.workload)
        self._writes.submit(decision.workload, write)

    def _put_off(self, decision: decisions.Requeue | decisions.MarkInadmissible) -> None:
        now_ns = self._clock.now_ns()
        value = self._value(decision.workload)
        if value is None:
            return
        event = outcomes.pending_event(decision, is_granular=self._policy.unadmitted_workloads_observability)
        message = outcomes.pending_message(decision)
        is_blocked = isinstance(decision.pending, reasons.PodsNotReady)
        requests = outcomes.resource_requests(value)
        tree = self.engine.view.tree_of(decision.cluster_queue)
        version = ""

        def say_why(workload: Object) -> bool:
            nonlocal version
            if not predicates.is_admissible(workload):
                return False
            version = workload["metadata"].get("resourceVersion", "")
            changed = transitions.release_quota(workload, reason=event.reason, message=message, now_ns=now_ns)
            if is_blocked:
                return changed
            changed = changed or workload["status"].get("resourceRequests") != requests
            workload["status"]["resourceRequests"] = requests
            return changed

        async def write() -> None:
            written = await self._write(decision.workload, say_why)
            if is_blocked or not version:
                return
            news = self._pending_news
            if written is None:
                if news.unchanged(decision.workload, version) and (seen := self._seen(decision.workload)) is not None:
                    self._record([event], seen)
                return
            is_news = news.should_emit(decision.workload, version, now_ns)
            if is_news:
                self._record([event], written)
            news.written(
                decision.workload, written["metadata"]["resourceVersion"], tree, now_ns, is_suppressed=not is_news
            )

        self._writes.submit(decision.workload, write)

    # Writing.

    async def _write(self, key: values.WorkloadKey, change: Change) -> Object | None:
        """The Workload as written; None if the change does not apply or cannot be written."""
        namespace, _, name = key.partition("/")
        old = self._mirror.get(resources.WORKLOAD, name, namespace)
        try:
            for attempt in range(ATTEMPTS):
                new = copied(old)
                if old is None or new is None or not change(new):
                    return None
                try:
                    return await self._applier.write(Write(resource=resources.WORKLOAD, old=old, new=new, status=True))
                except ApiError as error:
                    if error.code != 409:
                        raise
                await self._clock.sleep(PAUSE_SECONDS * 2**attempt)
                old = named(resources.WORKLOAD, await self._client.get(resources.WORKLOAD, name, namespace))
                self._mirror.observe(resources.WORKLOAD, old)
        except ApiError as error:
            if error.code != 404:
                log.warning("workload %s: %s", key, error.message)
        except Exception:  # whatever happened, the engine must hear that the write failed
            log.exception("workload %s", key)
        return None

    def _seen(self, key: values.WorkloadKey) -> Object | None:
        namespace, _, name = key.partition("/")
        return self._mirror.get(resources.WORKLOAD, name, namespace)

    def _value(self, key: values.WorkloadKey) -> values.Workload | None:
        obj = self._seen(key)
        return None if obj is None else self._feed.value_of(obj)

    def _record(self, told: list[outcomes.Event], about: Object) -> None:
        key = predicates.key(about)
        for event in told:
            subject: Object | None = about
            if event.workload != key:
                namespace, _, name = event.workload.partition("/")
                subject = self._mirror.get(resources.WORKLOAD, name, namespace)
            if subject is not None:
                self._applier.tell(
                    Event(about=subject, reason=event.reason, message=event.message, warning=event.is_warning)
                )
