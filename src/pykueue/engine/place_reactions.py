"""What the engine does when topologies, nodes or pods on them change."""

from collections.abc import Iterable

from pykueue.engine import events, values
from pykueue.engine.reactions import react
from pykueue.engine.world import World


@react.register
def _topology_changed(event: events.TopologyChanged, world: World) -> None:
    world.places.set_topology(event.name, event.levels)
    _topologies_changed(world, event.name)


@react.register
def _topology_gone(event: events.TopologyGone, world: World) -> None:
    world.places.drop_topology(event.name)
    _topologies_changed(world, event.name)


def _topologies_changed(world: World, name: str) -> None:
    concerned = set(world.places.flavors_of_topology(name))
    for queue in world.cluster_queues.values():
        if not concerned.isdisjoint(queue.placement.flavors):
            world.refresh_activity_of(queue)
            world.reactivate_queue(queue.name)


@react.register
def _node_changed(event: events.NodeChanged, world: World) -> None:
    _reactivate(world, world.places.set_node(event.node))


@react.register
def _node_gone(event: events.NodeGone, world: World) -> None:
    """Gone, or not to be used: nobody finds a place by that, but some may have to look elsewhere."""
    if world.places.drop_node(event.name):
        world.stir_all()


@react.register
def _pod_bound(event: events.PodBound, world: World) -> None:
    world.places.set_pod(event.key, event.node, event.requests)
    if world.places.flavors_of_node(event.node):
        world.stir_all()


@react.register
def _pod_ended(event: events.PodEnded, world: World) -> None:
    node = world.places.drop_pod(event.key)
    if node is not None:
        _reactivate(world, world.places.flavors_of_node(node))


def _reactivate(world: World, flavors: Iterable[values.FlavorName]) -> None:
    concerned = set(flavors)
    for queue in world.cluster_queues.values():
        if not concerned.isdisjoint(queue.placement.flavors):
            world.reactivate_queue(queue.name)
