"""First half of a placement: how many pods, slices and leaders each domain could take, from the leaves to the top.

Nodes that a pod cannot run on, and nodes with no room for one, are counted by reason for the message of a failure.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from pykueue.engine import values
from pykueue.engine.flavors import matching
from pykueue.engine.topology.demand import PlacementRequest, Requests, Shape
from pykueue.engine.topology.domains import Domain, DomainId, DomainTree
from pykueue.engine.values import PODS, ResourceName

_MOST = 2**31 - 1


class Room(Protocol):
    """A flavor's nodes as a tree, and what is left in its leaves."""

    @property
    def tree(self) -> DomainTree: ...

    @property
    def tolerations(self) -> tuple[values.Toleration, ...]: ...

    def remaining(self, leaf: Domain, *, as_if_empty: bool) -> Requests: ...


class Tally:
    """What a domain could take; on the way down, what it was given."""

    __slots__ = ("leaders", "pods", "pods_with_leader", "slices", "slices_with_leader")

    def __init__(self) -> None:
        self.pods = 0
        self.slices = 0
        self.leaders = 0
        self.pods_with_leader = 0
        self.slices_with_leader = 0


class Exclusions:
    """Why nodes were left out."""

    def __init__(self) -> None:
        self.nodes = 0
        self._reasons: Counter[str] = Counter()

    def add(self, reason: str) -> None:
        self._reasons[reason] += 1

    def __str__(self) -> str:
        if not self._reasons:
            return ""
        reasons = ", ".join(sorted(f"{reason}: {count}" for reason, count in self._reasons.items()))
        return f". Total nodes: {self.nodes}; excluded: {reasons}"


class Count:
    """The tallies of all domains for one demand, with an optional leader beside it."""

    def __init__(
        self,
        room: Room,
        demand: PlacementRequest,
        shape: Shape,
        *,
        leader: PlacementRequest | None,
        assumed: Mapping[DomainId, Requests],
        within: DomainId,
        as_if_empty: bool,
    ) -> None:
        self.tree = room.tree
        self.exclusions = Exclusions()
        self._tallies = [Tally() for _ in range(room.tree.size)]
        self._shape = shape
        self._leader = leader
        self._pod = with_pod(demand.pod_requests)
        self._leader_pod = None if leader is None else with_pod(leader.pod_requests)
        for leaf in self._feasible_leaves(demand, (*demand.tolerations, *room.tolerations)):
            if leaf.values[: len(within)] != within:
                self.exclusions.add("topologyDomain")
                continue
            left = room.remaining(leaf, as_if_empty=as_if_empty)
            if leaf.id in assumed:
                left = without(left, assumed[leaf.id])
            self._fill_leaf(self[leaf], left)
        self._sum_up()

    def __getitem__(self, domain: Domain) -> Tally:
        return self._tallies[domain.index]

    def _feasible_leaves(self, demand: PlacementRequest, tolerations: tuple[values.Toleration, ...]) -> list[Domain]:
        self.exclusions.nodes = len(self.tree.leaves)
        found = []
        for leaf in self.tree.leaves.values():
            reason = "" if leaf.node is None else _misfit(leaf.node, demand, tolerations)
            if reason:
                self.exclusions.add(reason)
            else:
                found.append(leaf)
        return found

    def _fill_leaf(self, tally: Tally, left: Requests) -> None:
        tally.pods, short = _fitting(self._pod, left)
        if not tally.pods:
            self.exclusions.add(f'resource "{short}"')
        tally.pods_with_leader = tally.pods
        if self._leader_pod is not None and _fitting(self._leader_pod, left)[0]:
            tally.leaders = 1
            tally.pods_with_leader = _fitting(self._pod, without(left, self._leader_pod))[0]

    def _sum_up(self) -> None:
        lowest = len(self.tree.levels) - 1
        if self._shape.slice_level == lowest:
            for leaf in self.tree.at_level[lowest]:
                self._set_slices(self[leaf])
        for level in range(lowest - 1, -1, -1):
            for domain in self.tree.at_level[level]:
                self._sum_children(self[domain], domain, level)

    def _set_slices(self, tally: Tally) -> None:
        tally.slices = tally.pods // self._shape.slice_size
        tally.slices_with_leader = tally.pods_with_leader // self._shape.slice_size

    def _sum_children(self, tally: Tally, domain: Domain, level: int) -> None:
        """A leader costs what it costs where it costs least."""
        unit = self._shape.inner_sizes.get(level + 1, 1)
        pod_costs, slice_costs = [], []
        for child in (self[child] for child in domain.children):
            pods = child.pods - child.pods % unit
            tally.pods += pods
            tally.slices += child.slices
            tally.leaders = max(tally.leaders, child.leaders)
            if self._leader is None or child.leaders:
                pod_costs.append(pods - (child.pods_with_leader - child.pods_with_leader % unit))
                slice_costs.append(child.slices - child.slices_with_leader)
        if pod_costs:
            tally.pods_with_leader = tally.pods - min(pod_costs)
            tally.slices_with_leader = tally.slices - min(slice_costs)
        if level == self._shape.slice_level:
            self._set_slices(tally)


def with_pod(requests: Requests) -> dict[ResourceName, int]:
    """A pod takes one of `pods`, besides what it asks for."""
    return {**requests, PODS: requests.get(PODS, 0) + 1}


def without(capacity: Requests, requests: Requests) -> dict[ResourceName, int]:
    left = dict(capacity)
    for resource, amount in requests.items():
        left[resource] = left.get(resource, 0) - amount
    return left


def fits(requests: Requests, left: Requests, count: int) -> bool:
    return _fitting(requests, left)[0] >= count


def _fitting(requests: Requests, left: Requests) -> tuple[int, str]:
    """How many times, and the resource that ends it; of several the first by name. Nothing fits no time at all."""
    return min(
        (
            (min(max(0, left.get(resource, 0)) // amount, _MOST) if amount else _MOST, resource)
            for resource, amount in requests.items()
        ),
        default=(0, ""),
    )


def _misfit(node: values.Node, demand: PlacementRequest, tolerations: tuple[values.Toleration, ...]) -> str:
    """Why the pods cannot run on this node, whatever room it has."""
    taint = matching.first_untolerated(node.taints, tolerations)
    if taint is not None:
        return f'taint "{_shown(taint)}"'
    if any(node.labels.get(key) != value for key, value in demand.node_selector.items()):
        return "nodeSelector"
    if demand.affinity_terms is not None and not matching.matches_terms(demand.affinity_terms, node.labels):
        return "affinity"
    return ""


def _shown(taint: values.Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
