"""A snapshot of a cluster's queues: an engine that is fed once, from lists, and never decides.

`pykueue explain` reads it. Its events come from the same sources as those of the scheduler.
"""

import asyncio
from collections.abc import Iterable

import msgspec

from pykueue.api import resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.controllers.cache import new_cache
from pykueue.controllers.scheduler.devices import RESOURCES as DEVICE_RESOURCES
from pykueue.controllers.scheduler.engine_events import REQUIRED_KINDS, EngineEventSource
from pykueue.controllers.scheduler.topology_events import TopologyEventSource, names_topology
from pykueue.controllers.settings import Configuration
from pykueue.engine import values
from pykueue.engine.engine import Engine
from pykueue.kube.client import Client
from pykueue.translate import devices, policy, workload


class QueueSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    engine: Engine
    workloads: dict[values.WorkloadKey, Object]


class _StoppedClock:
    def __init__(self, now_ns: int) -> None:
        self._now_ns = now_ns

    def now_ns(self) -> int:
        return self._now_ns

    async def sleep(self, seconds: float) -> None:
        del seconds


async def observe(client: Client, configuration: Configuration, *, now_ns: int) -> QueueSnapshot:
    lists = await _lists(client, REQUIRED_KINDS)
    if any(devices.may_claim(obj) for obj in lists[resources.WORKLOAD]):
        lists = await _lists(client, DEVICE_RESOURCES) | lists
    if any(names_topology(flavor) for flavor in lists[resources.RESOURCE_FLAVOR]):
        lists |= await _lists(client, (resources.NODE, resources.POD))
    engine = Engine(policy.engine_policy(configuration))
    cache = new_cache()
    clock = _StoppedClock(now_ns)
    EngineEventSource(cache, clock, configuration, engine.handle)
    topology_events = TopologyEventSource(cache, clock, engine.handle)
    for resource, items in lists.items():
        for obj in items:
            cache.observe(resource, obj)
    topology_events.send_nodes()
    return QueueSnapshot(engine=engine, workloads={workload.key(obj): obj for obj in lists[resources.WORKLOAD]})


async def _lists(client: Client, kinds: Iterable[Resource]) -> dict[Resource, list[Object]]:
    kinds = tuple(kinds)
    return dict(zip(kinds, await asyncio.gather(*(_list(client, kind) for kind in kinds)), strict=True))


async def _list(client: Client, kind: Resource) -> list[Object]:
    """The objects of a kind; none of a kind that the server does not have."""
    try:
        return (await client.list(kind)).items
    except ApiError as error:
        if error.code == 404:
            return []
        raise
