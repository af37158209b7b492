"""Placement requests: which pods must be placed, and what their request means on a given tree of
domains.

`workload_placement` makes them from pod sets, and `placement` resolves them to levels and sizes.
"""

from collections.abc import Mapping

import msgspec

from pykueue.engine import reasons, values
from pykueue.engine.policy import TopologyPolicy
from pykueue.engine.topology.domains import DomainTree
from pykueue.engine.values import (
    LabelRequirement,
    ResourceName,
    SliceLayer,
    Toleration,
    TopologyAssignment,
    TopologyRequest,
    Value,
)

Requests = Mapping[ResourceName, int]


class Unplaceable(Exception):  # noqa: N818 - a result of the search, not an error
    """The pods cannot be placed, for this reason."""

    def __init__(self, reason: reasons.PlacementReason) -> None:
        super().__init__(reason)
        self.reason = reason


class PlacementRequest(Value, frozen=True, kw_only=True):
    """Pods of one pod set that need topology domains in one flavor."""

    name: values.PodSetName
    count: int
    pod_requests: Requests
    """Requests of one pod, without the one unit of `pods` that every pod uses."""
    request: TopologyRequest | None = None
    tolerations: tuple[Toleration, ...] = ()
    node_selector: Mapping[str, str] = msgspec.field(default_factory=dict)
    affinity_terms: tuple[tuple[LabelRequirement, ...], ...] | None = None
    preferred_terms: tuple[values.PreferredTerm, ...] = ()
    earlier: TopologyAssignment | None = None
    """Where the pods of the earlier slice of an elastic job run. They stay there."""

    @property
    def added(self) -> int:
        """The pods beyond those of the earlier slice."""
        return self.count - (0 if self.earlier is None else sum(domain.pods for domain in self.earlier.domains))

    @property
    def is_implied(self) -> bool:
        """The pod set requests no topology, but all flavors of its cluster queue have one."""
        return self.request is None or not self.request.is_explicit

    @property
    def slices(self) -> tuple[SliceLayer, ...]:
        return () if self.request is None else self.request.slices

    @property
    def is_required(self) -> bool:
        return self.request is not None and self.request.required is not None

    @property
    def is_slice_only(self) -> bool:
        request = self.request
        return request is not None and request.required is None and request.preferred is None and bool(request.slices)

    @property
    def is_unconstrained(self) -> bool:
        return self.is_implied or self.is_slice_only or (self.request is not None and bool(self.request.unconstrained))


class ResolvedRequest(Value, frozen=True, kw_only=True):
    """A placement request in terms of a tree of domains."""

    level: int
    """The level at which the search starts."""
    slice_level: int
    slice_size: int
    inner_sizes: Mapping[int, int]
    """Below the slices: domains of this level take multiples of this number of pods."""
    layers: tuple[SliceLayer, ...]
    """All layers of slices, if there are several."""
    required: bool
    unconstrained: bool
    least_free_first: bool
    """Fill the domains with the least free capacity first, instead of using few domains."""
    balanced: bool
    """Use domains evenly if that is possible."""


def resolve(tree: DomainTree, request: PlacementRequest, policy: TopologyPolicy) -> ResolvedRequest:
    slice_size = slice_size_of(request)
    key = level_key(tree, request)
    if key is None:
        raise Unplaceable(reasons.LevelUnspecified())
    level = tree.level(key)
    if level is None:
        raise Unplaceable(reasons.LevelMissing(level=key))
    slice_key = request.slices[0].topology if request.slices else tree.levels[-1]
    slice_level = tree.level(slice_key)
    if slice_level is None:
        raise Unplaceable(reasons.SliceLevelMissing(level=slice_key))
    if level > slice_level:
        raise Unplaceable(reasons.SliceLevelTooHigh(slice_level=slice_key, level=key))
    inner_sizes = _inner_sizes(tree, request.slices[1:], slice_level, slice_size)
    return ResolvedRequest(
        level=level,
        slice_level=slice_level,
        slice_size=slice_size,
        inner_sizes=inner_sizes,
        layers=request.slices if inner_sizes else (),
        required=request.is_required,
        unconstrained=request.is_unconstrained,
        least_free_first=request.is_unconstrained and policy.mixed_profile,
        balanced=policy.balanced_placement and not request.is_required and not request.is_unconstrained,
    )


def slice_size_of(request: PlacementRequest) -> int:
    if not request.slices:
        return 1
    if request.slices[0].size <= 0:
        raise Unplaceable(reasons.SliceSizeUnspecified())
    return request.slices[0].size


def level_key(tree: DomainTree, request: PlacementRequest) -> str | None:
    topology = request.request
    if topology is not None and topology.required is not None:
        return topology.required
    if topology is not None and topology.preferred is not None:
        return topology.preferred
    if request.is_slice_only:
        return tree.levels[0]
    return tree.levels[-1] if request.is_unconstrained else None


def has_levels(levels: tuple[str, ...], request: TopologyRequest) -> bool:
    """Whether a topology has every level that an explicit request names."""
    named = [request.required or request.preferred, *(layer.topology for layer in request.slices)]
    if named[0] is None and not request.slices and not request.unconstrained:
        return False
    return all(key in levels for key in named if key is not None)


def _inner_sizes(tree: DomainTree, layers: tuple[SliceLayer, ...], level: int, size: int) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for layer in layers:
        inner = tree.level(layer.topology)
        if inner is None:
            raise Unplaceable(reasons.SliceLayerMissing(level=layer.topology))
        if inner <= level:
            raise Unplaceable(reasons.SliceLayerTooHigh(level=layer.topology, parent_level=tree.levels[level]))
        if size % layer.size:
            raise Unplaceable(reasons.SliceLayerUneven(size=layer.size, parent_size=size))
        sizes |= dict.fromkeys(range(level + 1, inner + 1), layer.size)
        level, size = inner, layer.size
    return sizes
