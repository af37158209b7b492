"""The public face: events in, decisions out.

    engine = Engine(Policy())
    for event in events:
        for decision in engine.handle(event): ...

One event at a time, no I/O, no clock: the same events give the same decisions.
"""

import copy
from typing import Self

from pykueue.engine import (
    decisions,
    events,
    place_reactions,
    queue_reactions,
    reactions,
    workload_reactions,
)
from pykueue.engine.cycle import cycle
from pykueue.engine.policy import Policy
from pykueue.engine.world import World

_REACTIONS = (queue_reactions, place_reactions, workload_reactions)
"""Imported for what they register."""


class Engine:
    def __init__(self, policy: Policy) -> None:
        self.world = World(policy)

    @property
    def policy(self) -> Policy:
        return self.world.policy

    def handle(self, event: events.EngineEvent) -> list[decisions.Decision]:
        """Take in what happened. Only `CycleDue` is answered with decisions."""
        self.world.now_ns = max(self.world.now_ns, event.at_ns)
        if isinstance(event, events.CycleDue):
            return cycle.run(self.world)
        reactions.react(event, self.world)
        return []

    @property
    def next_due_ns(self) -> int | None:
        """When a cycle should run even if nothing happens."""
        return self.world.second_passes.next_due_ns

    def fork(self) -> Self:
        """An independent copy, for what-if questions. Values are shared, for they never change."""
        return copy.deepcopy(self)
