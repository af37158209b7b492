"""Which gated pods of an elastic job may run: as many of each pod set as its newest admitted slice has. Pure functions."""

from collections import Counter
from collections.abc import Iterator, Sequence

from pykueue.api import resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import ELASTIC_JOB, POD_SET_LABEL
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import slices
from pykueue.controllers.workloads import predicates
from pykueue.kube.controller.plan import Write
from pykueue.translate import nodes


def plan(workloads: Sequence[Object], pods: Sequence[Object]) -> list[Write]:
    """The gated pods that may go now; `workloads` are the slices of one job, the oldest first."""
    holding = [each for each in workloads if predicates.has_quota_reservation(each) and not predicates.is_evicted(each)]
    if not holding or not predicates.is_admitted(holding[-1]):
        return []
    present = [pod for pod in pods if not nodes.is_terminated(pod)]
    return [_ungated(pod) for pod in _next(slices.counts(holding[-1]["spec"]["podSets"]), present)]


def _next(granted: dict[str, int], pods: Sequence[Object]) -> Iterator[Object]:
    gone = Counter(_pod_set(pod) for pod in pods if not is_gated(pod))
    for pod in sorted(filter(is_gated, pods), key=lambda pod: str(pod["metadata"]["name"])):
        name = _pod_set(pod)
        if gone[name] < granted.get(name, 0):
            gone[name] += 1
            yield pod


def is_gated(pod: Object) -> bool:
    return any(gate["name"] == ELASTIC_JOB for gate in pod["spec"].get("schedulingGates") or ())


def _pod_set(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(POD_SET_LABEL, ""))


def _ungated(pod: Object) -> Write:
    new = copied(pod)
    new["spec"]["schedulingGates"] = [gate for gate in new["spec"]["schedulingGates"] if gate["name"] != ELASTIC_JOB]
    if not new["spec"]["schedulingGates"]:
        del new["spec"]["schedulingGates"]
    return Write(resource=resources.POD, old=pod, new=new)
