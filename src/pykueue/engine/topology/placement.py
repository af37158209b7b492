"""Placement: the requests of a workload and the nodes of one flavor go in, topology assignments
come out.

Pod sets of a group are placed together: of two, the smaller one is the leader and is placed beside
the workers. Groups are placed one after another, and each sees the usage of those before it.
Called by `cache`.
"""

from collections.abc import Mapping, Sequence

from pykueue.engine.reasons import PlacementReason, ReplacementNodeMissing
from pykueue.engine.topology import counting, node_replacement, placement_request, selection
from pykueue.engine.topology.counting import FlavorCapacity, LeafAssignment
from pykueue.engine.topology.domains import DomainId, DomainTree
from pykueue.engine.topology.placement_request import PlacementRequest, Requests, Unplaceable
from pykueue.engine.values import PodSetName, ResourceName, TopologyAssignment, TopologyDomain, Value

Assumed = dict[DomainId, dict[ResourceName, int]]
"""Usage of pods that were placed in the same attempt."""


class PlacementFailure(Value, frozen=True, kw_only=True):
    pod_set: PodSetName
    reason: PlacementReason


Placements = dict[PodSetName, TopologyAssignment]


def place(
    capacity: FlavorCapacity,
    requests: Sequence[PlacementRequest],
    *,
    topology: str,
    assumed: Assumed,
    as_if_empty: bool = False,
) -> Placements | PlacementFailure:
    """Place all requests, or return the first failure. The usage is added to `assumed`."""
    placements: Placements = {}
    for group in _groups(requests):
        leader, workers = _leader_and_workers(group)
        try:
            if not as_if_empty and all(_is_extendable(capacity.tree, request) for request in group):
                placements |= _extend(capacity, group, topology=topology, assumed=assumed)
                continue
            placed = _place(
                capacity, workers, leader=leader, topology=topology, assumed=assumed, as_if_empty=as_if_empty
            )
        except Unplaceable as unplaceable:
            return PlacementFailure(pod_set=workers.name, reason=unplaceable.reason)
        for request in group:
            placements[request.name] = placed[request.name]
            assume(assumed, placed[request.name], request.pod_requests)
    return placements


def _is_extendable(tree: DomainTree, request: PlacementRequest) -> bool:
    earlier = request.earlier
    return earlier is not None and all(domain.values in tree.leaves for domain in earlier.domains)


def _extend(
    capacity: FlavorCapacity, group: Sequence[PlacementRequest], *, topology: str, assumed: Assumed
) -> Placements:
    """Place only the pods beyond the earlier slice of an elastic job, whose usage is counted.

    A smaller slice keeps the first domains.
    """
    placements: Placements = {}
    for request in group:
        assert request.earlier is not None
        placements[request.name] = node_replacement.truncated(request.earlier, request.count)
        if request.added > 0:
            within = node_replacement.required_domain(capacity.tree, request, request.earlier, request.added)
            reduced = node_replacement.reduced(request, request.added, confined=bool(within))
            more = _place(capacity, reduced, leader=None, topology=topology, assumed=assumed, within=within)
            placements[request.name] = node_replacement.merged(capacity.tree, request.earlier, more[request.name])
            assume(assumed, more[request.name], request.pod_requests)
    return placements


def replace_node(
    capacity: FlavorCapacity,
    requests: Sequence[PlacementRequest],
    *,
    topology: str,
    assumed: Assumed,
    failed_node: str,
    before: Mapping[PodSetName, TopologyAssignment],
) -> Placements | PlacementFailure:
    """Place only the pods of a failed node; all other pods stay where they are."""
    placements: Placements = {}
    for request in requests:
        name = request.name
        if name not in before:
            continue
        try:
            remaining, missing = node_replacement.without_node(before[name], failed_node)
            node_replacement.check_not_stale(capacity.tree, remaining)
            within = node_replacement.required_domain(capacity.tree, request, remaining, missing)
            reduced = node_replacement.reduced(request, missing, confined=bool(within))
            moved = _place(capacity, reduced, leader=None, topology=topology, assumed=assumed, within=within)[name]
        except Unplaceable as unplaceable:
            return PlacementFailure(pod_set=name, reason=unplaceable.reason)
        if not moved.domains:
            return PlacementFailure(pod_set=name, reason=ReplacementNodeMissing(node=failed_node))
        placements[name] = node_replacement.merged(capacity.tree, remaining, moved)
        assume(assumed, moved, request.pod_requests)
    return placements


def assume(assumed: Assumed, placed: TopologyAssignment, pod_requests: Requests) -> None:
    for domain, usage in usage_of(placed, pod_requests).items():
        total = assumed.setdefault(domain, {})
        for resource, amount in usage.items():
            total[resource] = total.get(resource, 0) + amount


def usage_of(placed: TopologyAssignment, pod_requests: Requests) -> dict[DomainId, dict[ResourceName, int]]:
    """What the pods use in each domain."""
    pod = counting.with_pod(pod_requests)
    return {
        domain.values: {resource: amount * domain.pods for resource, amount in pod.items()} for domain in placed.domains
    }


def _groups(requests: Sequence[PlacementRequest]) -> list[list[PlacementRequest]]:
    groups: dict[str | int, list[PlacementRequest]] = {}
    for position, request in enumerate(requests):
        group = None if request.request is None else request.request.group
        groups.setdefault(position if group is None else group, []).append(request)
    return list(groups.values())


def _leader_and_workers(group: Sequence[PlacementRequest]) -> tuple[PlacementRequest | None, PlacementRequest]:
    if len(group) == 1:
        return None, group[0]
    first, second = group[0], group[1]
    return (first, second) if second.count > first.count else (second, first)


def _place(
    capacity: FlavorCapacity,
    workers: PlacementRequest,
    *,
    leader: PlacementRequest | None,
    topology: str,
    assumed: Assumed,
    within: DomainId = (),
    as_if_empty: bool = False,
) -> Placements:
    resolved = placement_request.resolve(capacity.tree, workers, capacity.policy)
    if assumed or within:
        count = counting.CapacityCount(
            capacity, workers, resolved, leader=leader, assumed=assumed, within=within, as_if_empty=as_if_empty
        )
    else:
        count = capacity.count(workers, resolved, leader=leader, as_if_empty=as_if_empty)
    leaves = selection.select(
        count, resolved, topology=topology, pods=workers.count, leaders=0 if leader is None else 1
    )
    placed = {workers.name: _assignment(capacity.tree, [(assigned, assigned.pods) for assigned in leaves])}
    if leader is not None:
        placed[leader.name] = _assignment(capacity.tree, [(assigned, assigned.leaders) for assigned in leaves])
    return placed


def _assignment(tree: DomainTree, leaves: Sequence[tuple[LeafAssignment, int]]) -> TopologyAssignment:
    """The topology assignment; a domain that is one node is named by its host name alone."""
    first = len(tree.levels) - 1 if tree.is_by_node else 0
    return TopologyAssignment(
        levels=tree.levels[first:],
        domains=tuple(TopologyDomain(assigned.leaf.values[first:], pods) for assigned, pods in leaves if pods),
    )
