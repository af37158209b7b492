"""Assigns gated pods to the topology domains of their Workload. Pure functions.

Pods are assigned by rank if every pod has a rank, else in order.
"""

import bisect
import itertools
from collections.abc import Mapping, Sequence

from pykueue.api import objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.kueue import topology_encoding
from pykueue.api.kueue.topology_encoding import TopologyDomainAssignment
from pykueue.api.labels import POD_INDEX_OFFSET, POD_SET_LABEL, TOPOLOGY_GATE
from pykueue.api.scheme import Object
from pykueue.controllers.workloads import predicates
from pykueue.kube.controller.writes import Update
from pykueue.translate import nodes
from pykueue.translate.jobs import pods

PodDomain = tuple[Object, TopologyDomainAssignment]


class _NoRanksError(Exception):
    """A pod has no valid rank, so ranks are not used for the pod set."""


def plan(workload: Object, all_pods: Sequence[Object]) -> list[Update]:
    """Ungates the pods of an admitted workload and adds the node selector of their domain."""
    if not predicates.is_admitted(workload):
        return []
    lost = {node["name"] for node in workload["status"].get("unhealthyNodes") or ()}
    writes = []
    for assignment in workload["status"]["admission"]["podSetAssignments"]:
        if not assignment.get("topologyAssignment"):
            continue
        levels = assignment["topologyAssignment"]["levels"]
        pod_set_pods = [pod for pod in all_pods if _belongs(pod, assignment["name"])]
        for pod, domain in _assign(workload, assignment, pod_set_pods):
            if levels[-1] != topology_encoding.HOSTNAME or domain.values[-1] not in lost:
                writes.append(_ungated(pod, dict(zip(levels, domain.values, strict=True))))
    return writes


def is_gated(pod: Object) -> bool:
    return pods.has_gate(pod, TOPOLOGY_GATE)


def _belongs(pod: Object, pod_set: str) -> bool:
    return objects.labels(pod).get(POD_SET_LABEL) == pod_set and not nodes.is_terminated(pod)


def _ungated(pod: Object, labels: Mapping[str, str]) -> Update:
    new = copied(pod)
    pods.remove_gates(new, TOPOLOGY_GATE)
    new["spec"]["nodeSelector"] = {**objects.nested(new, "spec", "nodeSelector"), **labels}
    return Update(resource=resources.POD, old=pod, new=new)


def _assign(workload: Object, assignment: Object, members: Sequence[Object]) -> list[PodDomain]:
    levels = assignment["topologyAssignment"]["levels"]
    domains = topology_encoding.decode(assignment["topologyAssignment"])
    ends = list(itertools.accumulate(domain.count for domain in domains))
    try:
        pods_by_rank = _ranks(workload, assignment, members)
    except _NoRanksError:
        return _assign_in_order(levels, domains, members)
    if not pods_by_rank:
        return []
    if max(pods_by_rank) >= ends[-1]:
        return _assign_in_order(levels, domains, members)
    of_rank = {rank: domains[bisect.bisect_right(ends, rank)] for rank in pods_by_rank}
    for rank, pod in pods_by_rank.items():
        if not is_gated(pod) and _values(pod, levels) != of_rank[rank].values:
            return _assign_in_order(levels, domains, members)
    return [(pod, of_rank[rank]) for rank, pod in sorted(pods_by_rank.items()) if is_gated(pod)]


def _assign_in_order(
    levels: Sequence[str], domains: Sequence[TopologyDomainAssignment], members: Sequence[Object]
) -> list[PodDomain]:
    """Fills the domains in order, each up to its count."""
    gated = [pod for pod in members if is_gated(pod)]
    present = [_values(pod, levels) for pod in members if not is_gated(pod)]
    free = (domain for domain in domains for _ in range(domain.count - present.count(domain.values)))
    return list(zip(gated, free, strict=False))


def _values(pod: Object, levels: Sequence[str]) -> tuple[str, ...]:
    selector = pod["spec"].get("nodeSelector") or {}
    return tuple(selector.get(level, "") for level in levels)


# Ranks of pods.


def _ranks(workload: Object, assignment: Object, members: Sequence[Object]) -> dict[int, Object]:
    """The pods by rank."""
    request = _request(workload, assignment["name"])
    label = request.get("podIndexLabel")
    if label is None:
        raise _NoRanksError
    size = int(assignment["count"])
    leading = _leading_pods(workload, assignment)
    offset = leading + (_offset(members[0]) if members else 0)
    job_label, jobs = request.get("subGroupIndexLabel"), int(request.get("subGroupCount") or 0)
    if job_label is not None and jobs <= 0:
        raise _NoRanksError
    job_size = size // jobs if job_label is not None else size
    ranks: dict[int, Object] = {}
    for pod in members:
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
    spec = next(entry for entry in workload["spec"]["podSets"] if entry["name"] == pod_set)
    return objects.nested(spec, "topologyRequest")


def _leading_pods(workload: Object, assignment: Object) -> int:
    """In a group of two pod sets, the ranks of the larger one follow those of the smaller one."""
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
        return int(objects.annotations(pod).get(POD_INDEX_OFFSET, "0"))
    except ValueError:
        raise _NoRanksError from None


def _number(pod: Object, label: str, *, below: int) -> int:
    text = objects.labels(pod).get(label, "")
    if not text.isascii() or not text.isdigit() or int(text) >= below:
        raise _NoRanksError
    return int(text)
