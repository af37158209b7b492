"""Why Workloads are pending: QuotaReserved=False with the reason, and the Pending event.

The engine gives a reason for every attempt, and attempts are many under load. Reasons are
background writes: the latest is written, and none once the Workload has quota.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pykueue.api.scheme import Object
from pykueue.controllers.scheduler.pending_events import PendingEventFilter
from pykueue.controllers.scheduler.workload_writer import WorkloadWriter
from pykueue.controllers.workloads import predicates, transitions
from pykueue.controllers.workloads.unadmitted import UnadmittedStatus
from pykueue.engine import decisions, reasons, values
from pykueue.engine.view import EngineView, TreeKey
from pykueue.kube.clock import Clock
from pykueue.kube.controller.executor import OrderedWrites
from pykueue.kube.controller.writes import Refused
from pykueue.translate import outcomes

PendingDecision = decisions.Requeue | decisions.MarkInadmissible


@dataclass(slots=True, kw_only=True)
class _Attempt:
    """One attempt of the engine to admit a Workload."""

    decision: PendingDecision
    at_ns: int
    version: str = field(default="", init=False)
    """The version of the Workload that the reason applies to; "" if it applies to none."""

    @property
    def is_blocked(self) -> bool:
        return isinstance(self.decision.pending, reasons.PodsNotReady)


class PendingStatuses:
    def __init__(
        self,
        writer: WorkloadWriter,
        ordered: OrderedWrites,
        *,
        view: EngineView,
        clock: Clock,
        value_of: Callable[[Object], values.Workload],
        unadmitted: UnadmittedStatus,
    ) -> None:
        self._writer = writer
        self._ordered = ordered
        self._view = view
        self._clock = clock
        self._value_of = value_of
        self._unadmitted = unadmitted
        self._events = PendingEventFilter()
        self._latest: dict[values.WorkloadKey, _Attempt] = {}
        """The last attempt of a Workload, until it is written."""

    def reactivated(self, trees: Iterable[TreeKey]) -> None:
        self._events.reactivated(trees, self._clock.now_ns())

    def changed(self, workload: Object) -> None:
        key = values.WorkloadKey(predicates.key(workload))
        self._events.changed(key, workload["metadata"]["resourceVersion"], self._clock.now_ns())

    def forget(self, key: values.WorkloadKey) -> None:
        """The Workload has quota or does not exist any more."""
        self._writer.background.drop(key)
        self._events.forget(key)
        self._latest.pop(key, None)

    def set(self, decision: PendingDecision) -> None:
        """Write the reason, now or when there is room for it."""
        if self._writer.cached(decision.workload) is not None:
            attempt = _Attempt(decision=decision, at_ns=self._clock.now_ns())
            self._latest[decision.workload] = attempt
            self._submit(attempt)

    def _submit(self, attempt: _Attempt) -> None:
        key = attempt.decision.workload

        async def write() -> None:
            await self._write(attempt)

        self._writer.background.submit(key, lambda: self._ordered.submit(key, write))

    async def _write(self, attempt: _Attempt) -> None:
        key = attempt.decision.workload
        event = outcomes.pending_event(attempt.decision, is_granular=self._unadmitted.is_granular)
        written = await self._writer.write(key, lambda workload: self._change(workload, attempt, event.reason))
        if isinstance(written, Refused) and self._latest.get(key) is attempt and self._writer.is_retryable(written):
            self._submit(attempt)
            return
        if self._latest.get(key) is attempt:
            del self._latest[key]
        if written is None:
            self._writer.background.unused(key)
            if attempt.version and not attempt.is_blocked and self._events.unchanged(key, attempt.version):
                self._record(event)
            return
        if attempt.is_blocked or isinstance(written, Refused):
            return
        tree = self._view.tree_of(attempt.decision.cluster_queue)
        should_emit = self._events.should_emit(key, attempt.version, attempt.at_ns)
        if should_emit:
            self._writer.record([event], written)
            self._writer.background.charge()
        version = written["metadata"]["resourceVersion"]
        self._events.written(key, version, tree, attempt.at_ns, is_suppressed=not should_emit)

    def _record(self, event: outcomes.WorkloadEvent) -> None:
        cached = self._writer.cached(event.workload)
        if cached is not None:
            self._writer.record([event], cached)

    def _change(self, workload: Object, attempt: _Attempt, reason: str) -> bool:
        """Set QuotaReserved=False with the reason, and the requests that quota was sought for."""
        attempt.version = ""
        if not predicates.is_admissible(workload):
            return False
        requests = None if attempt.is_blocked else outcomes.resource_requests(self._value_of(workload))
        attempt.version = workload["metadata"].get("resourceVersion", "")
        is_changed = transitions.release_quota(
            workload,
            reason=reason,
            message=outcomes.pending_message(attempt.decision),
            now_ns=attempt.at_ns,
            unadmitted=self._unadmitted,
        )
        if isinstance(attempt.decision.pending, reasons.PreemptionGated):
            is_changed |= transitions.block_on_preemption_gates(
                workload, message=outcomes.pending_message(attempt.decision), now_ns=attempt.at_ns
            )
        if requests is None:
            return is_changed
        is_changed = is_changed or workload["status"].get("resourceRequests") != requests
        workload["status"]["resourceRequests"] = requests
        return is_changed
