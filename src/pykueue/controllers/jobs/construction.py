"""The Workload of a job, as it is first created."""

from collections.abc import Iterable, Mapping, Sequence

from pykueue.api import resources
from pykueue.api.labels import ADMISSION_GATED_BY, JOB_UID, PROVISIONING_REQUEST_PREFIX, RESOURCE_IN_USE
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import equivalence, naming
from pykueue.translate.jobs import framework
from pykueue.translate.jobs.framework import Framework


def owner_reference(kind: Framework, job: Object) -> Object:
    return {
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def name_of(kind: Framework, job: Object, extra: str = "") -> str:
    return naming.workload_name(kind.resource, job["metadata"]["name"], job["metadata"]["uid"], extra)


def workload_of(
    kind: Framework, job: Object, pod_sets: Sequence[Object], *, priority: Object, label_keys: Iterable[str] = ()
) -> Object:
    metadata = job["metadata"]
    job_labels = metadata.get("labels") or {}
    labels = {name: job_labels[name] for name in label_keys if name in job_labels}
    labels[JOB_UID] = metadata["uid"]
    workload: Object = {
        "apiVersion": resources.WORKLOAD.api_version,
        "kind": "Workload",
        "metadata": {
            "name": name_of(kind, job),
            "namespace": metadata["namespace"],
            "labels": labels,
            "finalizers": [RESOURCE_IN_USE],
            "ownerReferences": [owner_reference(kind, job)],
        },
        "spec": spec_of(job, pod_sets, priority),
    }
    annotations = copied_annotations(metadata.get("annotations") or {})
    if annotations:
        workload["metadata"]["annotations"] = annotations
    return workload


def spec_of(job: Object, pod_sets: Sequence[Object], priority: Object) -> Object:
    spec: Object = {"podSets": [without_repeated_env(pod_set) for pod_set in pod_sets], **priority}
    queue_name = framework.queue_name(job)
    if queue_name:
        spec["queueName"] = queue_name
    limit = equivalence.max_execution_seconds(job)
    if limit is not None:
        spec["maximumExecutionTimeSeconds"] = limit
    return spec


def copied_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in annotations.items()
        if name.startswith(PROVISIONING_REQUEST_PREFIX) or (name == ADMISSION_GATED_BY and value)
    }


def without_repeated_env(pod_set: Object) -> Object:
    """The API refuses a repeated variable in a Workload though pods may have it: the last one counts."""
    spec = (pod_set.get("template") or {}).get("spec") or {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if container.get("env"):
            last = {variable["name"]: variable for variable in container["env"]}
            container["env"] = list(last.values())
    return pod_set
