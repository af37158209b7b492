"""Tries a remedy on a copy of the engine before `remedies` names it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from pykueue.engine import decisions, events, values
from pykueue.engine.state import EngineState

_MAX_CYCLES = 100


class ForkedEngine(Protocol):
    def handle(self, event: events.EngineEvent) -> list[decisions.Decision]: ...


Fork = Callable[[], ForkedEngine]


class RemedyTrial:
    """Tries changes for one workload, each on a new fork of the engine."""

    def __init__(
        self,
        fork: Fork,
        state: EngineState,
        key: values.WorkloadKey,
        largest_node: Mapping[values.ResourceName, int] | None = None,
    ) -> None:
        self._fork = fork
        self._state = state
        self._key = key
        self.largest_node = largest_node

    def admits(self, changes: Iterable[events.EngineEvent]) -> bool:
        """Whether the workload is admitted, or preempts others, after the changes."""
        return self.admitted_before(changes) is None

    def admitted_before(self, changes: Iterable[events.EngineEvent]) -> list[values.Admission] | None:
        """The admissions of other workloads after the changes; None if it is admitted as well."""
        engine = self._fork()
        for change in changes:
            engine.handle(change)
        others: list[values.Admission] = []
        for _ in range(_MAX_CYCLES):
            cycle = engine.handle(events.CycleDue())
            if any(
                decision.workload == self._key and isinstance(decision, (decisions.Admit, decisions.Preempt))
                for decision in cycle
            ):
                return None
            others += (decision.admission for decision in cycle if isinstance(decision, decisions.Admit))
            if not cycle:
                break
        return others

    def admits_alone(self, changes: Iterable[events.EngineEvent]) -> bool:
        """Whether the workload is admitted after the changes if there are no others."""
        others = [events.WorkloadGone(key=key) for key in self._state.workloads if key != self._key]
        return self.admits([*others, *changes])
