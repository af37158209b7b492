"""Placement of a whole workload: which pod sets need topology domains, and what a failure means
for the assignment.

The flavor assigner calls `mismatch` for every flavor and `place` at the end. `nominate` calls
`placement_requests` and `set_placements` for workloads that preempt. Workloads and queues without
topologies never get here.
"""

from collections.abc import Iterable, Mapping

from pykueue.engine import values
from pykueue.engine.flavors.assignment import Assignment, PodSetAssignment
from pykueue.engine.queues.cluster_queue import ClusterQueueState, IndexedGroup, PlacementPolicy
from pykueue.engine.reasons import (
    ElasticLevelRefused,
    FlavorReason,
    FlavorTopologyMismatch,
    InactiveReason,
    Inactivity,
    Mode,
    NoFitReason,
    PlacementImpossible,
    TopologyFlavorMissing,
    TopologyFlavorsMixed,
    TopologyMismatch,
    TopologyUnavailable,
)
from pykueue.engine.topology import placement_request
from pykueue.engine.topology.cache import (
    NodeReplacement,
    TopologyCache,
    TopologyUsage,
    TopologyUsages,
)
from pykueue.engine.topology.placement import PlacementFailure, Placements
from pykueue.engine.topology.placement_request import PlacementRequest
from pykueue.engine.values import MULTIKUEUE, PROVISIONING, DelayedTopology, FlavorName, PodSet

PlacementRequests = dict[FlavorName, list[PlacementRequest]]


# For a cluster queue.


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
    queue: ClusterQueueState, flavors: Mapping[FlavorName, values.ResourceFlavor], cache: TopologyCache
) -> tuple[Inactivity, ...]:
    if queue.placement.elsewhere or queue.value.terminating:
        return ()
    return tuple(
        Inactivity(reason=InactiveReason.TOPOLOGY_NOT_FOUND, names=(flavors[name].topology or "", name))
        for name in queue.placement.flavors
        if cache.levels_of(name) is None
    )


# For a pod set and a flavor.


def is_explicit(pod_set: PodSet) -> bool:
    return pod_set.topology_request is not None and pod_set.topology_request.is_explicit


def needs_placement(queue: ClusterQueueState, workload: values.Workload) -> bool:
    """Whether some pod set of the workload needs a topology assignment."""
    return queue.placement.always or any(is_explicit(pod_set) for pod_set in workload.pod_sets)


def mismatch(
    cache: TopologyCache,
    queue: ClusterQueueState,
    pod_set: PodSet,
    flavor: values.ResourceFlavor,
    *,
    group: IndexedGroup,
) -> FlavorReason | None:
    """Why the topology of a flavor does not match the request of a pod set; None if it does."""
    if not is_explicit(pod_set):
        if flavor.topology is None or queue.placement.always:
            return None
        return FlavorTopologyMismatch(flavor=flavor.name, mismatch=TopologyMismatch.ONLY_TOPOLOGY_AWARE)
    assert pod_set.topology_request is not None
    if flavor.topology is None:
        if group.covered.isdisjoint(pod_set.pod_requests):
            return None
        reason = TopologyMismatch.NOT_TOPOLOGY_AWARE
    else:
        levels = cache.levels_of(flavor.name)
        if levels is None:
            reason = TopologyMismatch.TOPOLOGY_MISSING
        elif placement_request.has_levels(levels, pod_set.topology_request):
            return None
        else:
            reason = TopologyMismatch.LEVEL_MISSING
    return FlavorTopologyMismatch(flavor=flavor.name, mismatch=reason)


# For a workload.


def placement_requests(
    cache: TopologyCache, queue: ClusterQueueState, workload: values.Workload, assignment: Assignment
) -> PlacementRequests:
    """The placement requests of a workload by flavor.

    Sets `conflict` on pod sets whose flavors cannot be used together, and `delayed_topology` on
    pod sets that are placed after their admission checks.
    """
    requests: PlacementRequests = {}
    assigned_to = {assigned.name: assigned for assigned in assignment.pod_sets}
    for pod_set in workload.pod_sets:
        assigned = assigned_to.get(pod_set.name)
        if assigned is None or assigned.conflict is not None or not assigned.count:
            continue
        if not (queue.placement.always or is_explicit(pod_set)):
            continue
        if assigned.topology is not None and not _has_failed_node(workload, assigned.topology):
            continue
        if workload.refuses_levels and pod_set.topology_request is not None:
            assigned.conflict = _refused_level(pod_set.topology_request)
        flavor = None if assigned.conflict is not None else _only_flavor(cache, queue, assigned)
        if flavor is None:
            continue
        if queue.placement.elsewhere or (workload.admission is None and flavor in queue.placement.after_checks):
            assigned.delayed_topology = DelayedTopology.PENDING
        else:
            earlier = _earlier_topology(workload, assignment, pod_set.name)
            requests.setdefault(flavor, []).append(_placement_request(pod_set, assigned.count, earlier))
    return requests


def _refused_level(request: values.TopologyRequest) -> ElasticLevelRefused | None:
    if request.required is None and request.preferred is None:
        return None
    return ElasticLevelRefused(is_required=request.required is not None)


