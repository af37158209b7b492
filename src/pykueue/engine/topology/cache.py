"""The topology cache: nodes, topologies and flavors, and the usage of their domains.

Event handlers fill it. The domain tree of a flavor is built when it is first needed and dropped
when its nodes change. Usage inside a trial of the ledger is kept apart from assumed usage: flavors
that share nodes see each other's usage, but a trial in one flavor is invisible to the others, as
in Kueue.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pykueue.engine.policy import TopologyPolicy
from pykueue.engine.topology import counting, placement
from pykueue.engine.topology.count_cache import CountCache
from pykueue.engine.topology.domains import HOSTNAME, DomainId, DomainNode, DomainTree, selected
from pykueue.engine.topology.placement import Assumed, PlacementFailure, Placements
from pykueue.engine.topology.placement_request import PlacementRequest, Requests, ResolvedRequest
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
PlacementRequests = Mapping[FlavorName, Sequence[PlacementRequest]]


class TopologyUsage(NamedTuple):
    """The usage of some pods of one workload in one domain."""

    flavor: FlavorName
    domain: DomainId
    pod_requests: Requests
    pods: int

    @property
    def amounts(self) -> Amounts:
        return {resource: amount * self.pods for resource, amount in counting.with_pod(self.pod_requests).items()}


TopologyUsages = tuple[TopologyUsage, ...]


class NodeReplacement(NamedTuple):
    """A failed node of a workload, and the topology assignments with that node."""

    node: str
    before: Mapping[PodSetName, TopologyAssignment]


class FlavorSnapshot:
    """The nodes of one flavor as a tree of domains, and the unused capacity of its leaves."""

    def __init__(self, cache: "TopologyCache", flavor: ResourceFlavor, tree: DomainTree) -> None:
        self._cache = cache
        self._flavor = flavor
        self._free: dict[DomainId, Amounts] = {}
        """Capacity of leaves without the usage of pods that have no topology assignment."""
        self._unused: dict[DomainId, Amounts] = {}
        """Capacity of leaves without any usage but that of trials."""
        self.tree = tree
        self._counts = CountCache(self)

    @property
    def policy(self) -> TopologyPolicy:
        return self._cache.policy

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        return self._flavor.tolerations

    @property
    def topology(self) -> str:
        assert self._flavor.topology is not None
        return self._flavor.topology

    def remaining(self, leaf: DomainNode, *, as_if_empty: bool) -> Amounts:
        if as_if_empty:
            return self._free_in(leaf)
        unused = self._unused.get(leaf.id)
        if unused is None:
            unused = self._free_in(leaf)
            for usage in self._cache.usage_in(leaf.id, self._flavor.name, shared=self.tree.is_by_node):
                unused = counting.without(unused, usage)
            self._unused[leaf.id] = unused
        trial = self._cache.trial_usage_in(self._flavor.name, leaf.id)
        return unused if trial is None else counting.without(unused, trial)

    def count(
        self,
        request: PlacementRequest,
        resolved: ResolvedRequest,
        *,
        leader: PlacementRequest | None,
        as_if_empty: bool,
    ) -> counting.CapacityCount:
        return self._counts.count(request, resolved, leader=leader, as_if_empty=as_if_empty)

    def trial_changed(self, domain: DomainId) -> None:
        leaf = self.tree.leaves.get(domain)
        if leaf is not None:
            self._counts.usage_changed(leaf)

    def fits(self, usage: TopologyUsage) -> bool:
        leaf = self.tree.leaves.get(usage.domain)
        return leaf is not None and counting.fits(
            usage.pod_requests, self.remaining(leaf, as_if_empty=False), usage.pods
        )

    def forget(self, domain: DomainId) -> None:
        self._unused.pop(domain, None)
        self.trial_changed(domain)

    def forget_node(self, name: str) -> None:
        leaf = self.tree.leaf_of_node.get(name)
        if leaf is not None:
            self._free.pop(leaf.id, None)
            self._unused.pop(leaf.id, None)
            self._counts.capacity_changed(leaf)

    def _free_in(self, leaf: DomainNode) -> Amounts:
        free = self._free.get(leaf.id)
        if free is None:
            free = dict(leaf.capacity)
            for node in leaf.nodes:
                free = counting.without(free, self._cache.non_tas_usage(node))
            self._free[leaf.id] = free
        return free


class TopologyCache:
    def __init__(self, policy: TopologyPolicy | None = None) -> None:
        self.policy = policy or TopologyPolicy()
        self.nodes: dict[str, Node] = {}
        self.topologies: dict[str, tuple[str, ...]] = {}
        self._flavors: dict[FlavorName, ResourceFlavor] = {}
        self._snapshots: dict[FlavorName, FlavorSnapshot] = {}
        self.pods: dict[str, tuple[str, Amounts]] = {}
        self._non_tas_usage: dict[str, Amounts] = {}
        """Usage of pods without a topology assignment, by node."""
        self.usage: dict[FlavorName, dict[DomainId, Amounts]] = {}
        self._trial_usage: dict[FlavorName, dict[DomainId, Amounts]] = {}
        self.capacity_version = 0
        """Grows with every change but usage: of flavors, topologies, nodes and other pods."""

    # Flavors, topologies, nodes and pods.

    def set_flavor(self, flavor: ResourceFlavor) -> None:
        self.drop_flavor(flavor.name)
        if flavor.topology is not None:
            self._flavors[flavor.name] = flavor

    def drop_flavor(self, name: FlavorName) -> None:
        self.capacity_version += 1
        self._flavors.pop(name, None)
        self._snapshots.pop(name, None)

    def set_topology(self, name: str, levels: tuple[str, ...]) -> None:
        self.capacity_version += 1
        self.topologies[name] = levels
        self._snapshots.clear()

    def drop_topology(self, name: str) -> None:
        self.capacity_version += 1
        self.topologies.pop(name, None)
        self._snapshots.clear()

    def set_node(self, node: Node) -> list[FlavorName]:
        """Add or update a node; returns the flavors that include it."""
        old = self.nodes.get(node.name)
        if old == node:
            return []
        self.nodes[node.name] = node
        self.capacity_version += 1
        return self._rebuild(node, old)

    def drop_node(self, name: str) -> list[FlavorName]:
        node = self.nodes.pop(name, None)
        self.capacity_version += 1
        return [] if node is None else self._rebuild(node)

    def set_pod(self, key: str, node: str, requests: Requests) -> None:
        """Add the usage of a pod without a topology assignment."""
        self.drop_pod(key)
        usage = counting.with_pod(requests)
        self.pods[key] = (node, usage)
        _add(self._non_tas_usage.setdefault(node, {}), usage, 1)
        self._forget_node(node)

    def drop_pod(self, key: str) -> str | None:
        """Remove the usage of a pod; returns its node, if the pod had usage."""
        node, usage = self.pods.pop(key, (None, {}))
        if node is not None:
            _add(self._non_tas_usage[node], usage, -1)
            self._forget_node(node)
        return node

    def flavors_of_node(self, name: str) -> list[FlavorName]:
        node = self.nodes.get(name)
        return [] if node is None else self._flavors_of(node)

    def flavors_of_topology(self, name: str) -> list[FlavorName]:
        return [flavor.name for flavor in self._flavors.values() if flavor.topology == name]

    def levels_of(self, flavor: FlavorName) -> tuple[str, ...] | None:
        """The levels of the flavor's topology; None without a topology or if it does not exist."""
        value = self._flavors.get(flavor)
        return None if value is None or value.topology is None else self.topologies.get(value.topology)

    def snapshot(self, name: FlavorName) -> FlavorSnapshot | None:
        snapshot = self._snapshots.get(name)
        if snapshot is None:
            levels = self.levels_of(name)
            if levels is None:
                return None
            flavor = self._flavors[name]
            tree = DomainTree(levels, selected(self.nodes.values(), flavor.node_labels, levels))
            snapshot = self._snapshots[name] = FlavorSnapshot(self, flavor, tree)
        return snapshot

    # Usage.

    def add_usage(self, usages: TopologyUsages, sign: int) -> None:
        for usage in usages:
            _add(self.usage.setdefault(usage.flavor, {}).setdefault(usage.domain, {}), usage.amounts, sign)
            for snapshot in self._snapshots.values():
                snapshot.forget(usage.domain)

    def add_trial_usage(self, usages: TopologyUsages, sign: int) -> None:
        for usage in usages:
            _add(self._trial_usage.setdefault(usage.flavor, {}).setdefault(usage.domain, {}), usage.amounts, sign)
            snapshot = self._snapshots.get(usage.flavor)
            if snapshot is not None:
                snapshot.trial_changed(usage.domain)

    def usage_in(self, domain: DomainId, flavor: FlavorName, *, shared: bool) -> list[Amounts]:
        if not shared or not self.policy.overlapping_flavors:
            return [self.usage.get(flavor, {}).get(domain, {})]
        return [usage[domain] for name, usage in self.usage.items() if domain in usage and self._is_by_node(name)]

    def trial_usage_in(self, flavor: FlavorName, domain: DomainId) -> Amounts | None:
        by_domain = self._trial_usage.get(flavor)
        return None if by_domain is None else by_domain.get(domain)

    def non_tas_usage(self, node: str) -> Amounts:
        return self._non_tas_usage.get(node, {})

    def fits(self, usages: TopologyUsages) -> bool:
        for usage in usages:
            snapshot = self.snapshot(usage.flavor)
            if snapshot is None or not snapshot.fits(usage):
                return False
        return True

    def place(
        self, requests: PlacementRequests, *, as_if_empty: bool = False, replacement: NodeReplacement | None = None
    ) -> Placements | tuple[FlavorName, PlacementFailure]:
        """Place the requests in all flavors, or return the first failure and its flavor."""
        placements: Placements = {}
        on_nodes: Assumed = {}
        for flavor in sorted(requests):
            snapshot = self.snapshot(flavor)
            assert snapshot is not None
            is_shared = snapshot.tree.is_by_node and self.policy.overlapping_flavors
            assumed = on_nodes if is_shared else {}
            if replacement is not None:
                placed = placement.replace_node(
                    snapshot,
                    requests[flavor],
                    topology=snapshot.topology,
                    assumed=assumed,
                    failed_node=replacement.node,
                    before=replacement.before,
                )
            else:
                placed = placement.place(
                    snapshot, requests[flavor], topology=snapshot.topology, assumed=assumed, as_if_empty=as_if_empty
                )
            if isinstance(placed, PlacementFailure):
                return flavor, placed
            placements |= placed
        return placements

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
        flavors = {name: None for node in versions if node is not None for name in self._flavors_of(node)}
        for name in flavors:
            self._snapshots.pop(name, None)
        return list(flavors)

    def _forget_node(self, name: str) -> None:
        self.capacity_version += 1
        for snapshot in self._snapshots.values():
            snapshot.forget_node(name)


def _add(total: Amounts, amounts: Requests, sign: int) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + sign * amount
