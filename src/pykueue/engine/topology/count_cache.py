"""Counts of domains that are kept between placements of pods with the same requests.

A placement counts all leaves of a flavor; the next one like it counts only the leaves that changed
in between. Usage, also that of trials, and capacity are logged leaf by leaf, and each count
remembers how much of the log it has read. Called by `cache`.
"""

import copy

from pykueue.engine.topology.counting import CapacityCount, FlavorCapacity
from pykueue.engine.topology.domains import DomainNode
from pykueue.engine.topology.placement_request import PlacementRequest, ResolvedRequest
from pykueue.engine.values import LabelRequirement, PreferredTerm, ResourceName, Toleration

MAX_COUNTS = 32
"""Kinds of requests whose counts are kept; the one that was added first is dropped."""
MAX_CHANGES = 20_000

_CountKey = tuple[
    tuple[tuple[ResourceName, int], ...],
    tuple[Toleration, ...],
    tuple[tuple[str, str], ...],
    tuple[tuple[LabelRequirement, ...], ...] | None,
    tuple[PreferredTerm, ...],
    tuple[tuple[ResourceName, int], ...] | None,
    tuple[int, int, tuple[tuple[int, int], ...]],
    bool,
]


class CountCache:
    def __init__(self, capacity: FlavorCapacity) -> None:
        self._capacity = capacity
        self._counts: dict[_CountKey, tuple[CapacityCount, int]] = {}
        """Counts by request, and how much of the log of changes they have read."""
        self._usage_changes: list[DomainNode] = []
        self._capacity_changes: list[DomainNode] = []
        """The changes that matter for empty nodes, too."""

    def __deepcopy__(self, memo: dict[int, object]) -> "CountCache":
        """A fork starts without counts."""
        clone = memo[id(self)] = CountCache.__new__(CountCache)
        clone._capacity = copy.deepcopy(self._capacity, memo)  # noqa: SLF001 - a copy of itself
        clone.clear()
        return clone

    def clear(self) -> None:
        self._counts = {}
        self._usage_changes = []
        self._capacity_changes = []

    def usage_changed(self, leaf: DomainNode) -> None:
        if self._counts:
            self._log(self._usage_changes, leaf)

    def capacity_changed(self, leaf: DomainNode) -> None:
        self.usage_changed(leaf)
        if self._counts:
            self._log(self._capacity_changes, leaf)

    def _log(self, changes: list[DomainNode], leaf: DomainNode) -> None:
        changes.append(leaf)
        if len(changes) > MAX_CHANGES:
            self.clear()

    def count(
        self,
        request: PlacementRequest,
        resolved: ResolvedRequest,
        *,
        leader: PlacementRequest | None,
        as_if_empty: bool,
    ) -> CapacityCount:
        """The up-to-date count for a request."""
        key = _key(request, resolved, leader, as_if_empty=as_if_empty)
        changes = self._capacity_changes if as_if_empty else self._usage_changes
        count, position = self._counts.get(key, (None, 0))
        if count is None:
            count = CapacityCount(
                self._capacity, request, resolved, leader=leader, assumed={}, within=(), as_if_empty=as_if_empty
            )
            if len(self._counts) >= MAX_COUNTS:
                del self._counts[next(iter(self._counts))]
        elif position < len(changes):
            count.recount({leaf.index: leaf for leaf in changes[position:]}.values())
        self._counts[key] = (count, len(changes))
        return count


def _key(
    request: PlacementRequest, resolved: ResolvedRequest, leader: PlacementRequest | None, *, as_if_empty: bool
) -> _CountKey:
    """Everything that a count depends on, beside the nodes."""
    return (
        tuple(sorted(request.pod_requests.items())),
        request.tolerations,
        tuple(sorted(request.node_selector.items())),
        request.affinity_terms,
        request.preferred_terms,
        None if leader is None else tuple(sorted(leader.pod_requests.items())),
        (resolved.slice_level, resolved.slice_size, tuple(resolved.inner_sizes.items())),
        as_if_empty,
    )
