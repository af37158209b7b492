"""The quota tree: cluster queues are leaves, cohorts are above them, and every node has usage.

Usage and quota are amounts per flavor and resource. A node lends the quota that it does not keep
for itself (`local`) to its parent, and may use the parent's unused quota up to its borrowing
limit. Usage beyond the local quota is passed to the parent, so a change costs the depth of the
tree. Each pair of flavor and resource is interned to a small integer. `ledger` charges and
releases usage.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pykueue.engine import values
from pykueue.engine.quota.amounts import EXACT, add, sub

Index = int
"""An interned flavor-resource."""
Usage = dict[Index, int]


class FlavorResources:
    """Interns flavor-resources; an index is never reused."""

    def __init__(self) -> None:
        self.names: list[values.FlavorResource] = []
        self._index: dict[values.FlavorResource, Index] = {}

    def index(self, flavor: values.FlavorName, resource: values.ResourceName) -> Index:
        name = values.FlavorResource(flavor, resource)
        index = self._index.get(name)
        if index is None:
            index = self._index[name] = len(self.names)
            self.names.append(name)
        return index


class NodeKey(NamedTuple):
    """Names a node of the tree; the key of a root names its tree.

    Cohorts and cluster queues may share a name.
    """

    is_cluster_queue: bool
    name: str


class QuotaNode:
    """A cluster queue or a cohort in the tree."""

    __slots__ = (
        "borrowers",
        "borrowing_limit",
        "children",
        "explicit",
        "generation",
        "height",
        "is_cluster_queue",
        "key",
        "lendable",
        "lending_limit",
        "local",
        "name",
        "nominal",
        "parent",
        "participates",
        "potential",
        "subtree",
        "usage",
        "weight",
    )

    def __init__(self, name: str, *, is_cluster_queue: bool) -> None:
        self.name = name
        self.is_cluster_queue = is_cluster_queue
        self.key = NodeKey(is_cluster_queue, name)
        self.parent: QuotaNode | None = None
        self.children: dict[NodeKey, QuotaNode] = {}
        self.borrowers: dict[Index, dict[NodeKey, QuotaNode]] = {}
        """Children that use more than their own quota, per flavor-resource."""
        self.explicit = False
        self.participates = True
        """False for an inactive cluster queue, which keeps its usage but is never a candidate."""
        self.weight = 1.0
        self.height = 0
        self.generation = 0
        """Grows when its quota changes, its tree is rebuilt or a reservation is released."""
        self.nominal: Usage = {}
        self.borrowing_limit: Usage = {}
        self.lending_limit: Usage = {}
        self.subtree: Usage = {}
        """The node's own quota and what its children lend."""
        self.local: Usage = {}
        """The part of `subtree` that is never lent; only where there is a lending limit."""
        self.usage: Usage = {}
        self.potential: Usage = {}
        self.lendable: dict[values.ResourceName, int] = {}

    def __repr__(self) -> str:
        return f"QuotaNode({self.name})"

    @property
    def root(self) -> "QuotaNode":
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    @property
    def path(self) -> tuple[str, ...]:
        """Names from the root to this node."""
        names = [self.name]
        node = self.parent
        while node is not None:
            names.append(node.name)
            node = node.parent
        return tuple(reversed(names))

    def cohorts(self) -> list["QuotaNode"]:
        return [child for child in self.children.values() if not child.is_cluster_queue]

    def cluster_queues(self) -> list["QuotaNode"]:
        """The participating ones, in name order."""
        return [child for child in self.children.values() if child.is_cluster_queue and child.participates]


def ancestors(node: QuotaNode) -> Iterator[QuotaNode]:
    above = node.parent
    while above is not None:
        yield above
        above = above.parent


def subtree_cluster_queues(node: QuotaNode) -> Iterator[QuotaNode]:
    if node.is_cluster_queue:
        yield node
        return
    for child in node.children.values():
        yield from subtree_cluster_queues(child)


def write_usage(node: QuotaNode, index: Index, before: int, usage: int) -> None:
    """Change the usage of one node, and record in its parent whether it borrows."""
    node.usage[index] = usage
    parent = node.parent
    if parent is not None:
        own = node.subtree.get(index, 0)
        if usage > own >= before:
            parent.borrowers.setdefault(index, {})[node.key] = node
        elif before > own >= usage:
            del parent.borrowers[index][node.key]


def borrowing_children(node: QuotaNode, indices: Iterable[Index]) -> list[QuotaNode]:
    """Children that borrow some of these flavor-resources, in name order."""
    children: dict[NodeKey, QuotaNode] = {}
    for index in indices:
        borrowers = node.borrowers.get(index)
        if borrowers:
            children |= borrowers
    return [children[key] for key in sorted(children)] if len(children) > 1 else list(children.values())


def local_available(node: QuotaNode, index: Index) -> int:
    left = sub(node.local.get(index, 0), node.usage.get(index, 0))
    return max(left, 0)


