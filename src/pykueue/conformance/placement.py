"""Recorded tests of topology placement alone: nodes, pods in the way, and where the pods of a workload go."""

from collections.abc import Mapping
from typing import Any

from pykueue.api.kueue import topology_encoding
from pykueue.conformance import differences
from pykueue.conformance.corpus import Case, feature_gates
from pykueue.conformance.differences import Difference
from pykueue.engine import values
from pykueue.engine.topology.cache import NodeReplacement, TopologyCache, TopologyUsage
from pykueue.engine.topology.placement_request import PlacementRequest
from pykueue.translate import messages, nodes, selectors, workload

_FLAVOR = values.FlavorName("default")
_SIBLING = values.FlavorName("sibling")


def find_assignments(case: Case) -> list[Difference]:
    places = _places(case)
    demands = [_demand(pod_set) for pod_set in case["podSets"]]
    owner = case.get("workload")
    if owner is not None and _keeps_places(owner, feature_gates(case)):
        return differences.between(case["expect"], _shown_all(_before(owner)))
    found = places.place({_FLAVOR: demands}, replacement=None if owner is None else _replacement(owner))
    if isinstance(found, dict):
        return differences.between(case["expect"], _shown_all(found))
    _, failure = found
    return differences.between(_reasons(case["expect"]), {messages.placement(failure.reason)})


def _places(case: Case) -> TopologyCache:
    places = TopologyCache()
    levels = tuple(case["levels"])
    places.set_topology(case["topologyName"], levels)
    for name in (_FLAVOR, _SIBLING):
        labels = case["flavorNodeLabels"] or {}
        places.set_flavor(values.ResourceFlavor(name=name, node_labels=labels, topology=case["topologyName"]))
    for obj in case["nodes"]:
        if (node := nodes.node(obj)) is not None:
            places.set_node(node)
    for pod in case["pods"] or ():
        if nodes.takes_room(pod):
            places.set_pod(pod["metadata"]["name"], pod["spec"]["nodeName"], nodes.pod_requests(pod["spec"]))
    for entry in case["ownUsage"] or ():
        usage = TopologyUsage(_FLAVOR, tuple(entry["Values"]), entry["SinglePodRequests"], entry["Count"])
        places.add_usage((usage,), 1)
    for domain, amounts in (case["otherFlavorsDomainUsage"] or {}).items():
        one_pod = {name: amount for name, amount in amounts.items() if name != values.PODS}
        places.add_usage((TopologyUsage(_SIBLING, (domain,), one_pod, 1),), 1)
    return places


def _demand(pod_set: Mapping[str, Any]) -> PlacementRequest:
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
    )


def _keeps_places(owner: Case, gates: Mapping[str, bool]) -> bool:
    return workload.is_of_one_pod(owner) and gates.get("SkipReassignmentForPodOwnedWorkloads", True)


def _replacement(owner: Case) -> NodeReplacement:
    return NodeReplacement(owner["status"]["unhealthyNodes"][0]["name"], _before(owner))


def _before(owner: Case) -> dict[values.PodSetName, values.TopologyAssignment]:
    return {
        values.PodSetName(assigned["name"]): values.TopologyAssignment(
            levels=tuple(assigned["topologyAssignment"]["levels"]),
            domains=tuple(
                values.TopologyDomain(domain.values, domain.count)
                for domain in topology_encoding.decode(assigned["topologyAssignment"])
            ),
        )
        for assigned in owner["status"]["admission"]["podSetAssignments"]
    }


def _shown_all(found: Mapping[values.PodSetName, values.TopologyAssignment]) -> dict[str, Any]:
    return {
        name: {
            "topologyAssignment": {
                "levels": list(placed.levels),
                "domains": [{"values": list(domain.values), "count": domain.pods} for domain in placed.domains],
            }
        }
        for name, placed in found.items()
    }


def _reasons(expected: Mapping[str, Any]) -> set[str]:
    """A failure is recorded for every pod set of the group that failed; groups before it had their places."""
    return {found["failureReason"] for found in expected.values() if "failureReason" in found}


RUNNERS = dict.fromkeys(
    ("TestFindTopologyAssignments", "TestFindTopologyAssignmentsMultiLayerReplacement"), find_assignments
)
