"""The tree of domains that nodes form by their labels: one level a label, leaves at the bottom.

A leaf is one node when the lowest level is the host name, else all nodes that agree in every level. Built by `capacity`
when nodes change; read by the placement.
"""

from collections.abc import Iterable, Mapping, Sequence

from pykueue.engine.values import Node, ResourceName

HOSTNAME = "kubernetes.io/hostname"

DomainId = tuple[str, ...]
"""The values of the levels; of a leaf that is a node only the host name, which is unique."""


class Domain:
    __slots__ = ("capacity", "children", "id", "index", "node", "nodes", "parent", "values")

    def __init__(self, index: int, domain_id: DomainId, values: tuple[str, ...]) -> None:
        self.index = index
        self.id = domain_id
        self.values = values
        self.parent: Domain | None = None
        self.children: list[Domain] = []
        self.node: Node | None = None
        """Of a leaf that is one node."""
        self.nodes: list[str] = []
        """Of a leaf: the names of its nodes."""
        self.capacity: dict[ResourceName, int] = {}
        """Of a leaf: what its nodes offer together."""

    def __repr__(self) -> str:
        return f"Domain({'/'.join(self.values)})"

    def ancestor(self, level: int) -> "Domain":
        found = self
        while len(found.values) > level + 1:
            assert found.parent is not None
            found = found.parent
        return found


class DomainTree:
    def __init__(self, levels: Sequence[str], nodes: Iterable[Node]) -> None:
        self.levels = tuple(levels)
        self.is_by_node = bool(levels) and levels[-1] == HOSTNAME
        self.at_level: list[list[Domain]] = [[] for _ in levels]
        self.leaves: dict[DomainId, Domain] = {}
        self.leaf_of_node: dict[str, Domain] = {}
        self.size = 0
        self._above: dict[tuple[str, ...], Domain] = {}
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

    def _new(self, domain_id: DomainId, values: tuple[str, ...]) -> Domain:
        domain = Domain(self.size, domain_id, values)
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
    """The nodes of a flavor: they carry its labels and a value for every level."""
    return [
        node
        for node in nodes
        if all(node.labels.get(key, "") == value for key, value in labels.items())
        and all(level in node.labels for level in levels)
    ]
