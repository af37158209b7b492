"""Tells the engine of places: Topologies, Nodes, and pods that take room on nodes without having been placed by us.

Pods are many, and followed only once some flavor names a topology; until all of them were seen no node is offered. Used by
the system, beside the feed of queues and workloads.
"""

import asyncio
from collections.abc import Callable

from pykueue.api import resources
from pykueue.api.scheme import Object
from pykueue.engine import events
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache, key_of
from pykueue.translate import nodes


class TopologyEventSource:
    def __init__(self, mirror: ObjectCache, clock: Clock, tell: Callable[[events.EngineEvent], None]) -> None:
        self._mirror = mirror
        self._clock = clock
        self._tell = tell
        self._bound: set[str] = set()
        self._offers_nodes = False
        self._needed = asyncio.Event()
        mirror.on_change(resources.RESOURCE_FLAVOR, self._flavor)
        mirror.on_change(resources.TOPOLOGY, self._topology)
        mirror.on_change(resources.NODE, self._node)
        mirror.on_change(resources.POD, self._pod)

    async def needed(self) -> None:
        """Returns when some flavor names a topology."""
        await self._needed.wait()

    async def run(self) -> None:
        await self.needed()
        await self._mirror.listed((resources.NODE, resources.POD))
        self._offers_nodes = True
        for node in self._mirror.all(resources.NODE):
            self._node(None, node)

    def _flavor(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and (new.get("spec") or {}).get("topologyName"):
            self._needed.set()

    def _topology(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        name, at_ns = obj["metadata"]["name"], self._clock.now_ns()
        if new is None:
            self._tell(events.TopologyGone(at_ns=at_ns, name=name))
        elif old is None or nodes.levels(old) != nodes.levels(new):
            self._tell(events.TopologyChanged(at_ns=at_ns, name=name, levels=nodes.levels(new)))

    def _node(self, old: Object | None, new: Object | None) -> None:
        if not self._offers_nodes:
            return
        before = None if old is None else nodes.node(old)
        after = None if new is None else nodes.node(new)
        if after is not None and after != before:
            self._tell(events.NodeChanged(at_ns=self._clock.now_ns(), node=after))
        elif after is None and before is not None:
            self._tell(events.NodeGone(at_ns=self._clock.now_ns(), name=before.name))

    def _pod(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        key = "/".join(key_of(obj))
        if new is not None and nodes.uses_node(new) and not nodes.is_topology_aware(new):
            if key not in self._bound:
                self._bound.add(key)
                node, requests = new["spec"]["nodeName"], nodes.pod_requests(new["spec"])
                self._tell(events.PodBound(at_ns=self._clock.now_ns(), key=key, node=node, requests=requests))
        elif key in self._bound:
            self._bound.discard(key)
            self._tell(events.PodEnded(at_ns=self._clock.now_ns(), key=key))
