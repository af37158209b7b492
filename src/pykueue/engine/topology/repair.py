"""Replacing one lost node in an assignment: which pods are missing, and where their new places must lie."""

import dataclasses

from pykueue.engine.topology import demand
from pykueue.engine.topology.demand import PlacementRequest, Unplaceable
from pykueue.engine.topology.domains import DomainId, DomainTree
from pykueue.engine.values import SliceLayer, TopologyAssignment, TopologyDomain


def without_node(assignment: TopologyAssignment, node: str) -> tuple[TopologyAssignment, int]:
    """What stays, and how many pods lost their place."""
    kept = tuple(domain for domain in assignment.domains if domain.values[-1] != node)
    missing = sum(domain.pods for domain in assignment.domains if domain.values[-1] == node)
    return dataclasses.replace(assignment, domains=kept), missing


def check_known(tree: DomainTree, kept: TopologyAssignment) -> None:
    for domain in kept.domains:
        if domain.values not in tree.leaves:
            raise Unplaceable(
                "Cannot replace the node, because the existing topologyAssignment is invalid,"
                f" as it contains the stale domain {domain.values[0]}"
            )


def domain_to_stay_in(tree: DomainTree, wanted: PlacementRequest, kept: TopologyAssignment, missing: int) -> DomainId:
    """The domain of the slice that lost pods, or the one that all pods must share; empty when anywhere will do."""
    key = demand.level_key(tree, wanted)
    level = None if key is None else tree.level(key)
    if level is None or not kept.domains:
        return ()
    if wanted.slices and missing % demand.slice_size_of(wanted):
        layer = _broken_layer(wanted, missing)
        return _incomplete_domain(tree, kept, missing, layer)
    if not wanted.is_required:
        return ()
    return tree.leaves[kept.domains[0].values].ancestor(level).id


def reduced(wanted: PlacementRequest, missing: int, *, confined: bool) -> PlacementRequest:
    """The demand for the missing pods alone. Inside the broken slice only whole inner slices still count as such."""
    if not (confined and wanted.slices and wanted.request and missing % demand.slice_size_of(wanted)):
        return dataclasses.replace(wanted, count=missing)
    whole = next((layer for layer in reversed(wanted.slices) if missing % layer.size == 0), None)
    request = dataclasses.replace(wanted.request, slices=() if whole is None else (whole,))
    return dataclasses.replace(wanted, count=missing, request=request)


def merged(tree: DomainTree, kept: TopologyAssignment, moved: TopologyAssignment) -> TopologyAssignment:
    counts: dict[DomainId, int] = {}
    for domain in (*moved.domains, *kept.domains):
        counts[domain.values] = counts.get(domain.values, 0) + domain.pods
    ordered = sorted(counts, key=lambda values: tree.leaves[values].values)
    return TopologyAssignment(
        levels=moved.levels, domains=tuple(TopologyDomain(values, counts[values]) for values in ordered)
    )


def _broken_layer(wanted: PlacementRequest, missing: int) -> SliceLayer:
    """The innermost layer in which the missing pods are no whole slices."""
    return next(layer for layer in reversed(wanted.slices) if missing % layer.size)


def _incomplete_domain(tree: DomainTree, kept: TopologyAssignment, missing: int, layer: SliceLayer) -> DomainId:
    level = tree.level(layer.topology)
    if level is None:
        return ()
    counts: dict[DomainId, int] = {}
    for domain in kept.domains:
        above = tree.leaves[domain.values].ancestor(level).id
        counts[above] = counts.get(above, 0) + domain.pods
    return next((found for found in sorted(counts) if (counts[found] + missing) % layer.size == 0), ())
