"""Ungates pods of elastic jobs: as many of each pod set as the newest admitted slice has. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from pykueue.api import objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import ELASTIC_JOB, POD_SET_LABEL
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import slices
from pykueue.controllers.workloads import predicates
from pykueue.kube.controller.writes import Update
from pykueue.translate import nodes
from pykueue.translate.jobs import pods


def plan(workloads: Sequence[Object], members: Sequence[Object]) -> list[Update]:
    """Ungates the pods that may run; `workloads` are the slices of one job, oldest first."""
    reserved = [
        workload
        for workload in workloads
        if predicates.has_quota_reservation(workload) and not predicates.is_evicted(workload)
    ]
    if not reserved or not predicates.is_admitted(reserved[-1]):
        return []
    running = [pod for pod in members if not nodes.is_terminated(pod)]
    return [_ungated(pod) for pod in _pods_to_ungate(slices.counts(reserved[-1]["spec"]["podSets"]), running)]


def _pods_to_ungate(counts: dict[str, int], members: Sequence[Object]) -> Iterator[Object]:
    ungated = Counter(_pod_set(pod) for pod in members if not is_gated(pod))
    for pod in sorted(filter(is_gated, members), key=lambda pod: str(pod["metadata"]["name"])):
        name = _pod_set(pod)
        if ungated[name] < counts.get(name, 0):
            ungated[name] += 1
            yield pod


def is_gated(pod: Object) -> bool:
    return pods.has_gate(pod, ELASTIC_JOB)


def _pod_set(pod: Object) -> str:
    return str(objects.labels(pod).get(POD_SET_LABEL, ""))


def _ungated(pod: Object) -> Update:
    new = copied(pod)
    pods.remove_gates(new, ELASTIC_JOB)
    return Update(resource=resources.POD, old=pod, new=new)
