"""Second half of a placement: select domains at the requested level, then distribute the pods
among their leaves.

The selection prefers few domains, and among sufficient domains the one with the least capacity
(best fit). An unconstrained request fills the domains with the least free capacity first, so that
empty domains stay empty. Called by `placement`.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from pykueue.engine import reasons
from pykueue.engine.topology import balanced
from pykueue.engine.topology.counting import CapacityCount, DomainCounts, LeafAssignment
from pykueue.engine.topology.domains import DomainNode
from pykueue.engine.topology.placement_request import ResolvedRequest, Unplaceable


class PlacementUnit(NamedTuple):
    """Pods are distributed in whole slices, or one by one."""

    size: int
    is_slice: bool

    def amount(self, counts: DomainCounts) -> int:
        return counts.slices if self.is_slice else counts.pods

    def amount_with_leader(self, counts: DomainCounts) -> int:
        return counts.slices_with_leader if self.is_slice else counts.pods_with_leader

    def assign(self, counts: DomainCounts, amount: int) -> None:
        if self.is_slice:
            counts.slices = amount
        counts.pods = amount * self.size


def select(
    count: CapacityCount, resolved: ResolvedRequest, *, topology: str, pods: int, leaders: int
) -> Sequence[LeafAssignment]:
    """The leaves for the pods in order; the same selection as before is not computed again."""
    key = (resolved.level, resolved.required, resolved.unconstrained, resolved.layers, pods, leaders, topology)
    selected = count.selected.get(key)
    if selected is None:
        try:
            assignments = DomainSelector(count, resolved, topology=topology, pods=pods, leaders=leaders).assignments()
            selected = sorted(assignments, key=lambda assigned: assigned.leaf.values)
        except Unplaceable as unplaceable:
            selected = Unplaceable(unplaceable.reason)
        finally:
            count.restore()
        count.selected[key] = selected
    if isinstance(selected, Unplaceable):
        raise Unplaceable(selected.reason)
    return selected


class DomainSelector:
    def __init__(
        self, count: CapacityCount, resolved: ResolvedRequest, *, topology: str, pods: int, leaders: int
    ) -> None:
        self._count = count
        self._tree = count.tree
        self._request = resolved
        self._topology = topology
        self._pods = pods
        self._leaders = leaders
        self._slices = pods // resolved.slice_size
        self._slice = PlacementUnit(resolved.slice_size, is_slice=True)

    def assignments(self) -> list[LeafAssignment]:
        balanced = self._balanced() if self._request.balanced else None
        level, chosen = balanced or self._choose(self._request.level)
        chosen = self._distribute(chosen, self._pods, self._leaders, self._slice)
        lowest = len(self._tree.levels) - 1
        while balanced is None and level < min(lowest, self._request.slice_level):
            below = self._sorted(child for domain in chosen for child in domain.children)
            chosen = self._distribute(below, self._pods, self._leaders, self._slice)
            level += 1
        for upper in range(level, lowest):
            unit = self._unit_below(upper)
            chosen = [leaf for domain in chosen for leaf in self._distribute_below(domain, unit)]
        return [LeafAssignment(leaf, self._count[leaf].pods, self._count[leaf].leaders) for leaf in chosen]

    def _balanced(self) -> tuple[int, list[DomainNode]] | None:
        demand = balanced.Demand(self._slices, self._leaders, self._sorted, self._sorted_with_leader)
        chosen = balanced.BalancedPlacement(self._count, self._request, demand).choose()
        if chosen is None:
            self._count.restore()
        return chosen

    # Distributing pods downwards.

    def _unit_below(self, level: int) -> PlacementUnit:
        if level < self._request.slice_level:
            return PlacementUnit(self._request.slice_size, is_slice=self._request.slice_size > 1)
        size = self._request.inner_sizes.get(level + 1, 1)
        return PlacementUnit(size, is_slice=size > 1)

    def _distribute_below(self, domain: DomainNode, unit: PlacementUnit) -> list[DomainNode]:
        """Distribute what a domain got among its children."""
        below = self._sorted(domain.children)
        if unit.is_slice:
            for child in (self._count.edit(child) for child in below):
                child.slices = child.pods // unit.size
                child.slices_with_leader = child.pods_with_leader // unit.size
        counts = self._count[domain]
        return self._distribute(below, counts.pods, counts.leaders, unit)

    def _distribute(self, domains: list[DomainNode], pods: int, leaders: int, unit: PlacementUnit) -> list[DomainNode]:
        """Fill domains in order.

        The last part goes to the sufficient domain with the least capacity.
        """
        domains = self._leader_first(domains, pods // unit.size, leaders, unit)
        missing = pods // unit.size
        chosen = []
        for position, first in enumerate(domains):
            with_leader = leaders > 0
            amount_of = unit.amount_with_leader if with_leader else unit.amount
            domain = first
            if not self._is_least_free_first and self._suffices(first, missing, leaders, amount_of):
                domain = self._tightest(domains[position:], missing, leaders, amount_of)
            counts = self._count.edit(domain)
            chosen.append(domain)
            if self._suffices(domain, missing, leaders, amount_of):
                counts.leaders = leaders
                unit.assign(counts, missing)
                return chosen
            counts.leaders = min(counts.leaders, leaders)
            amount = min(amount_of(counts), missing) if with_leader else amount_of(counts)
            unit.assign(counts, amount)
            leaders -= counts.leaders
            missing -= amount
        raise AssertionError(f"{missing} of {pods} pods counted but not placed in {self._topology}")

    def _suffices(
        self, domain: DomainNode, amount: int, leaders: int, amount_of: Callable[[DomainCounts], int]
    ) -> bool:
        counts = self._count[domain]
        return amount_of(counts) >= amount and counts.leaders >= leaders

    def _tightest(
        self, domains: Sequence[DomainNode], amount: int, leaders: int, amount_of: Callable[[DomainCounts], int]
    ) -> DomainNode:
        domains = self._first_tier(domains)
        sufficient = [domain for domain in domains if self._suffices(domain, amount, leaders, amount_of)]
        return min(sufficient, key=lambda domain: amount_of(self._count[domain]), default=domains[0])

    def _first_tier(self, domains: Sequence[DomainNode]) -> Sequence[DomainNode]:
        """The first domains, as far as they match the preferred node affinity equally well."""
        scores = self._count.scores
        if scores is None or not domains:
            return domains
        score = scores[domains[0].index]
        return list(itertools.takewhile(lambda domain: scores[domain.index] == score, domains))

    def _leader_first(
        self, domains: list[DomainNode], needed: int, leaders: int, unit: PlacementUnit
    ) -> list[DomainNode]:
        """Start with a domain in which the leader fits and leaves enough capacity for the rest."""
        if not leaders:
            return domains
        capacity = sum(unit.amount(self._count[domain]) for domain in domains)
        for domain in domains:
            counts = self._count[domain]
            cost = unit.amount(counts) - unit.amount_with_leader(counts)
            if counts.leaders >= leaders and capacity - cost >= needed:
                return [domain, *(other for other in domains if other is not domain)]
        return domains

    # Selecting domains.

    @property
    def _is_least_free_first(self) -> bool:
        return self._request.least_free_first

    def _choose(self, level: int) -> tuple[int, list[DomainNode]]:
        """One sufficient domain.

        Otherwise try the level above if the level is preferred, and then several domains.
        """
        if not self._tree.at_level[level]:
            raise Unplaceable(reasons.DomainsMissing(level=self._tree.levels[level]))
        ordered = self._sorted_with_leader(self._tree.at_level[level])
        amount_of = self._slice.amount_with_leader
        first = next(
            (n for n, domain in enumerate(ordered) if self._suffices(domain, self._slices, self._leaders, amount_of)),
            None,
        )
        if first is not None and self._is_least_free_first:
            return level, [ordered[first]]
        if first is not None and (not first or self._request.required):
            return level, [self._tightest(ordered[first:], self._slices, self._leaders, amount_of)]
        if self._request.required:
            raise self._failure(self._count[ordered[0]].slices, level)
        if level and not self._request.unconstrained:
            return self._choose(level - 1)
        return level, self._several(ordered, level)

    def _several(self, ordered: list[DomainNode], level: int) -> list[DomainNode]:
        chosen: list[DomainNode] = []
        missing, leaders = self._slices, self._leaders
        ordered = self._leader_first(ordered, missing, leaders, self._slice)
        position = 0
        while leaders > 0 and position < len(ordered) and self._count[ordered[position]].leaders:
            domain = self._next_domain(ordered[position:], missing, leaders, self._slice.amount_with_leader)
            chosen.append(domain)
            leaders -= self._count[domain].leaders
            missing -= self._count[domain].slices_with_leader
            position += 1
        if leaders > 0:
            raise self._failure(self._leaders - leaders, level)
        rest = self._sorted(ordered[position:])
        for start in range(len(rest)):
            if missing <= 0:
                break
            domain = self._next_domain(rest[start:], missing, 0, self._slice.amount)
            chosen.append(domain)
            missing -= self._count[domain].slices
        if missing > 0:
            raise self._failure(self._slices - missing, level)
        return chosen

    def _next_domain(
        self, domains: Sequence[DomainNode], missing: int, leaders: int, amount_of: Callable[[DomainCounts], int]
    ) -> DomainNode:
        """The next domain; if it suffices, the sufficient one with the least capacity."""
        if self._is_least_free_first or amount_of(self._count[domains[0]]) < missing:
            return domains[0]
        return self._tightest(domains, missing, leaders, amount_of)

    def _sorted(self, domains: Iterable[DomainNode]) -> list[DomainNode]:
        sign = 1 if self._is_least_free_first else -1

        scores = self._count.scores

        def key(domain: DomainNode) -> tuple[int, int, int, tuple[str, ...]]:
            counts = self._count[domain]
            score = 0 if scores is None else scores[domain.index]
            return -score, sign * counts.slices, counts.pods, domain.values

        return sorted(domains, key=key)

    def _sorted_with_leader(self, domains: Sequence[DomainNode]) -> list[DomainNode]:
        sign = 1 if self._is_least_free_first else -1

        scores = self._count.scores

        def key(domain: DomainNode) -> tuple[int, int, int, int, tuple[str, ...]]:
            counts = self._count[domain]
            score = 0 if scores is None else scores[domain.index]
            return -counts.leaders, -score, sign * counts.slices_with_leader, counts.pods_with_leader, domain.values

        return sorted(domains, key=key)

    # Failures.

    def _failure(self, fitting: int, level: int) -> Unplaceable:
        if self._request.layers:
            return self._failure_in_layers(level)
        return Unplaceable(
            reasons.DomainsShort(
                topology=self._topology,
                fitting=fitting,
                requested=self._slices,
                of_slices=self._request.slice_size != 1,
                exclusions=self._count.exclusions(),
            )
        )

    def _failure_in_layers(self, level: int) -> Unplaceable:
        best = min(self._tree.at_level[level], key=lambda domain: (-self._count[domain].slices, domain.id))
        layers = []
        for layer in self._request.layers:
            layer_level = self._tree.level(layer.topology)
            assert layer_level is not None
            fitting = self._slices_below(best, layer_level, layer.size)
            layers.append(reasons.LayerFit(layer.topology, fitting, self._pods // layer.size))
        return Unplaceable(
            reasons.SliceLayersShort(topology=self._topology, layers=tuple(layers), exclusions=self._count.exclusions())
        )

    def _slices_below(self, domain: DomainNode, level: int, size: int) -> int:
        if len(domain.values) - 1 == level:
            return self._count[domain].pods // size
        return sum(self._slices_below(child, level, size) for child in domain.children)
