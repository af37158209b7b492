"""Replacing a failed node in a topology assignment: which pods move, and into which domain."""

from msgspec import structs

from pykueue.engine import reasons
from pykueue.engine.topology import placement_request
from pykueue.engine.topology.domains import DomainId, DomainTree
from pykueue.engine.topology.placement_request import PlacementRequest, Unplaceable
from pykueue.engine.values import SliceLayer, TopologyAssignment, TopologyDomain


def without_node(assignment: TopologyAssignment, node: str) -> tuple[TopologyAssignment, int]:
    """The assignment without the node, and how many pods were on the node."""
    remaining = tuple(domain for domain in assignment.domains if domain.values[-1] != node)
    missing = sum(domain.pods for domain in assignment.domains if domain.values[-1] == node)
    return structs.replace(assignment, domains=remaining), missing


def check_not_stale(tree: DomainTree, remaining: TopologyAssignment) -> None:
    for domain in remaining.domains:
        if domain.values not in tree.leaves:
            raise Unplaceable(reasons.DomainStale(domain=domain.values[0]))


def required_domain(
    tree: DomainTree, request: PlacementRequest, remaining: TopologyAssignment, missing: int
) -> DomainId:
    """The domain in which the replacement must be; empty if it may be anywhere.

    It is the domain of the slice that lost pods, or the domain of the required level.
    """
    key = placement_request.level_key(tree, request)
    level = None if key is None else tree.level(key)
    if level is None or not remaining.domains:
        return ()
    if request.slices and missing % placement_request.slice_size_of(request):
        layer = _incomplete_layer(request, missing)
        return _incomplete_domain(tree, remaining, missing, layer)
    if not request.is_required:
        return ()
    return tree.leaves[remaining.domains[0].values].ancestor(level).id


def reduced(request: PlacementRequest, missing: int, *, confined: bool) -> PlacementRequest:
    """The request for the missing pods only.

    Inside an incomplete slice, only an inner layer of which whole slices are missing still
    applies.
    """
    if not (confined and request.slices and request.request and missing % placement_request.slice_size_of(request)):
        return structs.replace(request, count=missing)
    whole = next((layer for layer in reversed(request.slices) if missing % layer.size == 0), None)
    topology = structs.replace(request.request, slices=() if whole is None else (whole,))
    return structs.replace(request, count=missing, request=topology)


def truncated(assignment: TopologyAssignment, count: int) -> TopologyAssignment:
    """The first `count` pods of an assignment."""
    domains: list[TopologyDomain] = []
    for domain in assignment.domains:
        if count <= 0:
            break
        domains.append(TopologyDomain(domain.values, min(domain.pods, count)))
        count -= domain.pods
    return structs.replace(assignment, domains=tuple(domains))


def merged(tree: DomainTree, remaining: TopologyAssignment, moved: TopologyAssignment) -> TopologyAssignment:
    counts: dict[DomainId, int] = {}
    for domain in (*moved.domains, *remaining.domains):
        counts[domain.values] = counts.get(domain.values, 0) + domain.pods
    ordered = sorted(counts, key=lambda values: tree.leaves[values].values)
    return TopologyAssignment(
        levels=moved.levels, domains=tuple(TopologyDomain(values, counts[values]) for values in ordered)
    )


def _incomplete_layer(request: PlacementRequest, missing: int) -> SliceLayer:
    """The innermost layer of which the missing pods are not whole slices."""
    return next(layer for layer in reversed(request.slices) if missing % layer.size)


def _incomplete_domain(tree: DomainTree, remaining: TopologyAssignment, missing: int, layer: SliceLayer) -> DomainId:
    level = tree.level(layer.topology)
    if level is None:
        return ()
    counts: dict[DomainId, int] = {}
    for assigned in remaining.domains:
        above = tree.leaves[assigned.values].ancestor(level).id
        counts[above] = counts.get(above, 0) + assigned.pods
    return next((domain for domain in sorted(counts) if (counts[domain] + missing) % layer.size == 0), ())
