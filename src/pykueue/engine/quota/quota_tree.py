"""The quota tree: cluster queues as leaves, cohorts above them, one amount of usage per flavor and resource and node.

A node lends what it does not keep for itself (`local`) to its parent and sees the parent's unused quota as its own, up
to its borrowing limit. Usage beyond the local quota is passed upwards, so a change costs the depth of the tree.
Flavor-resources are interned to small integers. `ledger` writes usage; everybody may read.
"""

from collections.abc import Iterable, Iterator, Mapping

from pykueue.engine import values
from pykueue.engine.quota.amounts import add, sub

Index = int
"""An interned flavor-resource."""
Usage = dict[Index, int]


class FlavorResources:
    """Interns flavor-resources; an index is never given back."""

    def __init__(self) -> None:
        self.names: list[values.FlavorResource] = []
        self._index: dict[values.FlavorResource, Index] = {}

    def index(self, flavor: values.FlavorName, resource: values.ResourceName) -> Index:
        name = values.FlavorResource(flavor, resource)
        found = self._index.get(name)
        if found is None:
            found = self._index[name] = len(self.names)
            self.names.append(name)
        return found


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
        self.parent: QuotaNode | None = None
        self.children: dict[tuple[bool, str], QuotaNode] = {}
        self.borrowers: dict[Index, dict[tuple[bool, str], QuotaNode]] = {}
        """Children that use more than their own quota, per flavor-resource."""
        self.explicit = False
        self.participates = True
        """An inactive cluster queue keeps its usage but is no candidate and no competitor."""
        self.weight = 1.0
        self.height = 0
        self.generation = 0
        """Grows when a cluster queue's quota changes, its tree is rebuilt or a workload leaves it."""
        self.nominal: Usage = {}
        self.borrowing_limit: Usage = {}
        self.lending_limit: Usage = {}
        self.subtree: Usage = {}
        """Quota of the whole subtree that this node can dispose of."""
        self.local: Usage = {}
        """The part of `subtree` that is never lent; only where there is a lending limit."""
        self.usage: Usage = {}
        self.potential: Usage = {}
        self.lendable: dict[values.ResourceName, int] = {}

    def __repr__(self) -> str:
        return f"Node({self.name})"

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


def write_usage(node: QuotaNode, index: Index, usage: int) -> None:
    """Set the usage of one node alone; its parent learns whether it borrows."""
    before = node.usage.get(index, 0)
    node.usage[index] = usage
    parent = node.parent
    if parent is not None:
        own = node.subtree.get(index, 0)
        if usage > own >= before:
            parent.borrowers.setdefault(index, {})[node.is_cluster_queue, node.name] = node
        elif before > own >= usage:
            del parent.borrowers[index][node.is_cluster_queue, node.name]


def borrowing_children(node: QuotaNode, indices: Iterable[Index]) -> list[QuotaNode]:
    """Children that use more than their own quota of some of these flavor-resources, in name order."""
    found: dict[tuple[bool, str], QuotaNode] = {}
    for index in indices:
        borrowers = node.borrowers.get(index)
        if borrowers:
            found |= borrowers
    return [found[key] for key in sorted(found)] if len(found) > 1 else list(found.values())


def local_available(node: QuotaNode, index: Index) -> int:
    left = sub(node.local.get(index, 0), node.usage.get(index, 0))
    return max(left, 0)


def available(node: QuotaNode, index: Index) -> int:
    """What may still be used here; negative when more is used than there is."""
    usage = node.usage.get(index, 0)
    parent = node.parent
    if parent is None:
        return sub(node.subtree.get(index, 0), usage)
    above = available(parent, index)
    local = node.local.get(index, 0)
    limit = node.borrowing_limit.get(index)
    if limit is not None:
        stored_above = sub(node.subtree.get(index, 0), local)
        used_above = max(0, sub(usage, local))
        above = min(above, add(sub(stored_above, used_above), limit))
    left = sub(local, usage)
    return add(left, above) if left > 0 else above