def available(node: QuotaNode, index: Index) -> int:
    """How much may still be used at this node; negative when usage exceeds the quota."""
    usage = node.usage.get(index, 0)
    parent = node.parent
    if parent is None:
        quota = node.subtree.get(index, 0)
        return quota - usage if quota < EXACT and usage < EXACT else sub(quota, usage)
    above = available(parent, index)
    local = node.local.get(index, 0) if node.local else 0
    limit = node.borrowing_limit.get(index)
    if limit is not None:
        stored_above = sub(node.subtree.get(index, 0), local)
        used_above = max(0, sub(usage, local))
        above = min(above, add(sub(stored_above, used_above), limit))
    if usage >= local:
        return above
    return add(sub(local, usage), above)


def potential_available(node: QuotaNode, index: Index) -> int:
    """How much could be used at this node if nothing were used in the whole tree."""
    potential = node.potential.get(index)
    if potential is None:
        potential = node.potential[index] = _potential_available(node, index)
    return potential


def _potential_available(node: QuotaNode, index: Index) -> int:
    if node.parent is None:
        return node.subtree.get(index, 0)
    potential = add(node.local.get(index, 0), potential_available(node.parent, index))
    limit = node.borrowing_limit.get(index)
    if limit is not None:
        potential = min(potential, add(node.subtree.get(index, 0), limit))
    return potential


def borrows_with(node: QuotaNode, index: Index, amount: int) -> bool:
    """Whether usage plus `amount` exceeds the node's own quota."""
    return add(node.usage.get(index, 0), amount) > node.subtree.get(index, 0)


def is_within_quota(node: QuotaNode, indices: Iterable[Index]) -> bool:
    usage, subtree = node.usage, node.subtree
    return all(usage.get(index, 0) <= subtree.get(index, 0) for index in indices)


def height_of_fit(node: QuotaNode, index: Index, amount: int) -> tuple[int, bool]:
    """Height of the smallest subtree that contains the cluster queue and in which `amount` fits.

    The second value says whether that subtree has a parent.
    """
    if node.parent is None or add(node.usage.get(index, 0), amount) <= node.subtree.get(index, 0):
        return 0, node.parent is not None
    rest = sub(amount, local_available(node, index)) if node.local else amount
    above: QuotaNode | None = node.parent
    root = node
    while above is not None:
        if add(above.usage.get(index, 0), rest) <= above.subtree.get(index, 0):
            return above.height, above.parent is not None
        if above.local:
            rest = sub(rest, local_available(above, index))
        root, above = above, above.parent
    return root.height, False


def set_quotas(node: QuotaNode, quotas: Mapping[Index, values.Quota]) -> None:
    node.nominal = {index: quota.nominal for index, quota in quotas.items()}
    node.borrowing_limit = {
        index: quota.borrowing_limit for index, quota in quotas.items() if quota.borrowing_limit is not None
    }
    node.lending_limit = {
        index: quota.lending_limit for index, quota in quotas.items() if quota.lending_limit is not None
    }


def rebuild(node: QuotaNode) -> None:
    """Recompute a subtree from the quotas of its nodes and the usage of its cluster queues."""
    node.subtree = dict(node.nominal)
    node.potential.clear()
    node.lendable.clear()
    if node.is_cluster_queue:
        node.generation += 1
    else:
        node.usage = {}
        node.borrowers = {}
        for child in node.children.values():
            rebuild(child)
            _accumulate(node, child)
            for index, usage in child.usage.items():
                if usage > child.subtree.get(index, 0):
                    node.borrowers.setdefault(index, {})[child.key] = child
    node.local = {index: max(0, sub(node.subtree.get(index, 0), limit)) for index, limit in node.lending_limit.items()}


def _accumulate(parent: QuotaNode, child: QuotaNode) -> None:
    for index, quota in child.subtree.items():
        lent = sub(quota, child.local.get(index, 0))
        parent.subtree[index] = add(parent.subtree.get(index, 0), lent)
    for index, usage in child.usage.items():
        passed = max(0, sub(usage, child.local.get(index, 0)))
        parent.usage[index] = add(parent.usage.get(index, 0), passed)


def measure(node: QuotaNode) -> None:
    """Recompute heights: 0 without children, else one more than the highest child."""
    node.height = 0
    for child in node.children.values():
        measure(child)
        if child.participates:
            node.height = max(node.height, child.height + 1)


def fair_weight(member: values.ClusterQueue | values.Cohort) -> float:
    return 1.0 if member.fair_weight is None else member.fair_weight


