"""What is to be placed, and what that means on a given tree: from the wish of a pod set to levels and sizes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pykueue.engine import values
from pykueue.engine.topology.domains import DomainTree
from pykueue.engine.values import Requirement, ResourceName, SliceLayer, Toleration, TopologyRequest, Value

Requests = Mapping[ResourceName, int]


class Unplaceable(Exception):  # noqa: N818 - an answer, in words for the user, not a fault
    """There is no place; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest(Value):
    """Pods of one pod set that need a place in one flavor."""

    name: values.PodSetName
    count: int
    pod_requests: Requests
    """Of one pod, as its containers ask; that it counts as one pod is understood."""
    request: TopologyRequest | None = None
    tolerations: tuple[Toleration, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity_terms: tuple[tuple[Requirement, ...], ...] | None = None

    @property
    def is_implied(self) -> bool:
        """It asks for nothing, and is placed because its queue knows no other way."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape(Value):
    """A demand read against a tree."""

    level: int
    """Where the search begins."""
    slice_level: int
    slice_size: int
    inner_sizes: Mapping[int, int]
    """Below the slices: pods come to a domain of this level in multiples of that."""
    layers: tuple[SliceLayer, ...]
    """All layers, when there are several."""
    required: bool
    unconstrained: bool


def shape(tree: DomainTree, demand: PlacementRequest) -> Shape:
    slice_size = slice_size_of(demand)
    key = level_key(tree, demand)
    if key is None:
        raise Unplaceable("topology level not specified")
    level = tree.level(key)
    if level is None:
        raise Unplaceable(f"no requested topology level: {key}")
    slice_key = demand.slices[0].topology if demand.slices else tree.levels[-1]
    slice_level = tree.level(slice_key)
    if slice_level is None:
        raise Unplaceable(f"no requested topology level for slices: {slice_key}")
    if level > slice_level:
        raise Unplaceable(f"podset slice topology {slice_key} is above the podset topology {key}")
    inner_sizes = _inner_sizes(tree, demand.slices[1:], slice_level, slice_size)
    return Shape(
        level=level,
        slice_level=slice_level,
        slice_size=slice_size,
        inner_sizes=inner_sizes,
        layers=demand.slices if inner_sizes else (),
        required=demand.is_required,
        unconstrained=demand.is_unconstrained,
    )


def slice_size_of(demand: PlacementRequest) -> int:
    if not demand.slices:
        return 1
    if demand.slices[0].size <= 0:
        raise Unplaceable("slice topology requested, but slice size not provided")
    return demand.slices[0].size


def level_key(tree: DomainTree, demand: PlacementRequest) -> str | None:
    request = demand.request
    if request is not None and request.required is not None:
        return request.required
    if request is not None and request.preferred is not None:
        return request.preferred
    if demand.is_slice_only:
        return tree.levels[0]
    return tree.levels[-1] if demand.is_unconstrained else None


def has_levels(levels: tuple[str, ...], request: TopologyRequest) -> bool:
    """Whether a topology knows every level that an explicit request names."""
    named = [request.required or request.preferred, *(layer.topology for layer in request.slices)]
    if named[0] is None and not request.slices and not request.unconstrained:
        return False
    return all(key in levels for key in named if key is not None)


def _inner_sizes(tree: DomainTree, layers: tuple[SliceLayer, ...], level: int, size: int) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for layer in layers:
        inner = tree.level(layer.topology)
        if inner is None:
            raise Unplaceable(f"no requested topology level for additional slice layer: {layer.topology}")
        if inner <= level:
            raise Unplaceable(
                f"additional slice layer topology {layer.topology} must be at a lower level than {tree.levels[level]}"
            )
        if size % layer.size:
            raise Unplaceable(f"additional slice layer size {layer.size} must evenly divide parent layer size {size}")
        sizes |= dict.fromkeys(range(level + 1, inner + 1), layer.size)
        level, size = inner, layer.size
    return sizes
