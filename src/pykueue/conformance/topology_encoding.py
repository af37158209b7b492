"""Recordings of how topology assignments are written compactly and read back."""

from collections.abc import Callable, Mapping
from typing import Any

from pykueue.api.kueue import topology_encoding
from pykueue.api.kueue.topology_encoding import TopologyDomainAssignment
from pykueue.conformance import differences
from pykueue.conformance.corpus import Case
from pykueue.conformance.differences import Difference


def _domains(internal: Mapping[str, Any]) -> list[TopologyDomainAssignment]:
    return [TopologyDomainAssignment(tuple(each["Values"]), each["Count"]) for each in internal.get("Domains", ())]


def _encoded(encode: Callable[..., Any]) -> Callable[[Case], list[Difference]]:
    def run(case: Case) -> list[Difference]:
        internal = case["internal"]
        expected = {"slices": [], **case["expect"]["v1beta2"]}
        return differences.between(expected, encode(internal["Levels"], _domains(internal)))

    return run


def _decoded(case: Case) -> list[Difference]:
    expected = _domains(case["expect"]["internal"])
    return differences.between(_shown(expected), _shown(topology_encoding.decode(case["v1beta2"])))


def _shown(domains: list[TopologyDomainAssignment]) -> list[dict[str, Any]]:
    return [{"values": list(domain.values), "count": domain.count} for domain in domains]


RUNNERS: Mapping[str, Callable[[Case], list[Difference]]] = {
    "TestTopologyAssignmentEncode": _encoded(topology_encoding.encode),
    "TestTopologyAssignmentEncodeHostnamePrefixRuns": _encoded(topology_encoding.encode_in_runs),
    "TestTopologyAssignmentDecode": _decoded,
}