def potential_available(node: QuotaNode, index: Index) -> int:
    """What could be used here if nobody used anything."""
    found = node.potential.get(index)
    if found is None:
        found = node.potential[index] = _potential_available(node, index)
    return found


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
    """Height of the smallest subtree around the cluster queue in which `amount` fits, and whether it has a parent."""
    if node.parent is None or not borrows_with(node, index, amount):
        return 0, node.parent is not None
    rest = sub(amount, local_available(node, index))
    above: QuotaNode | None = node.parent
    root = node
    while above is not None:
        if not borrows_with(above, index, rest):
            return above.height, above.parent is not None
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
    """Recompute what follows from the quotas at and below `cluster`, and the usage of its cohorts."""
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
                    node.borrowers.setdefault(index, {})[child.is_cluster_queue, child.name] = child
    node.local = {index: max(0, sub(node.subtree.get(index, 0), limit)) for index, limit in node.lending_limit.items()}


def _accumulate(parent: QuotaNode, child: QuotaNode) -> None:
    for index, quota in child.subtree.items():
        lent = sub(quota, child.local.get(index, 0))
        parent.subtree[index] = add(parent.subtree.get(index, 0), lent)
    for index, usage in child.usage.items():
        passed = max(0, sub(usage, child.local.get(index, 0)))
        parent.usage[index] = add(parent.usage.get(index, 0), passed)


def measure(node: QuotaNode) -> None:
    """Recompute heights: 0 for a cluster queue or an empty cohort, else one more than the highest child."""
    node.height = 0
    for child in node.children.values():
        measure(child)
        if child.participates:
            node.height = max(node.height, child.height + 1)


def fair_weight(member: values.ClusterQueue | values.Cohort) -> float:
    return 1.0 if member.fair_weight is None else member.fair_weight


class QuotaTree:
    """All nodes by name, the edges between them, and the cohorts that run in a circle (those are cut off).

    Changes are gathered; `refresh` recomputes each changed tree once, before anybody looks.
    """

    def __init__(self) -> None:
        self.flavor_resources = FlavorResources()
        self.cluster_queues: dict[str, QuotaNode] = {}
        self.cohorts: dict[str, QuotaNode] = {}
        self.in_cycle: frozenset[str] = frozenset()
        """Names of cohorts whose ancestors run in a circle."""
        self._declared_parent: dict[tuple[bool, str], str] = {}
        self._stale: list[QuotaNode] = []
        self._unmeasured: list[QuotaNode] = []

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
        """It stays as an implicit cohort (a root without quota) while something names it."""
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
        return self._declared_parent.get((True, cluster_queue)) in self.in_cycle

    def refresh(self) -> list[QuotaNode]:
        """Answers the roots of the trees that were rebuilt."""
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
        key = (node.is_cluster_queue, node.name)
        old = self._declared_parent.pop(key, None)
        if parent:
            self._declared_parent[key] = parent
            self._cohort(parent)
        self._stale.append(node)
        if node.is_cluster_queue:
            self._attach(node)
        elif old != parent:
            self._relink(node)
        if old is not None and old != parent:
            self._drop_if_unused(old)

    def _relink(self, moved: QuotaNode) -> None:
        """Set the edge of a cohort, and cut or mend every edge of a circle that this opens or closes."""
        before = self.in_cycle
        self.in_cycle = self._find_cycles()
        self._attach(moved)
        flipped = before ^ self.in_cycle
        for is_cluster_queue, name in sorted(self._declared_parent):
            if self._declared_parent[is_cluster_queue, name] in flipped:
                self._attach(self.cluster_queues[name] if is_cluster_queue else self.cohorts[name])

    def _attach(self, node: QuotaNode) -> None:
        """Make the edge to the parent what is declared; a parent in a circle counts as none."""
        key = (node.is_cluster_queue, node.name)
        declared = self._declared_parent.get(key)
        parent = self.cohorts[declared] if declared is not None and declared not in self.in_cycle else None
        if node.parent is parent:
            return
        self._stale.append(node)
        if node.parent is not None:
            self._stale.append(node.parent)
            del node.parent.children[key]
        node.parent = parent
        if parent is not None:
            parent.children[key] = node
            parent.children = dict(sorted(parent.children.items()))

    def _find_cycles(self) -> frozenset[str]:
        found: set[str] = set()
        for name in self.cohorts:
            seen: list[str] = []
            current: str | None = name
            while current is not None and current not in seen:
                seen.append(current)
                current = self._declared_parent.get((False, current))
            if current is not None:
                found.update(seen)
        return frozenset(found)

    def _drop_if_unused(self, name: str) -> None:
        node = self.cohorts.get(name)
        if node is None or node.explicit or name in self._declared_parent.values():
            return
        del self.cohorts[name]
