"""The queue follower: an engine that is kept up to date but never decides.

`pykueue controller` runs one while another replica leads, to answer the visibility API.
"""

from collections.abc import Mapping
from typing import Any

from pykueue.controllers.cache import new_cache
from pykueue.controllers.scheduler.engine_events import REQUIRED_KINDS, EngineEventSource
from pykueue.engine import engine, events
from pykueue.engine.view import EngineView
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import InformerSet
from pykueue.translate import policy


class QueueFollower:
    def __init__(self, client: Client, configuration: Mapping[str, Any], clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self.cache = new_cache()
        self._engine = engine.Engine(policy.engine_policy(configuration))
        EngineEventSource(self.cache, clock, configuration, self._handle)

    @property
    def view(self) -> EngineView:
        return self._engine.view

    def _handle(self, event: events.EngineEvent) -> None:
        self._engine.handle(event)

    async def run(self) -> None:
        await InformerSet(self._client, self.cache, self._clock).run(REQUIRED_KINDS)
