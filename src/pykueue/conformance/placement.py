"""Replays recorded tests of topology assignments and of their compact encoding."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pykueue.api.kueue import topology_encoding
from pykueue.api.kueue.topology_encoding import TopologyDomainAssignment
from pykueue.conformance import differences
from pykueue.conformance.corpus import Case, feature_gates
from pykueue.conformance.differences import Difference, Runner
from pykueue.engine import values
from pykueue.engine.topology.cache import NodeReplacement, TopologyCache, TopologyUsage, TopologyUsages
from pykueue.engine.topology.placement_request import PlacementRequest
from pykueue.translate import messages, nodes, policy, selectors, workload

_FLAVOR = values.FlavorName("default")
_SIBLING = values.FlavorName("sibling")


def find_assignments(case: Case) -> list[Difference]:
    topologies = _topology_cache(case)
    placement_requests = [_placement_request(pod_set) for pod_set in case["podSets"]]
    if not _is_stale(case, placement_requests):
        for request in placement_requests:
            topologies.add_usage(_usage_of_earlier(request), 1)
    owner = case.get("workload")
    if owner is not None and _skips_reassignment(owner, feature_gates(case)):
        return differences.between(case["expect"], _as_recorded(_before(owner)))
    result = topologies.place({_FLAVOR: placement_requests}, replacement=None if owner is None else _replacement(owner))
    if isinstance(result, dict):
        return differences.between(case["expect"], _as_recorded(result))
    _, failure = result
    return differences.between(_reasons(case["expect"]), {messages.placement(failure.reason)})


def _topology_cache(case: Case) -> TopologyCache:
    topologies = TopologyCache(policy.topology_policy({"featureGates": feature_gates(case)}))
    levels = tuple(case["levels"])
    topologies.set_topology(case["topologyName"], levels)
    for name in (_FLAVOR, _SIBLING):
        labels = case["flavorNodeLabels"] or {}
        topologies.set_flavor(values.ResourceFlavor(name=name, node_labels=labels, topology=case["topologyName"]))
    for obj in case["nodes"]:
        if (node := nodes.node(obj)) is not None:
            topologies.set_node(node)
    for pod in case["pods"] or ():
        if nodes.uses_node(pod):
            topologies.set_pod(pod["metadata"]["name"], pod["spec"]["nodeName"], nodes.pod_requests(pod["spec"]))
    for entry in case["ownUsage"] or ():
        usage = TopologyUsage(_FLAVOR, tuple(entry["Values"]), entry["SinglePodRequests"], entry["Count"])
        topologies.add_usage((usage,), 1)
    for domain, amounts in (case["otherFlavorsDomainUsage"] or {}).items():
        one_pod = {name: amount for name, amount in amounts.items() if name != values.PODS}
        topologies.add_usage((TopologyUsage(_SIBLING, (domain,), one_pod, 1),), 1)
    return topologies


def _placement_request(pod_set: Mapping[str, Any]) -> PlacementRequest:
    affinity = pod_set.get("nodeAffinity")
    request = dict(pod_set.get("topologyRequest") or {})
    if pod_set.get("podSetGroupName"):
        request["podSetGroupName"] = pod_set["podSetGroupName"]
    return PlacementRequest(
        name=values.PodSetName(pod_set["podSetName"]),
        count=pod_set["count"],
        pod_requests=pod_set["requests"],
        request=workload.topology_request(request),
        tolerations=selectors.tolerations(pod_set.get("tolerations")),
        node_selector=pod_set.get("nodeSelector") or {},
        affinity_terms=selectors.affinity_terms({"affinity": {"nodeAffinity": affinity}}),
        preferred_terms=selectors.preferred_terms({"affinity": {"nodeAffinity": affinity}}),
        earlier=_assignment(pod_set["previousAssignment"]) if pod_set.get("previousAssignment") else None,
    )


def _is_stale(case: Case, placement_requests: Iterable[PlacementRequest]) -> bool:
    """Whether a node of the earlier slice is gone; the recorder counts its usage only if not."""
    names = {node["metadata"]["name"] for node in case["nodes"]}
    earlier = [request.earlier for request in placement_requests if request.earlier is not None]
    return any(domain.values[-1] not in names for assignment in earlier for domain in assignment.domains)


def _usage_of_earlier(request: PlacementRequest) -> TopologyUsages:
    """The pods of the earlier slice of an elastic job, which run already."""
    domains = () if request.earlier is None else request.earlier.domains
    return tuple(TopologyUsage(_FLAVOR, domain.values, request.pod_requests, domain.pods) for domain in domains)


def _skips_reassignment(owner: Case, gates: Mapping[str, bool]) -> bool:
    return workload.is_of_one_pod(owner) and gates.get("SkipReassignmentForPodOwnedWorkloads", True)


def _replacement(owner: Case) -> NodeReplacement:
    return NodeReplacement(owner["status"]["unhealthyNodes"][0]["name"], _before(owner))


def _before(owner: Case) -> dict[values.PodSetName, values.TopologyAssignment]:
    return {
        values.PodSetName(assignment["name"]): _assignment(assignment["topologyAssignment"])
        for assignment in owner["status"]["admission"]["podSetAssignments"]
    }


def _assignment(encoded: dict[str, Any]) -> values.TopologyAssignment:
    domains = topology_encoding.decode(encoded)
    return values.TopologyAssignment(
        levels=tuple(encoded["levels"]),
        domains=tuple(values.TopologyDomain(domain.values, domain.count) for domain in domains),
    )


def _as_recorded(assignments: Mapping[values.PodSetName, values.TopologyAssignment]) -> dict[str, Any]:
    return {
        name: {
            "topologyAssignment": {
                "levels": list(assignment.levels),
                "domains": [{"values": list(domain.values), "count": domain.pods} for domain in assignment.domains],
            }
        }
        for name, assignment in assignments.items()
    }


def _reasons(expected: Mapping[str, Any]) -> set[str]:
    """The failure reasons; one is recorded for each pod set of the group that failed."""
    return {pod_set["failureReason"] for pod_set in expected.values() if "failureReason" in pod_set}


def _domains(internal: Mapping[str, Any]) -> list[TopologyDomainAssignment]:
    return [
        TopologyDomainAssignment(tuple(domain["Values"]), domain["Count"]) for domain in internal.get("Domains", ())
    ]


def _encoded(encode: Callable[..., Any]) -> Runner:
    def run(case: Case) -> list[Difference]:
        internal = case["internal"]
        expected = {"slices": [], **case["expect"]["v1beta2"]}
        return differences.between(expected, encode(internal["Levels"], _domains(internal)))

    return run


def _decoded(case: Case) -> list[Difference]:
    expected = _domains(case["expect"]["internal"])
    return differences.between(_domains_json(expected), _domains_json(topology_encoding.decode(case["v1beta2"])))


def _domains_json(domains: list[TopologyDomainAssignment]) -> list[dict[str, Any]]:
    return [{"values": list(domain.values), "count": domain.count} for domain in domains]


RUNNERS: Mapping[str, Runner] = {
    "TestTopologyAssignmentEncode": _encoded(topology_encoding.encode),
    "TestTopologyAssignmentEncodeHostnamePrefixRuns": _encoded(topology_encoding.encode_in_runs),
    "TestTopologyAssignmentDecode": _decoded,
    "TestFindTopologyAssignments": find_assignments,
    "TestFindTopologyAssignmentsMultiLayerReplacement": find_assignments,
}
