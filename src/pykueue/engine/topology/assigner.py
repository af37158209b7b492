"""The joint between flavors and topology: which pod sets are placed, on what, and what a failure means for an assignment.

The flavor assigner calls `mismatch` for each flavor and `place` at the end; `nominate` and `process` ask for demands and
places. Without topologies none of it is reached.
"""

from collections.abc import Iterable, Mapping

from pykueue.engine import values
from pykueue.engine.flavors.assignment import Assignment, PodSetAssignment
from pykueue.engine.queues.cluster_queue import (
    ClusterQueueState,
    Group,
    InactiveReason,
    Inactivity,
    PlacementPolicy,
)
from pykueue.engine.reasons import FlavorReason, Mode, NoFitReason, PlacementImpossible
from pykueue.engine.topology import demand
from pykueue.engine.topology.cache import LostNode, Taken, TopologyCache, TopologyUsage
from pykueue.engine.topology.demand import PlacementRequest
from pykueue.engine.topology.placement import Failure, Placements
from pykueue.engine.values import DelayedTopology, FlavorName, PodSet

PROVISIONING = "kueue.x-k8s.io/provisioning-request"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"

Demands = dict[FlavorName, list[PlacementRequest]]


# Of a cluster queue.


def policy_of(
    value: values.ClusterQueue,
    flavors: Mapping[FlavorName, values.ResourceFlavor],
    checks: Mapping[values.CheckName, values.AdmissionCheck],
) -> PlacementPolicy:
    names = [flavor.name for group in value.resource_groups for flavor in group.flavors]
    placed = tuple(dict.fromkeys(name for name in names if name in flavors and flavors[name].topology is not None))
    if not placed:
        return PlacementPolicy()
    by_controller: dict[str, set[FlavorName]] = {}
    for check, limited_to in value.admission_checks.items():
        if check in checks:
            by_controller.setdefault(checks[check].controller, set()).update(limited_to or names)
    return PlacementPolicy(
        flavors=placed,
        always=len(placed) == len(set(names)),
        after_checks=frozenset(by_controller.get(PROVISIONING, ())),
        elsewhere=MULTIKUEUE in by_controller,
    )


def missing_topologies(
    queue: ClusterQueueState, flavors: Mapping[FlavorName, values.ResourceFlavor], places: TopologyCache
) -> tuple[Inactivity, ...]:
    if queue.placement.elsewhere or queue.value.terminating:
        return ()
    return tuple(
        Inactivity(reason=InactiveReason.TOPOLOGY_NOT_FOUND, names=(flavors[name].topology or "", name))
        for name in queue.placement.flavors
        if places.levels_of(name) is None
    )


# Of a pod set and a flavor.


def is_explicit(pod_set: PodSet) -> bool:
    return pod_set.topology_request is not None and pod_set.topology_request.is_explicit


def concerns(queue: ClusterQueueState, workload: values.Workload) -> bool:
    """Whether any pod set of the workload is to be placed."""
    return queue.placement.always or any(is_explicit(pod_set) for pod_set in workload.pod_sets)


def mismatch(
    places: TopologyCache, queue: ClusterQueueState, pod_set: PodSet, flavor: values.ResourceFlavor, *, group: Group
) -> FlavorReason | None:
    """Why a flavor cannot serve a pod set for reasons of topology."""
    if not is_explicit(pod_set):
        if flavor.topology is None or queue.placement.always:
            return None
        return PlacementImpossible(
            flavor=flavor.name, text=f'Flavor "{flavor.name}" supports only TopologyAwareScheduling'
        )
    assert pod_set.topology_request is not None
    if flavor.topology is None:
        if group.covered.isdisjoint(pod_set.pod_requests):
            return None
        text = "does not support TopologyAwareScheduling"
    else:
        levels = places.levels_of(flavor.name)
        if levels is None:
            text = "information missing in TAS cache"
        elif demand.has_levels(levels, pod_set.topology_request):
            return None
        else:
            text = "does not contain the requested level"
    return PlacementImpossible(flavor=flavor.name, text=f'Flavor "{flavor.name}" {text}')


# Of a workload.


def demands(places: TopologyCache, queue: ClusterQueueState, workload: values.Workload, found: Assignment) -> Demands:
    """What is to be placed, by flavor. Marks pod sets that cannot be, and those that wait for their checks."""
    wanted: Demands = {}
    assigned_to = {assigned.name: assigned for assigned in found.pod_sets}
    for pod_set in workload.pod_sets:
        assigned = assigned_to.get(pod_set.name)
        if assigned is None or assigned.fault or not assigned.count:
            continue
        if not (queue.placement.always or is_explicit(pod_set)):
            continue
        if assigned.topology is not None and not _has_lost(workload, assigned.topology):
            continue
        flavor = _only_flavor(places, queue, assigned)
        if flavor is None:
            continue
        if queue.placement.elsewhere or (workload.admission is None and flavor in queue.placement.after_checks):
            assigned.delayed_topology = DelayedTopology.PENDING
        else:
            wanted.setdefault(flavor, []).append(_demand(pod_set, assigned.count))
    return wanted


