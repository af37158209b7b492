"""First half of a placement: count how many pods, slices and leaders each domain can take, from
the leaves upwards.

Nodes on which the pods cannot run, and nodes without capacity for one pod, are counted by reason,
because the message of a failure lists them. Called by `placement`.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from pykueue.engine import values
from pykueue.engine.flavors import matching
from pykueue.engine.policy import TopologyPolicy
from pykueue.engine.reasons import NodeExclusions
from pykueue.engine.topology.domains import DomainId, DomainNode, DomainTree
from pykueue.engine.topology.placement_request import PlacementRequest, Requests, ResolvedRequest, Unplaceable
from pykueue.engine.values import PODS, ResourceName, SliceLayer

_MAX_PODS = 2**31 - 1


class FlavorCapacity(Protocol):
    """The nodes of a flavor as a tree of domains, and the unused capacity of its leaves."""

    @property
    def tree(self) -> DomainTree: ...

    @property
    def tolerations(self) -> tuple[values.Toleration, ...]: ...

    @property
    def policy(self) -> TopologyPolicy: ...

    def remaining(self, leaf: DomainNode, *, as_if_empty: bool) -> Requests: ...

    def count(
        self,
        request: PlacementRequest,
        resolved: ResolvedRequest,
        *,
        leader: PlacementRequest | None,
        as_if_empty: bool,
    ) -> "CapacityCount": ...


Amounts = tuple[int, int, int, int, int]
"""Pods, slices, leaders, and pods and slices beside a leader."""


class DomainCounts:
    """How much a domain can take. The selection overwrites it with what the domain gets."""

    __slots__ = ("leaders", "pods", "pods_with_leader", "slices", "slices_with_leader")

    def __init__(self) -> None:
        self.set((0, 0, 0, 0, 0))

    def set(self, amounts: Amounts) -> None:
        self.pods, self.slices, self.leaders, self.pods_with_leader, self.slices_with_leader = amounts

    @property
    def amounts(self) -> Amounts:
        return self.pods, self.slices, self.leaders, self.pods_with_leader, self.slices_with_leader


class LeafAssignment(NamedTuple):
    """How many pods and leaders are assigned to a leaf."""

    leaf: DomainNode
    pods: int
    leaders: int


SelectionKey = tuple[int, bool, bool, tuple[SliceLayer, ...], int, int, str]
"""Level, whether it is required, whether it is unconstrained, layers, pods, leaders, topology."""


class _Exclusion(enum.Enum):
    """Why a leaf is excluded, other than by a taint or a resource."""

    SELECTOR = enum.auto()
    AFFINITY = enum.auto()
    DOMAIN = enum.auto()


class CapacityCount:
    """The counts of all domains for one placement request, with an optional leader pod set.

    A count can be used again: `recount` updates it for leaves that changed, and `restore` undoes
    what a selection wrote into it.
    """

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
        self._capacity = capacity
        self._as_if_empty = as_if_empty
        self._assumed = assumed
        self._counts = [DomainCounts() for _ in range(capacity.tree.size)]
        self._edited: list[tuple[DomainCounts, Amounts]] = []
        self._resolved = resolved
        self._leader = leader
        self._pod = with_pod(request.pod_requests)
        self._leader_pod = None if leader is None else with_pod(leader.pod_requests)
        self._excluded: dict[int, values.Taint | _Exclusion] = {}
        """Leaves on which the pods cannot run, by index."""
        self._short: dict[int, ResourceName] = {}
        """Leaves without capacity for one pod, by index, and the resource that they lack."""
        self.selected: dict[SelectionKey, Sequence[LeafAssignment] | Unplaceable] = {}
        """Results of selections since the counts last changed."""
        tolerations = (*request.tolerations, *capacity.tolerations)
        for leaf in self.tree.leaves.values():
            exclusion = _exclusion(leaf, request, tolerations, within)
            if exclusion is None:
                self._count_leaf(leaf)
            else:
                self._excluded[leaf.index] = exclusion
        self.scores = self._scored(request.preferred_terms) if request.preferred_terms else None
        """How well domains match the preferred node affinity; None without one."""
        for domains in reversed(self.tree.at_level[:-1]):
            for domain in domains:
                self._sum_children(domain)

    def __getitem__(self, domain: DomainNode) -> DomainCounts:
        return self._counts[domain.index]

    def edit(self, domain: DomainNode) -> DomainCounts:
        """The counts of a domain, to be written by the selection."""
        counts = self._counts[domain.index]
        self._edited.append((counts, counts.amounts))
        return counts

    @property
    def edits(self) -> int:
        return len(self._edited)

    def restore(self, position: int = 0) -> None:
        """Undo the edits since there were `position` of them."""
        while len(self._edited) > position:
            counts, amounts = self._edited.pop()
            counts.set(amounts)

    def sum_again(self, domain: DomainNode) -> None:
        """Add up a domain again after an edit below it, without the inner layers of slices."""
        counts = self.edit(domain)
        if domain.children:
            for child in domain.children:
                self.sum_again(child)
            counts.set(self._summed(domain, {}))
        elif len(domain.values) - 1 == self._resolved.slice_level:
            counts.slices = counts.pods // self._resolved.slice_size
            counts.slices_with_leader = counts.pods_with_leader // self._resolved.slice_size

    def _scored(self, terms: tuple[values.PreferredTerm, ...]) -> list[int]:
        """The weights of the terms that nodes match, added up for every domain."""
        scores = [0] * self.tree.size
        for leaf in self.tree.leaves.values():
            if leaf.node is None or leaf.index in self._excluded:
                continue
            labels = leaf.node.labels
            scores[leaf.index] = sum(term.weight for term in terms if matching.matches_terms((term.term,), labels))
        for domains in reversed(self.tree.at_level[:-1]):
            for domain in domains:
                scores[domain.index] = sum(scores[child.index] for child in domain.children)
        return scores

    def recount(self, leaves: Iterable[DomainNode]) -> None:
        """Count some leaves and the domains above them again."""
        above: dict[int, DomainNode] = {}
        for leaf in leaves:
            if leaf.index not in self._excluded and self._count_leaf(leaf):
                self.selected.clear()
                if leaf.parent is not None:
                    above[leaf.parent.index] = leaf.parent
        while above:
            higher: dict[int, DomainNode] = {}
            for domain in above.values():
                self._sum_children(domain)
                if domain.parent is not None:
                    higher[domain.parent.index] = domain.parent
            above = higher

    def exclusions(self) -> NodeExclusions:
        """How many leaves are excluded for which reason, in the order of the leaves."""
        excluded: Counter[values.Taint | _Exclusion] = Counter()
        short: Counter[ResourceName] = Counter()
        for leaf in self.tree.leaves.values():
            if leaf.index in self._excluded:
                excluded[self._excluded[leaf.index]] += 1
            elif leaf.index in self._short:
                short[self._short[leaf.index]] += 1
        return NodeExclusions(
            total=len(self.tree.leaves),
            taints=tuple((taint, count) for taint, count in excluded.items() if isinstance(taint, values.Taint)),
            resources=tuple(short.items()),
            node_selector=excluded[_Exclusion.SELECTOR],
            affinity=excluded[_Exclusion.AFFINITY],
            topology_domain=excluded[_Exclusion.DOMAIN],
        )

    def _count_leaf(self, leaf: DomainNode) -> bool:
        """Count one leaf; returns whether anything changed."""
        unused = self._capacity.remaining(leaf, as_if_empty=self._as_if_empty)
        if leaf.id in self._assumed:
            unused = without(unused, self._assumed[leaf.id])
        pods, short = _fitting(self._pod, unused)
        changed = False
        if not pods:
            changed = self._short.get(leaf.index) != short
            self._short[leaf.index] = short
        elif self._short:
            self._short.pop(leaf.index, None)
        leaders, pods_with_leader = 0, pods
        if self._leader_pod is not None and _fitting(self._leader_pod, unused)[0]:
            leaders = 1
            pods_with_leader = _fitting(self._pod, without(unused, self._leader_pod))[0]
        slices = slices_with_leader = 0
        if self._resolved.slice_level == len(self.tree.levels) - 1:
            slices = pods // self._resolved.slice_size
            slices_with_leader = pods_with_leader // self._resolved.slice_size
        counts, amounts = self._counts[leaf.index], (pods, slices, leaders, pods_with_leader, slices_with_leader)
        changed = changed or counts.amounts != amounts
        counts.set(amounts)
        return changed

    def _sum_children(self, domain: DomainNode) -> None:
        self._counts[domain.index].set(self._summed(domain, self._resolved.inner_sizes))

    def _summed(self, domain: DomainNode, inner_sizes: Mapping[int, int]) -> Amounts:
        """Add up the children.

        The leader is counted in the child where it displaces the fewest pods.
        """
        level = len(domain.values) - 1
        unit = inner_sizes.get(level + 1, 1)
        counts = self._counts
        all_pods = all_slices = leaders = 0
        pod_cost = slice_cost = -1
        for child_domain in domain.children:
            child = counts[child_domain.index]
            pods = child.pods - child.pods % unit
            all_pods += pods
            all_slices += child.slices
            leaders = max(leaders, child.leaders)
            if self._leader is None or child.leaders:
                cost = pods - (child.pods_with_leader - child.pods_with_leader % unit)
                if pod_cost < 0 or cost < pod_cost:
                    pod_cost = cost
                cost = child.slices - child.slices_with_leader
                if slice_cost < 0 or cost < slice_cost:
                    slice_cost = cost
        has_cost = pod_cost >= 0
        pods_with_leader = all_pods - pod_cost if has_cost else 0
        slices_with_leader = all_slices - slice_cost if has_cost else 0
        if level == self._resolved.slice_level:
            all_slices = all_pods // self._resolved.slice_size
            slices_with_leader = pods_with_leader // self._resolved.slice_size
        return all_pods, all_slices, leaders, pods_with_leader, slices_with_leader


def _exclusion(
    leaf: DomainNode, request: PlacementRequest, tolerations: tuple[values.Toleration, ...], within: DomainId
) -> values.Taint | _Exclusion | None:
    """Why the pods cannot run in a leaf, regardless of its unused capacity."""
    node = leaf.node
    if node is not None:
        taint = matching.first_untolerated(node.taints, tolerations)
        if taint is not None:
            return taint
        if any(node.labels.get(key) != value for key, value in request.node_selector.items()):
            return _Exclusion.SELECTOR
        if request.affinity_terms is not None and not matching.matches_terms(request.affinity_terms, node.labels):
            return _Exclusion.AFFINITY
    return None if leaf.values[: len(within)] == within else _Exclusion.DOMAIN


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
    least, limiting = _MAX_PODS + 1, ResourceName("")
    for resource, amount in requests.items():
        count = min(max(0, unused.get(resource, 0)) // amount, _MAX_PODS) if amount else _MAX_PODS
        if count < least or (count == least and resource < limiting):
            least, limiting = count, resource
    return (least, limiting) if requests else (0, limiting)
