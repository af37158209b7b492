"""Engine events for topology: Topologies, Nodes, and pods without a topology assignment.

There are many pods, so they are watched only once some flavor names a topology. No node is sent
before all pods are listed. Used beside `engine_events`.
"""

import asyncio
from collections.abc import Callable

from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.engine import events
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache, key_of
from pykueue.translate import nodes


def names_topology(flavor: Object) -> bool:
    return bool(objects.spec(flavor).get("topologyName"))


class TopologyEventSource:
    def __init__(self, cache: ObjectCache, clock: Clock, handle: Callable[[events.EngineEvent], object]) -> None:
        self._cache = cache
        self._clock = clock
        self._handle = handle
        self._bound: set[str] = set()
        self._sends_nodes = False
        self._needed = asyncio.Event()
        cache.on_change(resources.RESOURCE_FLAVOR, self._flavor_changed)
        cache.on_change(resources.TOPOLOGY, self._topology_changed)
        cache.on_change(resources.NODE, self._node_changed)
        cache.on_change(resources.POD, self._pod_changed)

    async def needed(self) -> None:
        """Returns when some flavor names a topology."""
        await self._needed.wait()

    async def run(self) -> None:
        await self.needed()
        await self._cache.listed((resources.NODE, resources.POD))
        self.send_nodes()

    def send_nodes(self) -> None:
        """Send all nodes now, and every change of a node from now on."""
        self._sends_nodes = True
        for node in self._cache.all(resources.NODE):
            self._node_changed(None, node)

    def _flavor_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and names_topology(new):
            self._needed.set()

    def _topology_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        name, at_ns = objects.name(obj), self._clock.now_ns()
        if new is None:
            self._handle(events.TopologyGone(at_ns=at_ns, name=name))
        elif old is None or nodes.levels(old) != nodes.levels(new):
            self._handle(events.TopologyChanged(at_ns=at_ns, name=name, levels=nodes.levels(new)))

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if not self._sends_nodes:
            return
        before = None if old is None else nodes.node(old)
        after = None if new is None else nodes.node(new)
        if after is not None and after != before:
            self._handle(events.NodeChanged(at_ns=self._clock.now_ns(), node=after))
        elif after is None and before is not None:
            self._handle(events.NodeGone(at_ns=self._clock.now_ns(), name=before.name))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        key = "/".join(key_of(obj))
        if new is not None and nodes.uses_node(new) and not nodes.is_topology_aware(new):
            if key not in self._bound:
                self._bound.add(key)
                node, requests = new["spec"]["nodeName"], nodes.pod_requests(new["spec"])
                self._handle(events.PodBound(at_ns=self._clock.now_ns(), key=key, node=node, requests=requests))
        elif key in self._bound:
            self._bound.discard(key)
            self._handle(events.PodEnded(at_ns=self._clock.now_ns(), key=key))