def place(places: TopologyCache, queue: ClusterQueueState, workload: values.Workload, found: Assignment) -> None:
    """Find places for an assignment that quota allows. Where there are none, preemption may help, or nothing will."""
    wanted = demands(places, queue, workload, found)
    if any(pod_set.fault for pod_set in found.pod_sets):
        found.mode = Mode.NO_FIT
        return
    if found.mode is Mode.FIT:
        placed = _placed(places, workload, wanted)
        if isinstance(placed, dict):
            put(places, workload, found, placed)
            return
        flavor, failure = placed
        pod_set = _named(found, failure)
        pod_set.reasons = (*pod_set.reasons, PlacementImpossible(flavor=flavor, text=failure.text))
        _set_mode(found, [pod_set], Mode.PREEMPT)
    if found.mode is Mode.PREEMPT and not workload.unhealthy_nodes:
        placed = places.place(wanted, as_if_empty=True)
        if isinstance(placed, dict):
            _set_mode(found, [each for each in found.pod_sets if each.name in placed], Mode.PREEMPT)
        else:
            flavor, failure = placed
            pod_set = _named(found, failure)
            _mark_attempt(pod_set, flavor)
            _set_mode(found, [pod_set], Mode.NO_FIT)


def put(places: TopologyCache, workload: values.Workload, found: Assignment, placed: Placements) -> None:
    """Note the places in the assignment."""
    for assigned in found.pod_sets:
        if assigned.name in placed:
            assigned.topology = placed[assigned.name]
            if assigned.delayed_topology is not None:
                assigned.delayed_topology = DelayedTopology.READY
    found.taken = _net_places(places, workload, found)


def _placed(
    places: TopologyCache, workload: values.Workload, wanted: Demands
) -> Placements | tuple[FlavorName, Failure]:
    if not workload.unhealthy_nodes or workload.admission is None:
        return places.place(wanted)
    before = {each.name: each.topology for each in workload.admission.pod_sets if each.topology is not None}
    if workload.keeps_lost_places:
        return before
    return places.place(wanted, lost=LostNode(workload.unhealthy_nodes[0], before))


def _net_places(places: TopologyCache, workload: values.Workload, found: Assignment) -> Taken:
    """Without what the workload holds already, if it is looked at a second time."""
    held: dict[tuple[values.PodSetName, tuple[str, ...]], int] = {}
    for admitted in () if workload.admission is None else workload.admission.pod_sets:
        for domain in () if admitted.topology is None else admitted.topology.domains:
            held[admitted.name, domain.values] = domain.pods
    pod_requests = {pod_set.name: pod_set.pod_requests for pod_set in workload.pod_sets}
    return tuple(
        TopologyUsage(flavor, domain.values, pod_requests[assigned.name], pods)
        for assigned in found.pod_sets
        if assigned.topology is not None
        for flavor in _topology_flavors(places, assigned)
        for domain in assigned.topology.domains
        if (pods := domain.pods - held.get((assigned.name, domain.values), 0)) > 0
    )


def _demand(pod_set: PodSet, count: int) -> PlacementRequest:
    return PlacementRequest(
        name=pod_set.name,
        count=count,
        pod_requests=pod_set.pod_requests,
        request=pod_set.topology_request,
        tolerations=(*pod_set.tolerations, *pod_set.checked_tolerations),
        node_selector={**pod_set.node_selector, **pod_set.checked_node_selector},
        affinity_terms=pod_set.affinity_terms,
    )


def _has_lost(workload: values.Workload, topology: values.TopologyAssignment) -> bool:
    return any(domain.values[-1] in workload.unhealthy_nodes for domain in topology.domains)


def _topology_flavors(places: TopologyCache, assigned: PodSetAssignment) -> list[FlavorName]:
    used = {choice.flavor for choice in assigned.flavors.values()}
    return sorted(name for name in used if places.levels_of(name) is not None)


def _only_flavor(places: TopologyCache, queue: ClusterQueueState, assigned: PodSetAssignment) -> FlavorName | None:
    """All resources of a pod set must lie on the same nodes."""
    used = _topology_flavors(places, assigned)
    if len(used) == 1:
        return used[0]
    if all(places.levels_of(name) is None for name in queue.placement.flavors):
        assigned.fault = "workload requires Topology, but there is no TAS cache information"
    elif not used:
        assigned.fault = "no TAS flavor assigned"
    else:
        assigned.fault = f"more than one TAS flavor assigned: {', '.join(used)}"
    return None


def _named(found: Assignment, failure: Failure) -> PodSetAssignment:
    return next(pod_set for pod_set in found.pod_sets if pod_set.name == failure.pod_set)


def _set_mode(found: Assignment, pod_sets: Iterable[PodSetAssignment], mode: Mode) -> None:
    for pod_set in pod_sets:
        found.mode = mode
        for choice in pod_set.flavors.values():
            choice.mode = mode


def _mark_attempt(pod_set: PodSetAssignment, flavor: FlavorName) -> None:
    reason = NoFitReason.TOPOLOGY_PLACEMENT_FAILED
    pod_set.attempts = tuple(
        attempt._replace(mode=Mode.NO_FIT, no_fit_reason=reason) if attempt.flavor == flavor else attempt
        for attempt in pod_set.attempts
    )
