"""The pod set infos of an admitted Workload: node selectors, tolerations, labels and so on."""

import re
from collections.abc import Mapping

from msgspec.structs import replace

from pykueue.api import errors, objects
from pykueue.api.labels import (
    CLUSTER_QUEUE_NAME,
    ELASTIC_JOB,
    LOCAL_QUEUE_NAME,
    MULTI_KUEUE_ORIGIN,
    MULTI_KUEUE_WORKER_POD,
    POD_SET_LABEL,
    WORKLOAD_ANNOTATION,
    WORKLOAD_SLICE_NAME,
)
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import slices
from pykueue.translate import pod_set_info
from pykueue.translate.pod_set_info import PodSetInfo

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class InjectionError(Exception):
    """A flavor of the admission does not exist; the caller retries."""


def from_admission(workload: Object, flavors: Mapping[str, Object], *, labels_queues: bool = True) -> list[PodSetInfo]:
    """One info for each pod set, in order. PodSetConflictError is permanent."""
    queue_labels = _queue_labels(workload) if labels_queues else {}
    pod_sets = {pod_set["name"]: pod_set for pod_set in workload["spec"]["podSets"]}
    admission = workload["status"]["admission"]
    return [
        _info(workload, assignment, pod_sets[assignment["name"]], flavors, queue_labels=queue_labels)
        for assignment in admission.get("podSetAssignments") or ()
    ]


def _queue_labels(workload: Object) -> dict[str, str]:
    labels = {LOCAL_QUEUE_NAME: workload["spec"].get("queueName", "")}
    cluster_queue = workload["status"]["admission"]["clusterQueue"]
    if _DNS_LABEL.fullmatch(cluster_queue):
        labels[CLUSTER_QUEUE_NAME] = cluster_queue
    return labels


def _info(
    workload: Object,
    assignment: Object,
    pod_set: Object,
    flavors: Mapping[str, Object],
    *,
    queue_labels: Mapping[str, str],
) -> PodSetInfo:
    try:
        info = pod_set_info.from_assignment(assignment, pod_set, flavors=flavors)
    except errors.ApiError as error:
        raise InjectionError(error.message) from error
    info = replace(
        info,
        labels={**info.labels, POD_SET_LABEL: assignment["name"], **_worker_labels(workload), **queue_labels},
        annotations={**info.annotations, **_workload_annotations(workload)},
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


def _worker_labels(workload: Object) -> dict[str, str]:
    """Marks the pods of a Workload that a MultiKueue manager created here."""
    return {MULTI_KUEUE_WORKER_POD: "true"} if MULTI_KUEUE_ORIGIN in objects.labels(workload) else {}


def _workload_annotations(workload: Object) -> dict[str, str]:
    annotations = {WORKLOAD_ANNOTATION: workload["metadata"]["name"]}
    if objects.annotations(workload).get(ELASTIC_JOB) == "true":
        annotations[WORKLOAD_SLICE_NAME] = slices.slice_name(workload)
    return annotations


def from_workload(workload: Object | None) -> list[PodSetInfo]:
    """The infos of the original templates, which the Workload stores."""
    return [pod_set_info.from_pod_set(pod_set) for pod_set in workload["spec"]["podSets"]] if workload else []
