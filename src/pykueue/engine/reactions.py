"""How an event changes the world: one function a kind of event, registered with `react` by its type.

The modules `queue_reactions`, `place_reactions` and `workload_reactions` register theirs; `Engine` imports them all.
"""

import functools

from pykueue.engine import events
from pykueue.engine.world import World


@functools.singledispatch
def react(event: events.EngineEvent, world: World) -> None:
    raise TypeError(f"no reaction to {type(event).__name__} (world of {len(world.workloads)} workloads)")