class QuotaTree:
    """All nodes by name, and the edges between them.

    Cohorts whose ancestors form a cycle have no parent while the cycle exists. Changes are
    collected; `refresh` recomputes each changed tree once, before it is read.
    """

    def __init__(self) -> None:
        self.flavor_resources = FlavorResources()
        self.cluster_queues: dict[str, QuotaNode] = {}
        self.cohorts: dict[str, QuotaNode] = {}
        self.in_cycle: frozenset[str] = frozenset()
        """Names of cohorts whose ancestors form a cycle."""
        self._declared_parent: dict[NodeKey, str] = {}
        self._stale: list[QuotaNode] = []
        self._unmeasured: list[QuotaNode] = []

    def find(self, key: NodeKey) -> QuotaNode | None:
        return (self.cluster_queues if key.is_cluster_queue else self.cohorts).get(key.name)

    def quotas(self, groups: Iterable[values.ResourceGroup]) -> dict[Index, values.Quota]:
        return {
            self.flavor_resources.index(flavor.name, resource): quota
            for group in groups
            for flavor in group.flavors
            for resource, quota in flavor.resources.items()
        }

    def put_cluster_queue(self, queue: values.ClusterQueue) -> QuotaNode:
        node = self.cluster_queues.get(queue.name)
        if node is None:
            node = self.cluster_queues[queue.name] = QuotaNode(queue.name, is_cluster_queue=True)
        node.weight = fair_weight(queue)
        set_quotas(node, self.quotas(queue.resource_groups))
        self._move(node, queue.cohort)
        return node

    def put_cohort(self, cohort: values.Cohort) -> QuotaNode:
        node = self._cohort(cohort.name)
        node.explicit = True
        node.weight = fair_weight(cohort)
        set_quotas(node, self.quotas(cohort.resource_groups))
        self._move(node, cohort.parent)
        return node

    def remove_cluster_queue(self, name: str) -> None:
        self._move(self.cluster_queues.pop(name), None)

    def remove_cohort(self, name: str) -> None:
        """Remove the object.

        While a cluster queue or cohort names it, it stays as a root without quota.
        """
        node = self.cohorts[name]
        node.explicit = False
        node.weight = 1.0
        set_quotas(node, {})
        self._move(node, None)
        self._drop_if_unused(name)

    def set_participation(self, node: QuotaNode, *, participates: bool) -> None:
        if node.participates != participates:
            node.participates = participates
            self._unmeasured.append(node)

    def is_in_cycle(self, cluster_queue: str) -> bool:
        return self._declared_parent.get(NodeKey(is_cluster_queue=True, name=cluster_queue)) in self.in_cycle

    def refresh(self) -> list[QuotaNode]:
        """Recompute changed trees; returns the roots of those that were rebuilt."""
        rebuilt: list[QuotaNode] = []
        if self._stale:
            rebuilt = list({id(node.root): node.root for node in self._stale}.values())
            for root in rebuilt:
                rebuild(root)
            self._unmeasured += self._stale
            self._stale = []
        if self._unmeasured:
            for root in {id(node.root): node.root for node in self._unmeasured}.values():
                measure(root)
            self._unmeasured = []
        return rebuilt

    def _cohort(self, name: str) -> QuotaNode:
        node = self.cohorts.get(name)
        if node is None:
            node = self.cohorts[name] = QuotaNode(name, is_cluster_queue=False)
        return node

    def _move(self, node: QuotaNode, parent: str | None) -> None:
        old = self._declared_parent.pop(node.key, None)
        if parent:
            self._declared_parent[node.key] = parent
            self._cohort(parent)
        self._stale.append(node)
        if node.is_cluster_queue:
            self._attach(node)
        elif old != parent:
            self._relink(node)
        if old is not None and old != parent:
            self._drop_if_unused(old)

    def _relink(self, moved: QuotaNode) -> None:
        """Set the edge of a cohort, and the edges to cohorts that entered or left a cycle."""
        before = self.in_cycle
        self.in_cycle = self._find_cycles()
        self._attach(moved)
        flipped = before ^ self.in_cycle
        for key in sorted(self._declared_parent):
            if self._declared_parent[key] in flipped:
                self._attach((self.cluster_queues if key.is_cluster_queue else self.cohorts)[key.name])

    def _attach(self, node: QuotaNode) -> None:
        """Set the edge to the declared parent; a parent in a cycle counts as none."""
        declared = self._declared_parent.get(node.key)
        parent = self.cohorts[declared] if declared is not None and declared not in self.in_cycle else None
        if node.parent is parent:
            return
        self._stale.append(node)
        if node.parent is not None:
            self._stale.append(node.parent)
            del node.parent.children[node.key]
        node.parent = parent
        if parent is not None:
            parent.children[node.key] = node
            parent.children = dict(sorted(parent.children.items()))

    def _find_cycles(self) -> frozenset[str]:
        in_cycle: set[str] = set()
        for name in self.cohorts:
            path: list[str] = []
            current: str | None = name
            while current is not None and current not in path:
                path.append(current)
                current = self._declared_parent.get(NodeKey(is_cluster_queue=False, name=current))
            if current is not None:
                in_cycle.update(path)
        return frozenset(in_cycle)

    def _drop_if_unused(self, name: str) -> None:
        node = self.cohorts.get(name)
        if node is None or node.explicit or name in self._declared_parent.values():
            return
        del self.cohorts[name]
