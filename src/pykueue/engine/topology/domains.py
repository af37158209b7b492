"""The tree of topology domains: every level of a Topology is a node label, and every label value
is a domain.

A leaf is one node if the lowest level is the host name; otherwise it is all nodes with the same
value at every level. `cache` builds a tree when nodes change, and the placement reads it.
"""

from collections.abc import Iterable, Mapping, Sequence

from pykueue.engine.values import Node, ResourceName

HOSTNAME = "kubernetes.io/hostname"

DomainId = tuple[str, ...]
"""The values of the levels.

The id of a leaf that is one node is its host name alone, which is unique.
"""


class DomainNode:
    __slots__ = ("capacity", "children", "id", "index", "node", "nodes", "parent", "values")

    def __init__(self, index: int, domain_id: DomainId, values: tuple[str, ...]) -> None:
        self.index = index
        self.id = domain_id
        self.values = values
        self.parent: DomainNode | None = None
        self.children: list[DomainNode] = []
        self.node: Node | None = None
        """The node, if the domain is one node."""
        self.nodes: list[str] = []
        """The names of the nodes of a leaf."""
        self.capacity: dict[ResourceName, int] = {}
        """The allocatable resources of all nodes of a leaf."""

    def __repr__(self) -> str:
        return f"DomainNode({'/'.join(self.values)})"

    def ancestor(self, level: int) -> "DomainNode":
        domain = self
        while len(domain.values) > level + 1:
            assert domain.parent is not None
            domain = domain.parent
        return domain


class DomainTree:
    def __init__(self, levels: Sequence[str], nodes: Iterable[Node]) -> None:
        self.levels = tuple(levels)
        self.is_by_node = bool(levels) and levels[-1] == HOSTNAME
        self.at_level: list[list[DomainNode]] = [[] for _ in levels]
        self.leaves: dict[DomainId, DomainNode] = {}
        self.leaf_of_node: dict[str, DomainNode] = {}
        self.size = 0
        self._above: dict[tuple[str, ...], DomainNode] = {}
        for node in nodes:
            self._add(node)

    def level(self, key: str) -> int | None:
        return self.levels.index(key) if key in self.levels else None

    def _add(self, node: Node) -> None:
        values = tuple(node.labels[level] for level in self.levels)
        domain_id = values[-1:] if self.is_by_node else values
        leaf = self.leaves.get(domain_id)
        if leaf is None:
            leaf = self.leaves[domain_id] = self._new(domain_id, values)
            leaf.node = node if self.is_by_node else None
        for resource, amount in node.allocatable.items():
            leaf.capacity[resource] = leaf.capacity.get(resource, 0) + amount
        leaf.nodes.append(node.name)
        self.leaf_of_node[node.name] = leaf

    def _new(self, domain_id: DomainId, values: tuple[str, ...]) -> DomainNode:
        domain = DomainNode(self.size, domain_id, values)
        self.size += 1
        self.at_level[len(values) - 1].append(domain)
        if len(values) > 1:
            above = values[:-1]
            parent = self._above.get(above)
            if parent is None:
                parent = self._above[above] = self._new(above, above)
            domain.parent = parent
            parent.children.append(domain)
        return domain


def selected(nodes: Iterable[Node], labels: Mapping[str, str], levels: Sequence[str]) -> list[Node]:
    """The nodes of a flavor: those with its labels and a label for every level."""
    return [
        node
        for node in nodes
        if all(node.labels.get(key, "") == value for key, value in labels.items())
        and all(level in node.labels for level in levels)
    ]
