"""Builds the Workload of a job: its name, its spec and its priority."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence

from pykueue.api import objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import (
    ADMISSION_GATED_BY,
    JOB_UID,
    MULTI_KUEUE_ORIGIN,
    MULTI_KUEUE_ORIGIN_UID,
    PRIORITY_CLASS,
    PROVISIONING_REQUEST_PREFIX,
    RESOURCE_IN_USE,
)
from pykueue.api.scheme import Object, Resource
from pykueue.controllers.jobs import equivalence
from pykueue.controllers.jobs.context import PriorityClasses
from pykueue.translate.jobs import framework
from pykueue.translate.jobs.framework import JobFramework

MAX_NAME_LENGTH = 253
SHORT_NAME_LENGTH = 63
"""The maximum with the gate ShortWorkloadNames: such a name may be the value of a label."""
HASH_LENGTH = 5


def owner_reference(kind: JobFramework, job: Object) -> Object:
    identity = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
    return objects.controller_reference({**job, **identity})


def name_of(kind: JobFramework, job: Object, extra: str = "", *, max_length: int = MAX_NAME_LENGTH) -> str:
    metadata = job["metadata"]
    return workload_name(kind.resource, metadata["name"], metadata["uid"], extra, max_length=max_length)


def workload_of(
    kind: JobFramework,
    job: Object,
    pod_sets: Sequence[Object],
    *,
    priority: Object,
    label_keys: Iterable[str] = (),
    annotation_keys: Collection[str] = (),
    max_name_length: int = MAX_NAME_LENGTH,
) -> Object:
    metadata, job_labels = job["metadata"], objects.labels(job)
    labels = {name: job_labels[name] for name in label_keys if name in job_labels}
    labels[JOB_UID] = metadata["uid"]
    workload: Object = {
        "apiVersion": resources.WORKLOAD.api_version,
        "kind": "Workload",
        "metadata": {
            "name": name_of(kind, job, max_length=max_name_length),
            "namespace": metadata["namespace"],
            "labels": labels,
            "finalizers": [RESOURCE_IN_USE],
            "ownerReferences": [owner_reference(kind, job)],
        },
        "spec": spec_of(job, pod_sets, priority),
    }
    annotations = copied_annotations(objects.annotations(job), annotation_keys)
    if annotations:
        workload["metadata"]["annotations"] = annotations
    return workload


def spec_of(job: Object, pod_sets: Sequence[Object], priority: Object) -> Object:
    spec: Object = {"podSets": [without_repeated_env(pod_set) for pod_set in pod_sets], **priority}
    queue_name = framework.queue_name(job)
    if queue_name:
        spec["queueName"] = queue_name
    max_seconds = equivalence.max_execution_seconds(job)
    if max_seconds is not None:
        spec["maximumExecutionTimeSeconds"] = max_seconds
    return spec


def copied_annotations(annotations: Mapping[str, str], keys: Collection[str] = ()) -> dict[str, str]:
    return {
        name: value
        for name, value in annotations.items()
        if name in keys or name.startswith(PROVISIONING_REQUEST_PREFIX) or (name == ADMISSION_GATED_BY and value)
    }


def without_repeated_env(pod_set: Object) -> Object:
    """Keeps the last of repeated variables: the API allows them in pods but not in a Workload."""
    if not any(map(_repeats_env, _containers(pod_set))):
        return pod_set
    pod_set = copied(pod_set)
    for container in _containers(pod_set):
        if container.get("env"):
            last = {variable["name"]: variable for variable in container["env"]}
            container["env"] = list(last.values())
    return pod_set


def _containers(pod_set: Object) -> list[Object]:
    spec = objects.nested(pod_set, "template", "spec")
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _repeats_env(container: Object) -> bool:
    env = container.get("env") or ()
    return len({variable["name"] for variable in env}) < len(env)


def workload_name(
    resource: Resource, name: str, uid: str, extra: str = "", *, max_length: int = MAX_NAME_LENGTH
) -> str:
    """Kind and job name, cut to the maximum length, and five hex digits of a hash."""
    parts = (resource.kind, resource.group, name, uid, *([extra] if extra else []))
    return _with_hash(f"{resource.kind.lower()}-{name}", parts, max_length)


def variant_name(parent: Object, flavor: str, max_length: int) -> str:
    """The name of a variant: that of its parent with the flavor, and a hash of its own."""
    resource, name = resources.WORKLOAD, objects.name(parent)
    parts = (resource.kind, resource.group, name, parent["metadata"].get("uid", ""), flavor)
    return _with_hash(f"{name.rpartition('-')[0]}-variant-{flavor}", parts, max_length)


def _with_hash(prefix: str, parts: Iterable[str], max_length: int) -> str:
    digest = hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()
    return f"{prefix[: max_length - 1 - HASH_LENGTH]}-{digest[:HASH_LENGTH]}"


def original_uid(job: Object) -> str:
    """The uid from which the name of the Workload follows: of a copy, the uid of the job on the
    MultiKueue manager.
    """
    original = objects.annotations(job).get(MULTI_KUEUE_ORIGIN_UID, "")
    return original if original and MULTI_KUEUE_ORIGIN in objects.labels(job) else objects.uid(job)


class MissingPriorityClassError(Exception):
    """The job names a priority class that does not exist (yet)."""

    def __init__(self, resource: Resource, name: str) -> None:
        super().__init__(f'{resource.plural}.{resource.group} "{name}" not found')
        self.resource = resource


def priority_of(kind: JobFramework, job: Object, pod_sets: Iterable[Object], classes: PriorityClasses) -> Object:
    """The fields `priorityClassRef` and `priority` of a Workload spec.

    The WorkloadPriorityClass of the job comes first, then its PriorityClass, then the default
    PriorityClass, then 0.
    """
    name = objects.labels(job).get(PRIORITY_CLASS, "")
    if name:
        if name not in classes.workload:
            raise MissingPriorityClassError(resources.WORKLOAD_PRIORITY_CLASS, name)
        reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": name}
        return {"priorityClassRef": reference, "priority": int(classes.workload[name].get("value", 0))}
    name = kind.priority_class(job) if kind.priority_class else first_priority_class(pod_sets)
    if not name:
        name = _default_class(classes)
    if not name:
        return {"priority": 0}
    if name not in classes.pod:
        raise MissingPriorityClassError(resources.PRIORITY_CLASS, name)
    reference = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": name}
    return {"priorityClassRef": reference, "priority": int(classes.pod[name].get("value", 0))}


def first_priority_class(pod_sets: Iterable[Object]) -> str:
    for pod_set in pod_sets:
        name = objects.nested(pod_set, "template", "spec").get("priorityClassName")
        if name:
            return str(name)
    return ""


def _default_class(classes: PriorityClasses) -> str:
    """The PriorityClass with `globalDefault`; the lowest one if there are several."""
    defaults = [priority_class for priority_class in classes.pod.values() if priority_class.get("globalDefault")]
    return objects.name(min(defaults, key=lambda priority_class: int(priority_class["value"]))) if defaults else ""
