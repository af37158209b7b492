"""Second half of a placement: choose domains at the requested level, then go down and share the pods out among nodes.

Few domains are better than many, and a domain that just suffices is better than one with room to spare (best fit). Where
the place does not matter, the fullest domains are filled first, so that empty ones stay whole (least free capacity).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from pykueue.engine.topology.counting import Count, Tally
from pykueue.engine.topology.demand import Shape, Unplaceable
from pykueue.engine.topology.domains import Domain


class Unit(NamedTuple):
    """What is shared out: whole slices, or single pods."""

    size: int
    is_slice: bool

    def amount(self, tally: Tally) -> int:
        return tally.slices if self.is_slice else tally.pods

    def amount_with_leader(self, tally: Tally) -> int:
        return tally.slices_with_leader if self.is_slice else tally.pods_with_leader

    def give(self, tally: Tally, amount: int) -> None:
        if self.is_slice:
            tally.slices = amount
        tally.pods = amount * self.size


class Share(NamedTuple):
    """How many pods and leaders a leaf was given."""

    leaf: Domain
    pods: int
    leaders: int


class Chooser:
    def __init__(self, count: Count, shape: Shape, *, topology: str, pods: int, leaders: int) -> None:
        self._count = count
        self._tree = count.tree
        self._shape = shape
        self._topology = topology
        self._pods = pods
        self._leaders = leaders
        self._slices = pods // shape.slice_size
        self._slice = Unit(shape.slice_size, is_slice=True)

    def shares(self) -> list[Share]:
        level, chosen = self._choose(self._shape.level)
        chosen = self._share_out(chosen, self._pods, self._leaders, self._slice)
        lowest = len(self._tree.levels) - 1
        while level < min(lowest, self._shape.slice_level):
            below = self._sorted(child for domain in chosen for child in domain.children)
            chosen = self._share_out(below, self._pods, self._leaders, self._slice)
            level += 1
        for each in range(level, lowest):
            unit = self._unit_below(each)
            chosen = [leaf for domain in chosen for leaf in self._share_out_below(domain, unit)]
        return [Share(leaf, self._count[leaf].pods, self._count[leaf].leaders) for leaf in chosen]

    # Going down.

    def _unit_below(self, level: int) -> Unit:
        size = self._shape.inner_sizes.get(level + 1, 1)
        return Unit(size, is_slice=size > 1)

    def _share_out_below(self, domain: Domain, unit: Unit) -> list[Domain]:
        """Within one parent, what it was given."""
        below = self._sorted(domain.children)
        if unit.is_slice:
            for tally in (self._count[child] for child in below):
                tally.slices = tally.pods // unit.size
                tally.slices_with_leader = tally.pods_with_leader // unit.size
        given = self._count[domain]
        return self._share_out(below, given.pods, given.leaders, unit)

    def _share_out(self, domains: list[Domain], pods: int, leaders: int, unit: Unit) -> list[Domain]:
        """Fill domains in order until the rest fits in one; of those that can hold it the tightest takes it."""
        domains = self._leader_first(domains, pods // unit.size, leaders, unit)
        missing = pods // unit.size
        chosen = []
        for position, first in enumerate(domains):
            with_leader = leaders > 0
            room_for = unit.amount_with_leader if with_leader else unit.amount
            domain = first
            if not self._fills_fullest and self._holds(first, missing, leaders, room_for):
                domain = self._tightest(domains[position:], missing, leaders, room_for)
            tally = self._count[domain]
            chosen.append(domain)
            if self._holds(domain, missing, leaders, room_for):
                tally.leaders = leaders
                unit.give(tally, missing)
                return chosen
            tally.leaders = min(tally.leaders, leaders)
            given = min(room_for(tally), missing) if with_leader else room_for(tally)
            unit.give(tally, given)
            leaders -= tally.leaders
            missing -= given
        raise AssertionError(f"{missing} of {pods} pods counted but not placed in {self._topology}")

    def _holds(self, domain: Domain, amount: int, leaders: int, room_for: Callable[[Tally], int]) -> bool:
        tally = self._count[domain]
        return room_for(tally) >= amount and tally.leaders >= leaders

    def _tightest(
        self, domains: Sequence[Domain], amount: int, leaders: int, room_for: Callable[[Tally], int]
    ) -> Domain:
        holding = [domain for domain in domains if self._holds(domain, amount, leaders, room_for)]
        return min(holding, key=lambda domain: room_for(self._count[domain]), default=domains[0])

    def _leader_first(self, domains: list[Domain], needed: int, leaders: int, unit: Unit) -> list[Domain]:
        """Begin where the leader fits and still leaves enough for the others."""
        if not leaders:
            return domains
        room = sum(unit.amount(self._count[domain]) for domain in domains)
        for domain in domains:
            tally = self._count[domain]
            cost = unit.amount(tally) - unit.amount_with_leader(tally)
            if tally.leaders >= leaders and room - cost >= needed:
                return [domain, *(other for other in domains if other is not domain)]
        return domains

    # Choosing the level.

    @property
    def _fills_fullest(self) -> bool:
        return self._shape.unconstrained

    def _choose(self, level: int) -> tuple[int, list[Domain]]:
        """One domain that holds all; else one level up when that is only preferred, else several domains."""
        if not self._tree.at_level[level]:
            raise Unplaceable(f"no topology domains at level: {self._tree.levels[level]}")
        ordered = self._sorted_with_leader(self._tree.at_level[level])
        room_for = self._slice.amount_with_leader
        holding = [domain for domain in ordered if self._holds(domain, self._slices, self._leaders, room_for)]
        if holding:
            if self._fills_fullest:
                return level, holding[:1]
            return level, [min(holding, key=lambda domain: room_for(self._count[domain]))]
        if self._shape.required:
            raise self._failure(self._count[ordered[0]].slices, level)
        if level and not self._shape.unconstrained:
            return self._choose(level - 1)
        return level, self._several(ordered, level)

    def _several(self, ordered: list[Domain], level: int) -> list[Domain]:
        chosen: list[Domain] = []
        missing, leaders = self._slices, self._leaders
        ordered = self._leader_first(ordered, missing, leaders, self._slice)
        position = 0
        while leaders > 0 and position < len(ordered) and self._count[ordered[position]].leaders:
            domain = self._last_or(ordered[position:], missing, leaders, self._slice.amount_with_leader)
            chosen.append(domain)
            leaders -= self._count[domain].leaders
            missing -= self._count[domain].slices_with_leader
            position += 1
        if leaders > 0:
            raise self._failure(self._leaders - leaders, level)
        rest = self._sorted(ordered[position:])
        for place in range(len(rest)):
            if missing <= 0:
                break
            domain = self._last_or(rest[place:], missing, 0, self._slice.amount)
            chosen.append(domain)
            missing -= self._count[domain].slices
        if missing > 0:
            raise self._failure(self._slices - missing, level)
        return chosen

    def _last_or(
        self, domains: Sequence[Domain], missing: int, leaders: int, room_for: Callable[[Tally], int]
    ) -> Domain:
        """The next in order, unless it would be the last: then the tightest."""
        if self._fills_fullest or room_for(self._count[domains[0]]) < missing:
            return domains[0]
        return self._tightest(domains, missing, leaders, room_for)

    def _sorted(self, domains: Iterable[Domain]) -> list[Domain]:
        sign = 1 if self._fills_fullest else -1

        def key(domain: Domain) -> tuple[int, int, tuple[str, ...]]:
            tally = self._count[domain]
            return sign * tally.slices, tally.pods, domain.values

        return sorted(domains, key=key)

    def _sorted_with_leader(self, domains: Sequence[Domain]) -> list[Domain]:
        sign = 1 if self._fills_fullest else -1

        def key(domain: Domain) -> tuple[int, int, int, tuple[str, ...]]:
            tally = self._count[domain]
            return -tally.leaders, sign * tally.slices_with_leader, tally.pods_with_leader, domain.values

        return sorted(domains, key=key)

    # Words of failure.

    def _failure(self, fitting: int, level: int) -> Unplaceable:
        if self._shape.layers:
            return self._failure_in_layers(level)
        unit = "pod" if self._shape.slice_size == 1 else "slice"
        found = "doesn't allow to fit any of" if not fitting else f"allows to fit only {fitting} out of"
        return Unplaceable(f'topology "{self._topology}" {found} {self._slices} {unit}(s){self._count.exclusions}')

    def _failure_in_layers(self, level: int) -> Unplaceable:
        """Layer by layer, how much the best domain could hold."""
        best = min(self._tree.at_level[level], key=lambda domain: (-self._count[domain].slices, domain.id))
        text = f'topology "{self._topology}" doesn\'t allow to fit'
        for layer in self._shape.layers:
            target = self._tree.level(layer.topology)
            assert target is not None
            fitting = self._slices_below(best, target, layer.size)
            text += f"; {fitting}/{self._pods // layer.size} slice(s) fit on level {layer.topology}"
        return Unplaceable(f"{text}{self._count.exclusions}")

    def _slices_below(self, domain: Domain, level: int, size: int) -> int:
        if len(domain.values) - 1 == level:
            return self._count[domain].pods // size
        return sum(self._slices_below(child, level, size) for child in domain.children)
