"""The queues as they are, without deciding anything: what a controller that does not lead knows of them.

Fed as the scheduler is. `pykueue controller` keeps one while another one leads, to answer questions all the same.
"""

from collections.abc import Mapping
from typing import Any

from pykueue.controllers.cache import new_cache
from pykueue.controllers.scheduler.engine_events import REQUIRED_KINDS, EngineEventSource
from pykueue.engine import engine, events
from pykueue.engine.world import World
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import InformerSet
from pykueue.translate import policy


class QueueFollower:
    def __init__(self, client: Client, configuration: Mapping[str, Any], clock: Clock) -> None:
        self._feeds_of = (client, clock)
        self.cache = new_cache()
        self._engine = engine.Engine(policy.engine_policy(configuration))
        self._feed = EngineEventSource(self.cache, clock, configuration, self._tell)

    @property
    def world(self) -> World:
        return self._engine.world

    def _tell(self, event: events.EngineEvent) -> None:
        self._engine.handle(event)

    async def run(self) -> None:
        client, clock = self._feeds_of
        await InformerSet(client, self.cache, clock).run(REQUIRED_KINDS)
