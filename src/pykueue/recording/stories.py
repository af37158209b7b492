"""What a replay decided, as lines for people."""

from collections.abc import Iterator

from pykueue.api import times
from pykueue.engine import decisions, events, values
from pykueue.recording.replay import ReplayStep
from pykueue.translate import messages, outcomes


def clock_time(at_ns: int) -> str:
    """The time of an event as RFC 3339, with microseconds."""
    return times.micro_from_ns(at_ns)


def decision_line(decision: decisions.Decision) -> str:
    """One decision as a sentence without subject and time."""
    queue = decision.cluster_queue
    match decision:
        case decisions.Admit():
            flavors = sorted({name for pod_set in decision.admission.pod_sets for name in pod_set.flavors.values()})
            borrowed = ", borrowing" if decision.borrowing else ""
            return f"admitted by {queue} with {', '.join(flavors) or 'no flavor'}{borrowed}"
        case decisions.Preempt():
            targets = ", ".join(f"{target.workload} ({target.reason.value})" for target in decision.targets)
            return f"preempts {targets}"
        case decisions.AssignTopology():
            return f"placed by {queue}"
        case decisions.Evict():
            return f"evicted: nodes failed ({', '.join(decision.lost_nodes)})"
        case decisions.Migrate():
            return f"takes the place of {decision.victim}"
        case decisions.Requeue() | decisions.MarkInadmissible():
            return f"waits in {queue}: {outcomes.pending_message(decision)}"
        case decisions.RetrySecondPass():
            return f"waits for nodes: {messages.pending(decision.pending, outcomes.amount_text)}"
    return type(decision).__name__


class DecisionLog:
    """The decisions of a replay as lines; a reason to wait is printed when it changes."""

    def __init__(self, workload: str = "") -> None:
        """`workload` is a name, or namespace and name; only lines about it are made."""
        self._workload = workload
        self._waiting: dict[values.WorkloadKey, str] = {}

    def lines(self, step: ReplayStep) -> Iterator[str]:
        at = clock_time(step.event.at_ns)
        if self._workload:
            yield from (f"{at}  {line}" for line in self._event_lines(step.event))
        for decision in step.decided:
            line = decision_line(decision)
            if self._is_about(decision) and self._is_news(decision.workload, line):
                yield f"{at}  {decision.workload} {line}"

    def _is_about(self, decision: decisions.Decision) -> bool:
        keys = [decision.workload]
        if isinstance(decision, decisions.Preempt):
            keys += [target.workload for target in decision.targets]
        if isinstance(decision, decisions.Migrate):
            keys.append(decision.victim)
        return any(map(self._matches, keys))

    def _matches(self, key: values.WorkloadKey) -> bool:
        return not self._workload or self._workload in (key, key.partition("/")[2])

    def _is_news(self, key: values.WorkloadKey, line: str) -> bool:
        is_news = self._waiting.get(key) != line
        self._waiting[key] = line
        return is_news

    def _event_lines(self, event: events.EngineEvent) -> Iterator[str]:
        """What happened to the workload, apart from decisions."""
        match event:
            case events.WorkloadArrived() if self._matches(event.workload.key):
                workload = event.workload
                state = ", with quota" if workload.admission is not None else ""
                yield f"{workload.key} arrives in {workload.local_queue} (priority {workload.priority}){state}"
            case events.WorkloadChanged() if self._matches(event.workload.key):
                yield from self._change_lines(event.workload)
            case events.WorkloadGone() if self._matches(event.key):
                yield f"{event.key} is deleted"
            case events.AdmissionRefused() if self._matches(event.key):
                yield f"{event.key}: the write of its admission failed"
            case events.EvictionRefused() if self._matches(event.key):
                yield f"{event.key}: the write of its eviction failed"

    def _change_lines(self, workload: values.Workload) -> Iterator[str]:
        if workload.finished:
            state = "finishes"
        elif not workload.active:
            state = "is deactivated"
        elif workload.admission is not None:
            state = "has quota and runs" if workload.admitted else "has quota reserved"
        elif workload.eviction is not None:
            state = f"is evicted ({workload.eviction.reason})"
        else:
            state = "waits"
        if self._is_news(values.WorkloadKey(f"{workload.key} state"), state):
            yield f"{workload.key} {state}"