def place(cache: TopologyCache, queue: ClusterQueueState, workload: values.Workload, assignment: Assignment) -> None:
    """Place the pods of an assignment for which there is quota.

    Without capacity the mode becomes PREEMPT or NO_FIT.
    """
    requests = placement_requests(cache, queue, workload, assignment)
    if any(pod_set.conflict is not None for pod_set in assignment.pod_sets):
        assignment.mode = Mode.NO_FIT
        return
    if assignment.mode is Mode.FIT:
        assignment.depends_on_usage_of_nodes = True
        placed = _placed(cache, workload, requests)
        if isinstance(placed, dict):
            set_placements(cache, workload, assignment, placed)
            return
        flavor, failure = placed
        pod_set = _named(assignment, failure)
        pod_set.reasons = (*pod_set.reasons, PlacementImpossible(flavor=flavor, cause=failure.reason))
        _set_mode(assignment, [pod_set], Mode.PREEMPT)
    if assignment.mode is Mode.PREEMPT and not workload.unhealthy_nodes:
        placed = cache.place(requests, as_if_empty=True)
        if isinstance(placed, dict):
            _set_mode(assignment, [pod_set for pod_set in assignment.pod_sets if pod_set.name in placed], Mode.PREEMPT)
        else:
            flavor, failure = placed
            pod_set = _named(assignment, failure)
            _mark_attempt(pod_set, flavor)
            _set_mode(assignment, [pod_set], Mode.NO_FIT)


def set_placements(cache: TopologyCache, workload: values.Workload, assignment: Assignment, placed: Placements) -> None:
    """Write topology assignments into the assignment of flavors."""
    for assigned in assignment.pod_sets:
        if assigned.name in placed:
            assigned.topology = placed[assigned.name]
            if assigned.delayed_topology is not None:
                assigned.delayed_topology = DelayedTopology.READY
    assignment.topology_usage = _new_topology_usage(cache, workload, assignment)


def _placed(
    cache: TopologyCache, workload: values.Workload, requests: PlacementRequests
) -> Placements | tuple[FlavorName, PlacementFailure]:
    if not workload.unhealthy_nodes or workload.admission is None:
        return cache.place(requests)
    before = {pod_set.name: pod_set.topology for pod_set in workload.admission.pod_sets if pod_set.topology is not None}
    if workload.keeps_failed_nodes:
        return before
    return cache.place(requests, replacement=NodeReplacement(workload.unhealthy_nodes[0], before))


def _new_topology_usage(cache: TopologyCache, workload: values.Workload, assignment: Assignment) -> TopologyUsages:
    """The topology usage of an assignment without the usage that the workload has already."""
    current: dict[tuple[values.PodSetName, tuple[str, ...]], int] = {}
    for admitted in () if workload.admission is None else workload.admission.pod_sets:
        for domain in () if admitted.topology is None else admitted.topology.domains:
            current[admitted.name, domain.values] = domain.pods
    pod_requests = {pod_set.name: pod_set.pod_requests for pod_set in workload.pod_sets}
    return tuple(
        TopologyUsage(flavor, domain.values, pod_requests[assigned.name], pods)
        for assigned in assignment.pod_sets
        if assigned.topology is not None
        for flavor in _topology_flavors(cache, assigned)
        for domain in assigned.topology.domains
        if (pods := domain.pods - current.get((assigned.name, domain.values), 0)) > 0
    )


def _earlier_topology(
    workload: values.Workload, assignment: Assignment, name: values.PodSetName
) -> values.TopologyAssignment | None:
    """The topology of the slice that is replaced, unless the workload has its own."""
    if workload.admission is not None:
        return None
    return next((pod_set.topology for pod_set in assignment.replaced if pod_set.name == name), None)


def _placement_request(pod_set: PodSet, count: int, earlier: values.TopologyAssignment | None) -> PlacementRequest:
    return PlacementRequest(
        name=pod_set.name,
        count=count,
        pod_requests=pod_set.pod_requests,
        request=pod_set.topology_request,
        tolerations=(*pod_set.tolerations, *pod_set.checked_tolerations),
        node_selector={**pod_set.node_selector, **pod_set.checked_node_selector},
        affinity_terms=pod_set.affinity_terms,
        preferred_terms=pod_set.preferred_terms,
        earlier=earlier,
    )


def _has_failed_node(workload: values.Workload, topology: values.TopologyAssignment) -> bool:
    return any(domain.values[-1] in workload.unhealthy_nodes for domain in topology.domains)


def _topology_flavors(cache: TopologyCache, assigned: PodSetAssignment) -> list[FlavorName]:
    used = {choice.flavor for choice in assigned.flavors.values()}
    return sorted(name for name in used if cache.levels_of(name) is not None)


def _only_flavor(cache: TopologyCache, queue: ClusterQueueState, assigned: PodSetAssignment) -> FlavorName | None:
    """The one flavor with a topology: all resources of a pod set must be on the same nodes."""
    used = _topology_flavors(cache, assigned)
    if len(used) == 1:
        return used[0]
    if all(cache.levels_of(name) is None for name in queue.placement.flavors):
        assigned.conflict = TopologyUnavailable()
    elif not used:
        assigned.conflict = TopologyFlavorMissing()
    else:
        assigned.conflict = TopologyFlavorsMixed(flavors=tuple(used))
    return None


def _named(assignment: Assignment, failure: PlacementFailure) -> PodSetAssignment:
    return next(pod_set for pod_set in assignment.pod_sets if pod_set.name == failure.pod_set)


def _set_mode(assignment: Assignment, pod_sets: Iterable[PodSetAssignment], mode: Mode) -> None:
    for pod_set in pod_sets:
        assignment.mode = mode
        for choice in pod_set.flavors.values():
            choice.mode = mode


def _mark_attempt(pod_set: PodSetAssignment, flavor: FlavorName) -> None:
    reason = NoFitReason.TOPOLOGY_PLACEMENT_FAILED
    pod_set.attempts = tuple(
        attempt._replace(mode=Mode.NO_FIT, no_fit_reason=reason) if attempt.flavor == flavor else attempt
        for attempt in pod_set.attempts
    )
