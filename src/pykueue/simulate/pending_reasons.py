"""What a live engine decided last about each pending workload."""

from pykueue.api import conditions, resources
from pykueue.api.scheme import Object
from pykueue.controllers.scheduler.controller import Scheduler
from pykueue.engine import decisions, values
from pykueue.engine.queues.pending_queue import PendingWorkload
from pykueue.translate import outcomes, workload


def message_of(decision: decisions.Requeue | decisions.MarkInadmissible) -> str:
    return conditions.truncate(outcomes.pending_message(decision), conditions.CONDITION_MESSAGE_BYTES)


class PendingReasons:
    """Listens to the decisions that a scheduler writes."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.messages: dict[values.WorkloadKey, str] = {}
        self._engine = scheduler.engine
        cycles = scheduler._cycles  # noqa: SLF001 - nothing else needs to listen
        self._apply = cycles._apply  # noqa: SLF001
        cycles._apply = self._record  # noqa: SLF001
        scheduler._cache.on_change(resources.WORKLOAD, self._forget_deleted)  # noqa: SLF001

    def _forget_deleted(self, old: Object | None, new: Object | None) -> None:
        """A Workload that is created again has the name of the former, and no decision yet."""
        if old is not None and new is None:
            self.messages.pop(workload.key(old), None)

    def _record(self, decision: decisions.Decision) -> None:
        match decision:
            case decisions.Requeue() | decisions.MarkInadmissible():
                self.messages[decision.workload] = message_of(decision)
            case decisions.Admit():
                self.messages.pop(decision.workload, None)
        self._apply(decision)

    def is_pending(self, key: values.WorkloadKey) -> bool:
        """Whether the workload is in an active queue of the engine."""
        return self._find(key) is not None

    def may_be_outdated(self, key: values.WorkloadKey) -> bool:
        """Whether the reason may be another one than a fresh engine gives.

        As in Kueue, workloads with the scheduling hash of one that did not fit are not tried, and
        keep the reason that they have, or none. A reason may alternate from cycle to cycle.
        """
        pending = self._find(key)
        if pending is None or (pending.bucket is not None and pending.bucket.inadmissible):
            return True
        return self.is_scanning(key)

    def is_scanning(self, key: values.WorkloadKey) -> bool:
        """Whether the next cycle goes on with the flavors after those that were tried.

        As in Kueue, a workload of several pod sets may go on for ever so, although it would fit if
        all of them began anew.
        """
        pending = self._find(key)
        return pending is not None and pending.scan is not None and pending.scan.flavors_remain

    def reordered_queues(self) -> set[values.ClusterQueueName]:
        """Queues that a fresh engine has in another order.

        Workloads of one second are in the order of their arrival, which only this engine knows: it
        sees what its own controllers create before the watch shows what others have created.
        """
        queues = self._engine._state.cluster_queues.values()  # noqa: SLF001
        return {queue.name for queue in queues if _has_other_order(queue.pending.in_order())}

    def _find(self, key: values.WorkloadKey) -> PendingWorkload | None:
        state = self._engine._state  # noqa: SLF001 - the view has no use for it
        for name, queue in state.cluster_queues.items():
            pending = queue.pending.get(key)
            if pending is not None and self._engine.view.is_active(name):
                return pending
        return None


def _has_other_order(pending: list[PendingWorkload]) -> bool:
    orders = [(priority, timestamp, uid) for priority, timestamp, _, uid, _ in (item.order for item in pending)]
    return orders != sorted(orders)
