"""Which gated pod goes to which domain: by rank where every pod tells one, else wherever a domain still misses pods. Pure."""

from collections.abc import Mapping, Sequence

from pykueue.api import resources
from pykueue.api.json_copy import copied
from pykueue.api.kueue import topology_encoding
from pykueue.api.kueue.topology_encoding import TopologyDomainAssignment
from pykueue.api.scheme import Object
from pykueue.controllers.workloads import predicates
from pykueue.kube.controller.plan import Write
from pykueue.translate import nodes
from pykueue.translate.pod_set_info import TOPOLOGY_SCHEDULING_GATE

POD_SET_LABEL = "kueue.x-k8s.io/podset"
INDEX_OFFSET = "kueue.x-k8s.io/pod-index-offset"

Placed = tuple[Object, TopologyDomainAssignment]


class _NoRanksError(Exception):
    """Some pod has no usable rank, so ranks are not used at all."""


def plan(workload: Object, pods: Sequence[Object]) -> list[Write]:
    """The pods of an admitted workload that may go now, each with the labels of its domain."""
    if not predicates.is_admitted(workload):
        return []
    lost = {node["name"] for node in workload["status"].get("unhealthyNodes") or ()}
    writes = []
    for assignment in workload["status"]["admission"]["podSetAssignments"]:
        if not assignment.get("topologyAssignment"):
            continue
        levels = assignment["topologyAssignment"]["levels"]
        members = [pod for pod in pods if _belongs(pod, assignment["name"])]
        for pod, domain in _placed(workload, assignment, members):
            if levels[-1] != topology_encoding.HOSTNAME or domain.values[-1] not in lost:
                writes.append(_ungated(pod, dict(zip(levels, domain.values, strict=True))))
    return writes


def is_gated(pod: Object) -> bool:
    return any(gate["name"] == TOPOLOGY_SCHEDULING_GATE for gate in pod["spec"].get("schedulingGates") or ())


def _belongs(pod: Object, pod_set: str) -> bool:
    return (pod["metadata"].get("labels") or {}).get(POD_SET_LABEL) == pod_set and not nodes.has_ended(pod)


def _ungated(pod: Object, labels: Mapping[str, str]) -> Write:
    new = copied(pod)
    spec = new["spec"]
    spec["schedulingGates"] = [gate for gate in spec["schedulingGates"] if gate["name"] != TOPOLOGY_SCHEDULING_GATE]
    if not spec["schedulingGates"]:
        del spec["schedulingGates"]
    spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **labels}
    return Write(resource=resources.POD, old=pod, new=new)


def _placed(workload: Object, assignment: Object, pods: Sequence[Object]) -> list[Placed]:
    levels = assignment["topologyAssignment"]["levels"]
    domains = topology_encoding.decode(assignment["topologyAssignment"])
    slots = [domain for domain in domains for _ in range(domain.count)]
    try:
        ranks = _ranks(workload, assignment, pods)
    except _NoRanksError:
        return _anywhere(levels, domains, pods)
    for rank, pod in ranks.items():
        if rank >= len(slots) or (not is_gated(pod) and _values(pod, levels) != slots[rank].values):
            return _anywhere(levels, domains, pods)
    return [(pod, slots[rank]) for rank, pod in sorted(ranks.items()) if is_gated(pod)]


def _anywhere(
    levels: Sequence[str], domains: Sequence[TopologyDomainAssignment], pods: Sequence[Object]
) -> list[Placed]:
    """Domains in order, each up to its count."""
    gated = [pod for pod in pods if is_gated(pod)]
    present = [_values(pod, levels) for pod in pods if not is_gated(pod)]
    free = [domain for domain in domains for _ in range(domain.count - present.count(domain.values))]
    return list(zip(gated, free, strict=False))


def _values(pod: Object, levels: Sequence[str]) -> tuple[str, ...]:
    selector = pod["spec"].get("nodeSelector") or {}
    return tuple(selector.get(level, "") for level in levels)


# Ranks.


def _ranks(workload: Object, assignment: Object, pods: Sequence[Object]) -> dict[int, Object]:
    """Every pod under its own rank."""
    request = _request(workload, assignment["name"])
    label = request.get("podIndexLabel")
    if label is None:
        raise _NoRanksError
    size = int(assignment["count"])
    leading = _leading_pods(workload, assignment)
    offset = leading + (_offset(pods[0]) if pods else 0)
    job_label, jobs = request.get("subGroupIndexLabel"), int(request.get("subGroupCount") or 0)
    if job_label is not None and jobs <= 0:
        raise _NoRanksError
    job_size = size // jobs if job_label is not None else size
    ranks: dict[int, Object] = {}
    for pod in pods:
        index = _number(pod, label, below=size + offset)
        rank = index - offset
        if job_label is not None:
            if index >= job_size:
                raise _NoRanksError
            rank += _number(pod, job_label, below=jobs) * job_size
        if not 0 <= rank < size or rank in ranks:
            raise _NoRanksError
        ranks[rank] = pod
    return ranks


def _request(workload: Object, pod_set: str) -> Object:
    found = next(each for each in workload["spec"]["podSets"] if each["name"] == pod_set)
    return found.get("topologyRequest") or {}


def _leading_pods(workload: Object, assignment: Object) -> int:
    """In a group of two pod sets the ranks of the larger begin after those of the smaller."""
    group = _request(workload, assignment["name"]).get("podSetGroupName")
    if group is None:
        return 0
    for other in workload["status"]["admission"]["podSetAssignments"]:
        is_peer = other is not assignment and _request(workload, other["name"]).get("podSetGroupName") == group
        if is_peer and int(other["count"]) < int(assignment["count"]):
            return int(other["count"])
    return 0


def _offset(pod: Object) -> int:
    try:
        return int((pod["metadata"].get("annotations") or {}).get(INDEX_OFFSET, "0"))
    except ValueError:
        raise _NoRanksError from None


def _number(pod: Object, label: str, *, below: int) -> int:
    text = (pod["metadata"].get("labels") or {}).get(label, "")
    if not text.isascii() or not text.isdigit() or int(text) >= below:
        raise _NoRanksError
    return int(text)
