"""Every place there is and who takes it: nodes, topologies, flavors on them, pods of others, and booked workloads.

`World` holds one; events fill it. Rooms are built when first asked for and forgotten when their nodes change. What is tried
inside a trial of the ledger is kept apart from what is booked: flavors that share nodes see each other's bookings, and a
trial in one flavor is not seen by the others, as in Kueue.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pykueue.engine.topology import counting, placement
from pykueue.engine.topology.demand import PlacementRequest, Requests
from pykueue.engine.topology.domains import HOSTNAME, Domain, DomainId, DomainTree, selected
from pykueue.engine.topology.placement import Assumed, Failure, Placements
from pykueue.engine.values import (
    FlavorName,
    Node,
    PodSetName,
    ResourceFlavor,
    ResourceName,
    Toleration,
    TopologyAssignment,
)

Amounts = dict[ResourceName, int]
Demands = Mapping[FlavorName, Sequence[PlacementRequest]]


class TopologyUsage(NamedTuple):
    """Pods of one workload in one domain."""

    flavor: FlavorName
    domain: DomainId
    pod_requests: Requests
    pods: int

    @property
    def amounts(self) -> Amounts:
        return {resource: each * self.pods for resource, each in counting.with_pod(self.pod_requests).items()}


Taken = tuple[TopologyUsage, ...]


class LostNode(NamedTuple):
    """A node that a workload lost, and where its pods were."""

    node: str
    before: Mapping[PodSetName, TopologyAssignment]


class FlavorSnapshot:
    """The nodes of one flavor as a tree, and what is left in its leaves."""

    def __init__(self, places: "TopologyCache", flavor: ResourceFlavor, tree: DomainTree) -> None:
        self._places = places
        self._flavor = flavor
        self._free: dict[DomainId, Amounts] = {}
        self._left: dict[DomainId, Amounts] = {}
        self.tree = tree

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        return self._flavor.tolerations

    @property
    def topology(self) -> str:
        assert self._flavor.topology is not None
        return self._flavor.topology

    def remaining(self, leaf: Domain, *, as_if_empty: bool) -> Amounts:
        if as_if_empty:
            return self._free_in(leaf)
        left = self._left.get(leaf.id)
        if left is None:
            left = self._free_in(leaf)
            for taken in self._places.booked_in(leaf.id, self._flavor.name, shared=self.tree.is_by_node):
                left = counting.without(left, taken)
            self._left[leaf.id] = left
        tried = self._places.tried_in(self._flavor.name, leaf.id)
        return left if tried is None else counting.without(left, tried)

    def fits(self, place: TopologyUsage) -> bool:
        leaf = self.tree.leaves.get(place.domain)
        return leaf is not None and counting.fits(
            place.pod_requests, self.remaining(leaf, as_if_empty=False), place.pods
        )

    def forget(self, domain: DomainId) -> None:
        self._left.pop(domain, None)

    def forget_node(self, name: str) -> None:
        leaf = self.tree.leaf_of_node.get(name)
        if leaf is not None:
            self._free.pop(leaf.id, None)
            self._left.pop(leaf.id, None)

    def _free_in(self, leaf: Domain) -> Amounts:
        free = self._free.get(leaf.id)
        if free is None:
            free = dict(leaf.capacity)
            for node in leaf.nodes:
                free = counting.without(free, self._places.used_by_others(node))
            self._free[leaf.id] = free
        return free


class TopologyCache:
    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.topologies: dict[str, tuple[str, ...]] = {}
        self._flavors: dict[FlavorName, ResourceFlavor] = {}
        self._rooms: dict[FlavorName, FlavorSnapshot] = {}
        self.pods: dict[str, tuple[str, Amounts]] = {}
        self._others: dict[str, Amounts] = {}
        """What pods that are none of ours take, by node."""
        self.booked: dict[FlavorName, dict[DomainId, Amounts]] = {}
        self._tried: dict[FlavorName, dict[DomainId, Amounts]] = {}

    # What there is.

    def set_flavor(self, flavor: ResourceFlavor) -> None:
        self.drop_flavor(flavor.name)
        if flavor.topology is not None:
            self._flavors[flavor.name] = flavor

    def drop_flavor(self, name: FlavorName) -> None:
        self._flavors.pop(name, None)
        self._rooms.pop(name, None)

    def set_topology(self, name: str, levels: tuple[str, ...]) -> None:
        self.topologies[name] = levels
        self._rooms.clear()

    def drop_topology(self, name: str) -> None:
        self.topologies.pop(name, None)
        self._rooms.clear()

    def has_topology(self, name: str) -> bool:
        return name in self.topologies

    def node(self, name: str) -> Node | None:
        return self.nodes.get(name)

    def set_node(self, node: Node) -> list[FlavorName]:
        """Answers which flavors it concerns."""
        old = self.nodes.get(node.name)
        if old == node:
            return []
        self.nodes[node.name] = node
        return self._rebuild(node, old)

    def drop_node(self, name: str) -> list[FlavorName]:
        node = self.nodes.pop(name, None)
        return [] if node is None else self._rebuild(node)

    def set_pod(self, key: str, node: str, requests: Requests) -> None:
        """A pod that takes room on a node without being placed by us."""
        self.drop_pod(key)
        taken = counting.with_pod(requests)
        self.pods[key] = (node, taken)
        _add(self._others.setdefault(node, {}), taken, 1)
        self._forget_node(node)

    def drop_pod(self, key: str) -> str | None:
        """Answers which node has more room now."""
        node, taken = self.pods.pop(key, (None, {}))
        if node is not None:
            _add(self._others[node], taken, -1)
            self._forget_node(node)
        return node

    def flavors_of_node(self, name: str) -> list[FlavorName]:
        node = self.nodes.get(name)
        return [] if node is None else self._flavors_of(node)

    def flavors_of_topology(self, name: str) -> list[FlavorName]:
        return [flavor.name for flavor in self._flavors.values() if flavor.topology == name]

    def levels_of(self, flavor: FlavorName) -> tuple[str, ...] | None:
        """None where the flavor has no topology, or that is not known."""
        value = self._flavors.get(flavor)
        return None if value is None or value.topology is None else self.topologies.get(value.topology)

    def room(self, name: FlavorName) -> FlavorSnapshot | None:
        found = self._rooms.get(name)
        if found is None:
            levels = self.levels_of(name)
            if levels is None:
                return None
            flavor = self._flavors[name]
            tree = DomainTree(levels, selected(self.nodes.values(), flavor.node_labels, levels))
            found = self._rooms[name] = FlavorSnapshot(self, flavor, tree)
        return found

    # Who takes it.

    def book(self, taken: Taken, sign: int) -> None:
        for place in taken:
            _add(self.booked.setdefault(place.flavor, {}).setdefault(place.domain, {}), place.amounts, sign)
            for room in self._rooms.values():
                room.forget(place.domain)

    def try_out(self, taken: Taken, sign: int) -> None:
        for place in taken:
            _add(self._tried.setdefault(place.flavor, {}).setdefault(place.domain, {}), place.amounts, sign)

    def end_trials(self) -> None:
        self._tried.clear()

    def booked_in(self, domain: DomainId, flavor: FlavorName, *, shared: bool) -> list[Amounts]:
        if not shared:
            return [self.booked.get(flavor, {}).get(domain, {})]
        return [booked[domain] for name, booked in self.booked.items() if domain in booked and self._is_by_node(name)]

    def tried_in(self, flavor: FlavorName, domain: DomainId) -> Amounts | None:
        tried = self._tried.get(flavor)
        return None if tried is None else tried.get(domain)

    def used_by_others(self, node: str) -> Amounts:
        return self._others.get(node, {})

    def fits(self, taken: Taken) -> bool:
        for place in taken:
            room = self.room(place.flavor)
            if room is None or not room.fits(place):
                return False
        return True

    def place(
        self, demands: Demands, *, as_if_empty: bool = False, lost: LostNode | None = None
    ) -> Placements | tuple[FlavorName, Failure]:
        """Places for a workload's demands on all its flavors, or the first failure and its flavor."""
        found: Placements = {}
        on_nodes: Assumed = {}
        for flavor in sorted(demands):
            room = self.room(flavor)
            assert room is not None
            assumed = on_nodes if room.tree.is_by_node else {}
            if lost is not None:
                placed = placement.place_again(
                    room,
                    demands[flavor],
                    topology=room.topology,
                    assumed=assumed,
                    lost_node=lost.node,
                    before=lost.before,
                )
            else:
                placed = placement.place(
                    room, demands[flavor], topology=room.topology, assumed=assumed, as_if_empty=as_if_empty
                )
            if isinstance(placed, Failure):
                return flavor, placed
            found |= placed
        return found

    # Inside.

    def _is_by_node(self, flavor: FlavorName) -> bool:
        levels = self.levels_of(flavor)
        return bool(levels) and levels is not None and levels[-1] == HOSTNAME

    def _flavors_of(self, node: Node) -> list[FlavorName]:
        return [
            flavor.name
            for flavor in self._flavors.values()
            if selected((node,), flavor.node_labels, self.levels_of(flavor.name) or ())
        ]

    def _rebuild(self, *versions: Node | None) -> list[FlavorName]:
        concerned = {name: None for node in versions if node is not None for name in self._flavors_of(node)}
        for name in concerned:
            self._rooms.pop(name, None)
        return list(concerned)

    def _forget_node(self, name: str) -> None:
        for room in self._rooms.values():
            room.forget_node(name)


def _add(total: Amounts, amounts: Requests, sign: int) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + sign * amount
