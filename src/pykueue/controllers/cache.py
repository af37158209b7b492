"""The object cache of Kueue's controllers: indexes, transforms, and shared ways to read it.

Used by all controllers together, and by the follower of a replica that does not lead.
"""

from pykueue.api import objects, resources
from pykueue.api.rules.jobs.management import MULTI_KUEUE
from pykueue.api.scheme import Object
from pykueue.controllers.jobs.context import PriorityClasses
from pykueue.kube.controller.cache import Key, ObjectCache


def new_cache() -> ObjectCache:
    cache = ObjectCache()
    cache.set_transform(resources.CLUSTER_QUEUE, with_spec)
    cache.set_transform(resources.LOCAL_QUEUE, with_spec)
    cache.set_transform(resources.WORKLOAD, with_pod_specs)
    cache.add_index(resources.WORKLOAD, "localQueue", _local_queue_key)
    cache.add_index(resources.WORKLOAD, "owner", _owner_keys)
    cache.add_index(resources.WORKLOAD, "workloadPriorityClass", _priority_class_names)
    cache.add_index(resources.LOCAL_QUEUE, "clusterQueue", lambda queue: [queue["spec"].get("clusterQueue", "")])
    cache.add_index(resources.LIMIT_RANGE, "namespace", lambda limit_range: [objects.namespace(limit_range)])
    return cache


def priority_classes(cache: ObjectCache) -> PriorityClasses:
    return PriorityClasses(
        workload=cache.by_name(resources.WORKLOAD_PRIORITY_CLASS), pod=cache.by_name(resources.PRIORITY_CLASS)
    )


def namespace_labels(cache: ObjectCache, name: str) -> dict[str, str] | None:
    """The labels of a namespace; None if it does not exist."""
    namespace = cache.get(resources.NAMESPACE, name)
    return None if namespace is None else objects.labels(namespace)


def dispatching_checks(cache: ObjectCache) -> frozenset[str]:
    """The names of the AdmissionChecks of MultiKueue."""
    return frozenset(
        objects.name(check)
        for check in cache.all(resources.ADMISSION_CHECK)
        if objects.spec(check).get("controllerName") == MULTI_KUEUE
    )


def split_key(text: str) -> Key:
    """The key that an index holds as "namespace/name"."""
    namespace, _, name = text.partition("/")
    return namespace, name


def with_spec(obj: Object) -> Object:
    """With a spec, which the API does not require."""
    return obj if "spec" in obj else {**obj, "spec": {}}


def with_pod_specs(workload: Object) -> Object:
    """With a spec, and a spec in every pod template; the API requires neither."""
    workload = with_spec(workload)
    pod_sets = workload["spec"].get("podSets") if isinstance(workload["spec"], dict) else None
    if not isinstance(pod_sets, list) or all("spec" in pod_set.get("template", ()) for pod_set in pod_sets):
        return workload
    complete = [{**pod_set, "template": {"spec": {}, **pod_set.get("template", {})}} for pod_set in pod_sets]
    return {**workload, "spec": {**workload["spec"], "podSets": complete}}


def _local_queue_key(workload: Object) -> list[str]:
    return [f"{objects.namespace(workload)}/{workload['spec'].get('queueName', '')}"]


def _owner_keys(workload: Object) -> list[str]:
    return [
        f"{reference['kind']}/{objects.namespace(workload)}/{reference['name']}"
        for reference in objects.owner_references(workload)
        if reference.get("controller")
    ]


def _priority_class_names(workload: Object) -> list[str]:
    reference = workload["spec"].get("priorityClassRef") or {}
    return [reference["name"]] if reference.get("kind") == "WorkloadPriorityClass" else []
