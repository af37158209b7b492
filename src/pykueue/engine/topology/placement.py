"""Placement as one function: the demands of a workload on one flavor's nodes, to assignments or to why there is none.

Pod sets of a group are placed together: of two, the smaller leads and gets a place beside the workers. Demands are placed one
after another, each seeing what the ones before it took. Called through `capacity` by the flavor assigner and the preemption
searches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pykueue.engine.topology import choosing, counting, demand, repair
from pykueue.engine.topology.choosing import Share
from pykueue.engine.topology.counting import Room
from pykueue.engine.topology.demand import PlacementRequest, Requests, Unplaceable
from pykueue.engine.topology.domains import DomainId, DomainTree
from pykueue.engine.values import PodSetName, ResourceName, TopologyAssignment, TopologyDomain, Value

Assumed = dict[DomainId, dict[ResourceName, int]]
"""Taken in this attempt and not yet booked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(Value):
    pod_set: PodSetName
    text: str


Placements = dict[PodSetName, TopologyAssignment]


def place(
    room: Room,
    demands: Sequence[PlacementRequest],
    *,
    topology: str,
    assumed: Assumed,
    as_if_empty: bool = False,
) -> Placements | Failure:
    """Places for all demands, or the first failure. What is placed is added to `assumed`."""
    found: Placements = {}
    for group in _groups(demands):
        leader, workers = _leader_and_workers(group)
        try:
            placed = _place(room, workers, leader=leader, topology=topology, assumed=assumed, as_if_empty=as_if_empty)
        except Unplaceable as reason:
            return Failure(pod_set=workers.name, text=str(reason))
        for each in group:
            found[each.name] = placed[each.name]
            assume(assumed, placed[each.name], each.pod_requests)
    return found


def place_again(
    room: Room,
    demands: Sequence[PlacementRequest],
    *,
    topology: str,
    assumed: Assumed,
    lost_node: str,
    before: Mapping[PodSetName, TopologyAssignment],
) -> Placements | Failure:
    """New places for the pods of a lost node only; all others stay where they are."""
    found: Placements = {}
    for each in demands:
        if each.name not in before:
            continue
        try:
            kept, missing = repair.without_node(before[each.name], lost_node)
            repair.check_known(room.tree, kept)
            within = repair.domain_to_stay_in(room.tree, each, kept, missing)
            reduced = repair.reduced(each, missing, confined=bool(within))
            moved = _place(room, reduced, leader=None, topology=topology, assumed=assumed, within=within)[each.name]
        except Unplaceable as reason:
            return Failure(pod_set=each.name, text=str(reason))
        if not moved.domains:
            text = f"cannot find replacement assignment for unhealthy node: {lost_node}"
            return Failure(pod_set=each.name, text=text)
        found[each.name] = repair.merged(room.tree, kept, moved)
        assume(assumed, moved, each.pod_requests)
    return found


def assume(assumed: Assumed, placed: TopologyAssignment, pod_requests: Requests) -> None:
    for domain, usage in usage_of(placed, pod_requests).items():
        taken = assumed.setdefault(domain, {})
        for resource, amount in usage.items():
            taken[resource] = taken.get(resource, 0) + amount


def usage_of(placed: TopologyAssignment, pod_requests: Requests) -> dict[DomainId, dict[ResourceName, int]]:
    """What the pods take, domain by domain."""
    pod = counting.with_pod(pod_requests)
    return {
        domain.values: {resource: amount * domain.pods for resource, amount in pod.items()} for domain in placed.domains
    }


def _groups(demands: Sequence[PlacementRequest]) -> list[list[PlacementRequest]]:
    groups: dict[str | int, list[PlacementRequest]] = {}
    for position, each in enumerate(demands):
        group = None if each.request is None else each.request.group
        groups.setdefault(position if group is None else group, []).append(each)
    return list(groups.values())


def _leader_and_workers(group: Sequence[PlacementRequest]) -> tuple[PlacementRequest | None, PlacementRequest]:
    if len(group) == 1:
        return None, group[0]
    first, second = group[0], group[1]
    return (first, second) if second.count > first.count else (second, first)


def _place(
    room: Room,
    workers: PlacementRequest,
    *,
    leader: PlacementRequest | None,
    topology: str,
    assumed: Assumed,
    within: DomainId = (),
    as_if_empty: bool = False,
) -> Placements:
    shape = demand.shape(room.tree, workers)
    count = counting.Count(room, workers, shape, leader=leader, assumed=assumed, within=within, as_if_empty=as_if_empty)
    chooser = choosing.Chooser(count, shape, topology=topology, pods=workers.count, leaders=0 if leader is None else 1)
    shares = sorted(chooser.shares(), key=lambda share: share.leaf.values)
    placed = {workers.name: _assignment(room.tree, [(share, share.pods) for share in shares])}
    if leader is not None:
        placed[leader.name] = _assignment(room.tree, [(share, share.leaders) for share in shares])
    return placed


def _assignment(tree: DomainTree, shares: Sequence[tuple[Share, int]]) -> TopologyAssignment:
    """A node is told by its host name alone."""
    first = len(tree.levels) - 1 if tree.is_by_node else 0
    return TopologyAssignment(
        levels=tree.levels[first:],
        domains=tuple(TopologyDomain(share.leaf.values[first:], pods) for share, pods in shares if pods),
    )
