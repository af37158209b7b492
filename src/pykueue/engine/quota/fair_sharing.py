"""Fair sharing: the dominant resource share of a cluster queue or cohort.

Shares are floats, computed in the same order of operations as Kueue does, because ties decide.
`cycle.order` orders heads by share, `fair_sharing_targets` compares shares, and the queue
controllers report them.
"""

import math
from collections.abc import Iterable, Mapping

import msgspec

from pykueue.engine import values
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import UNLIMITED, add, sub

_PER_MILLE = 1000.0


class DominantResourceShare(msgspec.Struct, frozen=True, kw_only=True):
    weight: float
    ratio: float = 0.0
    """Greatest ratio of borrowed to lendable amount, in thousandths, without the weight."""
    dominant_resource: str = ""
    borrowed: frozenset[quota_tree.Index] = frozenset()

    @property
    def is_borrowing(self) -> bool:
        return bool(self.borrowed)

    def is_borrowing_on(self, usage: Mapping[quota_tree.Index, int]) -> bool:
        return any(usage.get(index, 0) > 0 for index in self.borrowed)

    @property
    def weighted(self) -> float:
        if self.ratio == 0:
            return 0.0
        return math.inf if self.weight == 0 else self.ratio / self.weight

    @property
    def rounded(self) -> int:
        """The value of `status.fairSharing.weightedShare`."""
        return UNLIMITED if self.weight == 0 and self.ratio else math.ceil(self.weighted)

    @property
    def rank(self) -> tuple[bool, float]:
        """Shares compare by this; one that borrows with weight zero is above all others."""
        if self.weight == 0 and self.ratio:
            return (True, self.ratio)
        return (False, self.weighted)


NEGATIVE = DominantResourceShare(weight=1.0, ratio=-1.0)


def share(
    tree: quota_tree.QuotaTree, node: quota_tree.QuotaNode, additional: Mapping[quota_tree.Index, int] | None = None
) -> DominantResourceShare:
    """The share of a cluster queue or cohort within its parent; zero for a root."""
    if node.parent is None:
        return DominantResourceShare(weight=node.weight)
    names = tree.flavor_resources.names
    borrowed: dict[values.ResourceName, int] = {}
    borrowed_indices = []
    for index, own in node.subtree.items():
        used = node.usage.get(index, 0)
        if additional is not None:
            used = add(used, additional.get(index, 0))
        if used > own:
            resource = names[index].resource
            borrowed[resource] = add(borrowed.get(resource, 0), sub(used, own))
            borrowed_indices.append(index)
    if not borrowed:
        return DominantResourceShare(weight=node.weight)
    lendable = _lendable(tree, node.parent)
    ratio, dominant = 0.0, ""
    for resource in sorted(borrowed):
        if lendable.get(resource, 0) > 0:
            resource_ratio = float(borrowed[resource]) * _PER_MILLE / float(lendable[resource])
            if resource_ratio > ratio:
                ratio, dominant = resource_ratio, resource
    return DominantResourceShare(
        weight=node.weight, ratio=ratio, dominant_resource=dominant, borrowed=frozenset(borrowed_indices)
    )


def _lendable(tree: quota_tree.QuotaTree, node: quota_tree.QuotaNode) -> dict[values.ResourceName, int]:
    if not node.lendable:
        for index in node.root.subtree:
            resource = tree.flavor_resources.names[index].resource
            potential = quota_tree.potential_available(node, index)
            node.lendable[resource] = add(node.lendable.get(resource, 0), potential)
    return node.lendable


def shares_to_root(
    tree: quota_tree.QuotaTree, cluster_queue: quota_tree.QuotaNode
) -> Iterable[tuple[quota_tree.QuotaNode, DominantResourceShare]]:
    """Every ancestor of a cluster queue, with the share of its child on the path."""
    node = cluster_queue
    while node.parent is not None:
        yield node.parent, share(tree, node)
        node = node.parent
