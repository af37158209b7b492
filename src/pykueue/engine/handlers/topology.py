"""Handlers for topologies, nodes, and pods that use nodes without a topology assignment."""

from collections.abc import Iterable

from pykueue.engine import events, values
from pykueue.engine.state import EngineState


def topology_changed(state: EngineState, event: events.TopologyChanged) -> None:
    state.settings_version += 1
    state.topology_cache.set_topology(event.name, event.levels)
    _refresh_queues_of_topology(state, event.name)


def topology_gone(state: EngineState, event: events.TopologyGone) -> None:
    state.settings_version += 1
    state.topology_cache.drop_topology(event.name)
    _refresh_queues_of_topology(state, event.name)


def node_changed(state: EngineState, event: events.NodeChanged) -> None:
    _reactivate(state, state.topology_cache.set_node(event.node))


def node_gone(state: EngineState, event: events.NodeGone) -> None:
    """No workload becomes admissible, but the heads of idle trees may be assigned otherwise."""
    if state.topology_cache.drop_node(event.name):
        state.mark_all_dirty()


def pod_bound(state: EngineState, event: events.PodBound) -> None:
    state.topology_cache.set_pod(event.key, event.node, event.requests)
    if state.topology_cache.flavors_of_node(event.node):
        state.mark_all_dirty()


def pod_ended(state: EngineState, event: events.PodEnded) -> None:
    node = state.topology_cache.drop_pod(event.key)
    if node is not None:
        _reactivate(state, state.topology_cache.flavors_of_node(node))


def _refresh_queues_of_topology(state: EngineState, topology: str) -> None:
    flavors = set(state.topology_cache.flavors_of_topology(topology))
    for queue in state.cluster_queues.values():
        if not flavors.isdisjoint(queue.placement.flavors):
            state.refresh_activity_of(queue)
            state.reactivate_queue(queue.name)


def _reactivate(state: EngineState, names: Iterable[values.FlavorName]) -> None:
    flavors = set(names)
    for queue in state.cluster_queues.values():
        if not flavors.isdisjoint(queue.placement.flavors):
            state.reactivate_queue(queue.name)
