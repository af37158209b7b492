"""The parts that `pykueue up` starts beside the API, in order: each is built from the surroundings and may be absent.

To add one, write a function that takes `Surroundings` and returns a `Part` (or None when the options exclude it), and
put it into PARTS. Import what it needs inside the function, so that the start stays fast.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pykueue.apiserver.embedded import EmbeddedApi


class Component(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UpContext:
    """`api.client()` speaks to the API in process, `api.hooks` adds to it (`pods/log`, the visibility group, pages)."""

    api: EmbeddedApi
    data_dir: Path
    runtime: str
    """process, simulated or none."""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """The Kueue Configuration, as JSON."""
    nodes: Path | None = None
    has_controllers: bool = True
    """Otherwise they run in a process of their own."""


def _controllers(surroundings: UpContext) -> Component | None:
    if not surroundings.has_controllers:
        return None
    from pykueue.app import metrics_endpoint, running_configuration
    from pykueue.app.configured_controllers import ConfiguredControllers
    from pykueue.app.visibility import api as visibility

    controllers = ConfiguredControllers(surroundings.api, surroundings.configuration)
    visibility.register(surroundings.api, controllers)
    metrics_endpoint.register(surroundings.api.hooks, controllers)
    running_configuration.register(surroundings.api.hooks, controllers)
    return controllers


def _machine_room(surroundings: UpContext) -> Component:
    from pykueue.app.local_cluster import LocalClusterComponent

    return LocalClusterComponent(surroundings)


PARTS: list[Callable[[UpContext], Component | None]] = [_controllers, _machine_room]
