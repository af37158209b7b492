"""Balanced placement: domains get about the same number of slices, instead of filling some.

It looks for domains with one parent whose slices can be distributed with the largest minimum, the
threshold. Domains that cannot take the threshold are not used. `selection` calls it for preferred
levels if the policy asks for it, and falls back to best fit.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pykueue.engine.topology.counting import Amounts, CapacityCount, DomainCounts
from pykueue.engine.topology.domains import DomainNode
from pykueue.engine.topology.placement_request import ResolvedRequest

Sort = Callable[[Sequence[DomainNode]], list[DomainNode]]


class Demand(NamedTuple):
    """What is placed, and how domains are sorted by capacity."""

    slices: int
    leaders: int
    sort: Sort
    sort_with_leader: Sort


class _Greedy(NamedTuple):
    """Filling the largest domains first: how many are used, and the last ones of them."""

    domains: int
    last_with_leader: DomainNode | None
    last: DomainNode | None


class _Candidate(NamedTuple):
    domains: Sequence[DomainNode]
    threshold: int
    used: int
    counts: list[tuple[DomainNode, Amounts]]
    """The counts of all domains below after pruning."""


class BalancedPlacement:
    def __init__(self, count: CapacityCount, resolved: ResolvedRequest, demand: Demand) -> None:
        self._count = count
        self._request = resolved
        self._demand = demand

    def choose(self) -> tuple[int, list[DomainNode]] | None:
        """The level and the domains, with the counts that they get; None without a balance."""
        best = self._best()
        if best is None:
            return None
        for domain, amounts in best.counts:
            self._count.edit(domain).set(amounts)
        level, domains = self._request.level, list(best.domains)
        if level < self._request.slice_level:
            chosen = self._smallest_set(domains, self._capacity_and_entropy)
            if chosen is None:
                return None
            level, domains = level + 1, [child for domain in chosen for child in domain.children]
        placed = self._place(domains, best.threshold)
        return None if placed is None else (level, placed)

    # The best group of siblings.

    def _best(self) -> _Candidate | None:
        best: _Candidate | None = None
        for siblings in self._groups():
            candidate = self._candidate(siblings, 0 if best is None else best.threshold)
            if candidate is None or not candidate.threshold:
                continue
            is_better = best is None or (-candidate.threshold, candidate.used) < (-best.threshold, best.used)
            best = candidate if is_better else best
        return best

    def _groups(self) -> list[Sequence[DomainNode]]:
        tree, level = self._count.tree, self._request.level
        if not level:
            return [tree.at_level[0]]
        return [domain.children for domain in sorted(tree.at_level[level - 1], key=_values)]

    def _candidate(self, siblings: Sequence[DomainNode], least: int) -> _Candidate | None:
        below = siblings
        if self._request.level < self._request.slice_level:
            below = [child for domain in siblings for child in domain.children]
        greedy = self._greedy(below)
        if greedy is None:
            return None
        threshold = self._threshold(greedy)
        reserving = threshold
        if self._demand.leaders and greedy.last is not None:
            reserving = min(threshold, self._count[greedy.last].slices_with_leader)
        if threshold < least:
            return None
        candidate = self._pruned(siblings, threshold)
        if candidate is None and reserving < threshold and reserving > 0 and reserving >= least:
            candidate = self._pruned(siblings, reserving)
        return candidate

    def _threshold(self, greedy: _Greedy) -> int:
        threshold = self._demand.slices // greedy.domains if greedy.domains else 0
        if greedy.last_with_leader is not None:
            threshold = min(threshold, self._count[greedy.last_with_leader].slices_with_leader)
        if greedy.last is not None:
            threshold = min(threshold, self._count[greedy.last].slices)
        return threshold

    def _greedy(self, domains: Sequence[DomainNode]) -> _Greedy | None:
        """The result of filling the largest domains first; None if the pods do not fit."""
        slices, leaders, used = self._demand.slices, self._demand.leaders, 0
        last_with_leader = last = None
        rest = list(domains)
        if leaders:
            rest = self._demand.sort_with_leader(domains)
            while leaders > 0 and rest and self._count[rest[0]].leaders:
                last_with_leader = rest.pop(0)
                leaders -= self._count[last_with_leader].leaders
                slices -= self._count[last_with_leader].slices_with_leader
                used += 1
        if leaders > 0:
            return None
        for domain in self._demand.sort(rest):
            if slices <= 0 or not self._count[domain].slices:
                break
            last = domain
            slices -= self._count[domain].slices
            used += 1
        return None if slices > 0 else _Greedy(used, last_with_leader, last)

    # Pruning domains below the threshold.

    def _pruned(self, siblings: Sequence[DomainNode], threshold: int) -> _Candidate | None:
        """The candidate without domains that cannot take the threshold; the counts stay."""
        position = self._count.edits
        for domain in siblings:
            for child in domain.children:
                self._prune(child, threshold)
        for domain in siblings:
            self._count.sum_again(domain)
            self._prune(domain, threshold)
        greedy = self._greedy(siblings)
        counts = [(domain, self._count[domain].amounts) for top in siblings for domain in _subtree(top)]
        self._count.restore(position)
        return None if greedy is None else _Candidate(siblings, threshold, greedy.domains, counts)

    def _prune(self, domain: DomainNode, threshold: int) -> None:
        counts = self._count[domain]
        if counts.slices < threshold:
            self._change(domain, lambda edited: edited.set((0, 0, 0, 0, 0)))
        elif self._demand.leaders and counts.leaders and counts.slices_with_leader < threshold:
            self._change(domain, lambda edited: edited.set((edited.pods, edited.slices, 0, 0, 0)))

    def _change(self, top: DomainNode, change: Callable[[DomainCounts], None]) -> None:
        for domain in _subtree(top):
            change(self._count.edit(domain))

    # Choosing and filling domains.

    def _smallest_set(
        self, domains: Sequence[DomainNode], key: Callable[[DomainNode], tuple[object, ...]]
    ) -> list[DomainNode] | None:
        """The domains with the least capacity of those sets that are as small as possible."""
        greedy = self._greedy(domains)
        if greedy is None:
            return None
        pods = self._demand.slices * self._request.slice_size
        reached: list[dict[tuple[int, int], tuple[DomainNode, ...]]] = [{} for _ in range(greedy.domains + 1)]
        reached[0][self._demand.leaders, pods] = ()
        for domain in sorted(domains, key=key):
            counts = self._count[domain]
            for used in range(greedy.domains, 0, -1):
                for (leaders, missing), before in sorted(reached[used - 1].items(), key=lambda item: item[0]):
                    if leaders <= 0 and missing <= 0:
                        continue
                    if leaders > 0 and counts.leaders:
                        state = (leaders - counts.leaders, missing - counts.pods_with_leader)
                        reached[used].setdefault(state, (*before, domain))
                    if counts.slices:
                        reached[used].setdefault((leaders, missing - counts.pods), (*before, domain))
        ends = {missing: chosen for (leaders, missing), chosen in reached[-1].items() if not leaders and missing <= 0}
        return list(ends[max(ends)]) if ends else None

    def _capacity_and_entropy(self, domain: DomainNode) -> tuple[object, ...]:
        counts = self._count[domain]
        return -counts.leaders, -counts.slices_with_leader, -self._entropy(domain.children), domain.values

    def _entropy(self, domains: Sequence[DomainNode]) -> float:
        pods = [self._count[domain].pods for domain in domains if self._count[domain].pods]
        total = sum(pods)
        entropy = 0.0
        for amount in pods:
            share = amount / total
            entropy += -share * math.log2(share)
        return entropy

    def _place(self, domains: Sequence[DomainNode], threshold: int) -> list[DomainNode] | None:
        """Give the threshold to every domain, and the rest to the first ones."""
        chosen = self._smallest_set(domains, _values)
        if chosen is None or self._demand.slices < len(chosen) * threshold:
            return None
        ordered = self._demand.sort_with_leader(chosen)
        extra, leaders = self._demand.slices - len(chosen) * threshold, self._demand.leaders
        size = self._request.slice_size
        for domain in ordered:
            counts = self._count.edit(domain)
            capacity = counts.slices_with_leader if leaders > 0 else counts.slices
            more = min(capacity - threshold, extra) if leaders > 0 or extra > 0 else 0
            has_leader = int(leaders > 0)
            leaders -= has_leader
            slices = threshold + more
            counts.set((slices * size, slices, has_leader, slices * size - has_leader, slices))
            extra -= more
        return None if extra > 0 or leaders > 0 else ordered


def _values(domain: DomainNode) -> tuple[object, ...]:
    return domain.values


def _subtree(domain: DomainNode) -> list[DomainNode]:
    return [domain, *(below for child in domain.children for below in _subtree(child))]
