"""Replays a ring: a fresh engine gets the recorded events and decides again.

Every decision is one step from what really happened. Where the engine decides otherwise than the
record says (another policy, other queues, another version), it hears that its own decision was
refused, and goes on with the recorded events.

A segment that begins with an empty engine is replayed exactly. One that begins with a checkpoint
has all objects, but not what the engine kept in mind: which waiting workloads were inadmissible,
and where flavor scans stopped. These are tried again in the first cycles.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from pykueue.engine import decisions, events
from pykueue.engine.engine import Engine
from pykueue.engine.policy import Policy
from pykueue.recording import records, ring
from pykueue.recording.records import Summary
from pykueue.recording.ring import ObjectKey, Segment


class ReplayStep(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded event, and what the replaying engine decided."""

    number: int
    """Counts the events of the ring from 1."""
    event: events.EngineEvent
    decided: tuple[decisions.Decision, ...]
    recorded: Summary | None
    """What was decided then; None if the event is no cycle."""
    is_checkpoint: bool

    @property
    def differs(self) -> bool:
        return self.recorded is not None and set(self.recorded) != set(records.summary(self.decided))


Override = Mapping[ObjectKey, events.EngineEvent]
"""Events that replace every recorded event about the same object."""


class Replayer:
    def __init__(self, *, policy: Policy | None = None, overrides: Override | None = None) -> None:
        self._policy = policy
        self._overrides = overrides or {}
        self.engine: Engine | None = None

    def steps(
        self, segments: Iterable[Segment], *, is_over: Callable[[events.EngineEvent], bool] = lambda _event: False
    ) -> Iterator[ReplayStep]:
        """Replay segment after segment until an event for which `is_over` answers yes.

        A later segment goes on with the engine of the one before: its checkpoint is skipped.
        """
        number = 0
        for segment in segments:
            if segment.header.is_start or self.engine is None:
                engine = self.engine = Engine(self._policy or segment.header.policy)
                skips_checkpoint = False
                for event in self._overrides.values():
                    engine.handle(event)
            else:
                skips_checkpoint = True
            for record in segment.records:
                if record.is_checkpoint and skips_checkpoint:
                    continue
                if is_over(record.event):
                    return
                number += 1
                yield self._step(engine, number, record)

    def _step(self, engine: Engine, number: int, record: records.Record) -> ReplayStep:
        event = record.event
        decided: tuple[decisions.Decision, ...] = ()
        if not self._is_overridden(event):
            decided = tuple(engine.handle(event))
        if record.decided is not None:
            _refuse_others(engine, decided, record.decided, event.at_ns)
        return ReplayStep(
            number=number,
            event=event,
            decided=decided,
            recorded=record.decided,
            is_checkpoint=record.is_checkpoint,
        )

    def _is_overridden(self, event: events.EngineEvent) -> bool:
        if not self._overrides:
            return False
        return ring.object_of(event)[0] in self._overrides


def _refuse_others(engine: Engine, decided: Iterable[decisions.Decision], recorded: Summary, at_ns: int) -> None:
    """Undo what was decided now and not then."""
    then = set(recorded)
    for decision in decided:
        match decision:
            case decisions.Admit() | decisions.AssignTopology():
                if (type(decision).__name__, decision.workload) not in then:
                    engine.handle(events.AdmissionRefused(at_ns=at_ns, key=decision.workload))
            case decisions.Preempt():
                for target in decision.targets:
                    if not target.already_evicted and ("Preempt", target.workload) not in then:
                        engine.handle(events.EvictionRefused(at_ns=at_ns, key=target.workload))
            case decisions.Evict() | decisions.Migrate():
                if (type(decision).__name__, decision.workload) not in then:
                    key = decision.victim if isinstance(decision, decisions.Migrate) else decision.workload
                    engine.handle(events.EvictionRefused(at_ns=at_ns, key=key))
