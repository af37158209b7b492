"""First half of a placement: count how many pods, slices and leaders each domain can take, from
the leaves upwards.

Nodes on which the pods cannot run, and nodes without capacity for one pod, are counted by reason,
because the message of a failure lists them. Called by `placement`.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from pykueue.engine import values
from pykueue.engine.flavors import matching
from pykueue.engine.reasons import NodeExclusions
from pykueue.engine.topology.domains import DomainId, DomainNode, DomainTree
from pykueue.engine.topology.placement_request import PlacementRequest, Requests, ResolvedRequest
from pykueue.engine.values import PODS, ResourceName

_MAX_PODS = 2**31 - 1


class FlavorCapacity(Protocol):
    """The nodes of a flavor as a tree of domains, and the unused capacity of its leaves."""

    @property
    def tree(self) -> DomainTree: ...

    @property
    def tolerations(self) -> tuple[values.Toleration, ...]: ...

    def remaining(self, leaf: DomainNode, *, as_if_empty: bool) -> Requests: ...


class DomainCounts:
    """How much a domain can take. The selection overwrites it with what the domain gets."""

    __slots__ = ("leaders", "pods", "pods_with_leader", "slices", "slices_with_leader")

    def __init__(self) -> None:
        self.pods = 0
        self.slices = 0
        self.leaders = 0
        self.pods_with_leader = 0
        self.slices_with_leader = 0


class CapacityCount:
    """The counts of all domains for one placement request, with an optional leader pod set."""

    def __init__(
        self,
        capacity: FlavorCapacity,
        request: PlacementRequest,
        resolved: ResolvedRequest,
        *,
        leader: PlacementRequest | None,
        assumed: Mapping[DomainId, Requests],
        within: DomainId,
        as_if_empty: bool,
    ) -> None:
        self.tree = capacity.tree
        self._counts = [DomainCounts() for _ in range(capacity.tree.size)]
        self._excluded_taints: Counter[values.Taint] = Counter()
        self._excluded_resources: Counter[ResourceName] = Counter()
        self._excluded_by_selector = self._excluded_by_affinity = self._excluded_by_domain = 0
        self._resolved = resolved
        self._leader = leader
        self._pod = with_pod(request.pod_requests)
        self._leader_pod = None if leader is None else with_pod(leader.pod_requests)
        for leaf in self._feasible_leaves(request, (*request.tolerations, *capacity.tolerations)):
            if leaf.values[: len(within)] != within:
                self._excluded_by_domain += 1
                continue
            unused = capacity.remaining(leaf, as_if_empty=as_if_empty)
            if leaf.id in assumed:
                unused = without(unused, assumed[leaf.id])
            self._count_leaf(self[leaf], unused)
        self._sum_up()

    def __getitem__(self, domain: DomainNode) -> DomainCounts:
        return self._counts[domain.index]

    def exclusions(self) -> NodeExclusions:
        return NodeExclusions(
            total=len(self.tree.leaves),
            taints=tuple(self._excluded_taints.items()),
            resources=tuple(self._excluded_resources.items()),
            node_selector=self._excluded_by_selector,
            affinity=self._excluded_by_affinity,
            topology_domain=self._excluded_by_domain,
        )

    def _feasible_leaves(
        self, request: PlacementRequest, tolerations: tuple[values.Toleration, ...]
    ) -> list[DomainNode]:
        return [
            leaf
            for leaf in self.tree.leaves.values()
            if leaf.node is None or self._is_feasible(leaf.node, request, tolerations)
        ]

    def _is_feasible(
        self, node: values.Node, request: PlacementRequest, tolerations: tuple[values.Toleration, ...]
    ) -> bool:
        """Whether the pods can run on the node, regardless of its unused capacity."""
        taint = matching.first_untolerated(node.taints, tolerations)
        if taint is not None:
            self._excluded_taints[taint] += 1
        elif any(node.labels.get(key) != value for key, value in request.node_selector.items()):
            self._excluded_by_selector += 1
        elif request.affinity_terms is not None and not matching.matches_terms(request.affinity_terms, node.labels):
            self._excluded_by_affinity += 1
        else:
            return True
        return False

    def _count_leaf(self, counts: DomainCounts, unused: Requests) -> None:
        counts.pods, short = _fitting(self._pod, unused)
        if not counts.pods:
            self._excluded_resources[short] += 1
        counts.pods_with_leader = counts.pods
        if self._leader_pod is not None and _fitting(self._leader_pod, unused)[0]:
            counts.leaders = 1
            counts.pods_with_leader = _fitting(self._pod, without(unused, self._leader_pod))[0]

    def _sum_up(self) -> None:
        lowest = len(self.tree.levels) - 1
        if self._resolved.slice_level == lowest:
            for leaf in self.tree.at_level[lowest]:
                self._set_slices(self[leaf])
        for level in range(lowest - 1, -1, -1):
            for domain in self.tree.at_level[level]:
                self._sum_children(self[domain], domain, level)

    def _set_slices(self, counts: DomainCounts) -> None:
        counts.slices = counts.pods // self._resolved.slice_size
        counts.slices_with_leader = counts.pods_with_leader // self._resolved.slice_size

    def _sum_children(self, counts: DomainCounts, domain: DomainNode, level: int) -> None:
        """Add up the children.

        The leader is counted in the child where it displaces the fewest pods.
        """
        unit = self._resolved.inner_sizes.get(level + 1, 1)
        pod_costs, slice_costs = [], []
        for child in (self[child] for child in domain.children):
            pods = child.pods - child.pods % unit
            counts.pods += pods
            counts.slices += child.slices
            counts.leaders = max(counts.leaders, child.leaders)
            if self._leader is None or child.leaders:
                pod_costs.append(pods - (child.pods_with_leader - child.pods_with_leader % unit))
                slice_costs.append(child.slices - child.slices_with_leader)
        if pod_costs:
            counts.pods_with_leader = counts.pods - min(pod_costs)
            counts.slices_with_leader = counts.slices - min(slice_costs)
        if level == self._resolved.slice_level:
            self._set_slices(counts)


def with_pod(requests: Requests) -> dict[ResourceName, int]:
    """The requests of a pod with the one unit of `pods` that it uses on a node."""
    return {**requests, PODS: requests.get(PODS, 0) + 1}


def without(capacity: Requests, requests: Requests) -> dict[ResourceName, int]:
    unused = dict(capacity)
    for resource, amount in requests.items():
        unused[resource] = unused.get(resource, 0) - amount
    return unused


def fits(requests: Requests, unused: Requests, count: int) -> bool:
    return _fitting(requests, unused)[0] >= count


def _fitting(requests: Requests, unused: Requests) -> tuple[int, ResourceName]:
    """How many pods fit, and the resource that limits them; of several the first by name."""
    return min(
        (
            (min(max(0, unused.get(resource, 0)) // amount, _MAX_PODS) if amount else _MAX_PODS, resource)
            for resource, amount in requests.items()
        ),
        default=(0, ResourceName("")),
    )
