"""What an admission gives to each pod set of a job: node selectors, tolerations, labels, updates of admission checks."""

import re
from collections.abc import Mapping
from dataclasses import replace

from pykueue.api import errors
from pykueue.api.labels import ELASTIC_JOB, WORKLOAD_ANNOTATION, WORKLOAD_SLICE_NAME
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import slices
from pykueue.translate import pod_set_info
from pykueue.translate.pod_set_info import PodSetInfo

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class InjectionError(Exception):
    """Cannot be put together now (a flavor is missing); worth another try."""


def from_admission(workload: Object, flavors: Mapping[str, Object]) -> list[PodSetInfo]:
    """One a pod set, in order. PodSetConflictError is permanent."""
    pod_sets = {pod_set["name"]: pod_set for pod_set in workload["spec"]["podSets"]}
    admission = workload["status"]["admission"]
    return [
        _info(workload, assignment, pod_sets[assignment["name"]], flavors)
        for assignment in admission.get("podSetAssignments") or ()
    ]


def _info(workload: Object, assignment: Object, pod_set: Object, flavors: Mapping[str, Object]) -> PodSetInfo:
    try:
        info = pod_set_info.from_assignment(assignment, pod_set, flavors=flavors)
    except errors.ApiError as error:
        raise InjectionError(error.message) from error
    labels = {
        "kueue.x-k8s.io/podset": assignment["name"],
        "kueue.x-k8s.io/local-queue-name": workload["spec"].get("queueName", ""),
    }
    cluster_queue = workload["status"]["admission"]["clusterQueue"]
    if _DNS_LABEL.fullmatch(cluster_queue):
        labels["kueue.x-k8s.io/cluster-queue-name"] = cluster_queue
    info = replace(
        info,
        labels={**info.labels, **labels},
        annotations={**info.annotations, **_names(workload)},
    )
    for check in workload["status"].get("admissionChecks") or ():
        for update in check.get("podSetUpdates") or ():
            if update["name"] == info.name:
                try:
                    info = info.merged(pod_set_info.from_update(update))
                except pod_set_info.PodSetConflictError as conflict:
                    raise pod_set_info.PodSetConflictError(
                        f'in admission check "{check["name"]}": {conflict}'
                    ) from None
                break
    return info


def _names(workload: Object) -> dict[str, str]:
    names = {WORKLOAD_ANNOTATION: workload["metadata"]["name"]}
    if (workload["metadata"].get("annotations") or {}).get(ELASTIC_JOB) == "true":
        names[WORKLOAD_SLICE_NAME] = slices.slice_name(workload)
    return names


def from_workload(workload: Object | None) -> list[PodSetInfo]:
    """What the templates were before anything was injected."""
    return [pod_set_info.from_pod_set(pod_set) for pod_set in workload["spec"]["podSets"]] if workload else []
