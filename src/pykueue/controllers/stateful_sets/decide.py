"""The Workload of a StatefulSet, and how its pods become members of the Workload's pod group.

Pure functions.

All replicas share one Workload. A StatefulSet cannot be suspended: its pods are created with the
admission gate, and `controllers.pods` removes the gate when the Workload is admitted. When the
StatefulSet is scaled to zero, its Workload is put on hold and its quota is released.
"""

from pykueue.api import objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import (
    IS_GROUP_WORKLOAD,
    JOB_OWNER_GVK,
    JOB_OWNER_NAME,
    MANAGED,
    POD_GROUP_FAST_ADMISSION,
    POD_GROUP_NAME,
    POD_GROUP_POD_INDEX_LABEL,
    POD_GROUP_SERVING,
    POD_GROUP_TOTAL_COUNT,
    PREBUILT_WORKLOAD_NAME,
    PRIORITY_CLASS,
    QUEUE_NAME,
    ROLE_HASH,
)
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import construction
from pykueue.controllers.jobs.context import JobPolicy, PriorityClasses
from pykueue.controllers.workloads import predicates, transitions
from pykueue.controllers.workloads.unadmitted import LEGACY, PENDING_EVALUATION, UnadmittedStatus
from pykueue.kube.controller.writes import Action, Update, changes
from pykueue.translate.jobs import framework, pods, topology_request

PARENT = "statefulset"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"


def workload_name(stateful_set: Object, *, max_length: int = construction.MAX_NAME_LENGTH) -> str:
    name, uid = objects.name(stateful_set), construction.original_uid(stateful_set)
    return construction.workload_name(resources.STATEFUL_SET, name, uid, max_length=max_length)


def former_workload_name(stateful_set: Object, *, max_length: int) -> str:
    """The name that older versions of Kueue gave: its hash does not have the uid."""
    return construction.workload_name(resources.STATEFUL_SET, objects.name(stateful_set), "", max_length=max_length)


def replicas(stateful_set: Object) -> int:
    count = stateful_set["spec"].get("replicas")
    return 1 if count is None else int(count)


def workload_of(stateful_set: Object, classes: PriorityClasses, policy: JobPolicy) -> Object:
    template = stateful_set["spec"]["template"]
    pod_set: Object = {
        "name": "main",
        "count": replicas(stateful_set),
        "template": {"spec": copied(template["spec"])},
    }
    request = topology_request.from_annotations(
        objects.nested(template, "metadata", "annotations"), pod_index_label=POD_INDEX_LABEL
    )
    if policy.options.topology_aware and request is not None:
        pod_set["topologyRequest"] = request
    priority = construction.priority_of(pods.FRAMEWORK, stateful_set, [pod_set], classes)
    workload = construction.workload_of(pods.FRAMEWORK, stateful_set, [pod_set], priority=priority)
    metadata = workload["metadata"]
    metadata["name"] = workload_name(stateful_set, max_length=policy.max_name_length)
    metadata["ownerReferences"] = [_reference(stateful_set)]
    metadata["annotations"] = {
        **metadata.get("annotations", {}),
        IS_GROUP_WORKLOAD: "true",
        JOB_OWNER_GVK: "apps/v1, Kind=StatefulSet",
        JOB_OWNER_NAME: stateful_set["metadata"]["name"],
    }
    return workload


def _reference(stateful_set: Object) -> Object:
    metadata = stateful_set["metadata"]
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": metadata["name"], "uid": metadata["uid"]}


def sync_workload(
    stateful_set: Object, old: Object, now_ns: int, *, unadmitted: UnadmittedStatus = LEGACY
) -> list[Action]:
    """Updates queue name, owner and hold of an existing Workload."""
    new = copied(old)
    count = replicas(stateful_set)
    owners = new["metadata"].get("ownerReferences") or []
    if count and all(owner["uid"] != stateful_set["metadata"]["uid"] for owner in owners):
        new["metadata"]["ownerReferences"] = [*owners, _reference(stateful_set)]
    if count and new["spec"].get("queueName", "") != framework.queue_name(stateful_set):
        new["spec"]["queueName"] = framework.queue_name(stateful_set)
    if not count and predicates.holds_quota(old):
        message = "StatefulSet scaled to zero; workload on hold"
        transitions.release_quota(new, reason="OnHold", message=message, now_ns=now_ns, unadmitted=unadmitted)
    elif count and predicates.is_on_hold(old):
        message = "Workload no longer on hold; waiting for quota reservation"
        reason = unadmitted.reason(PENDING_EVALUATION, "Pending")
        transitions.release_quota(new, reason=reason, message=message, now_ns=now_ns, unadmitted=unadmitted)
    return changes(resources.WORKLOAD, old, new)


def sync_queue_label(pod: Object, stateful_set: Object) -> list[Action]:
    """Give a pod of the group the queue of its StatefulSet, which may change until pods run."""
    queue = objects.labels(stateful_set).get(QUEUE_NAME, "")
    if not queue or not replicas(stateful_set) or objects.labels(pod).get(QUEUE_NAME) == queue:
        return []
    new: Object = copied(pod)
    new["metadata"]["labels"][QUEUE_NAME] = queue
    return [Update(resource=resources.POD, old=pod, new=new)]


def with_group_labels(pod: Object, stateful_set: Object, name: str) -> Object:
    """The pod as a member of the StatefulSet's pod group, which has the name of the Workload."""
    new: Object = copied(pod)
    labels = new["metadata"].setdefault("labels", {})
    annotations = new["metadata"].setdefault("annotations", {})
    labels[MANAGED] = "true"
    for label in (QUEUE_NAME, PRIORITY_CLASS):
        if value := objects.labels(stateful_set).get(label, ""):
            labels[label] = value
    labels[POD_GROUP_NAME] = name
    labels[PREBUILT_WORKLOAD_NAME] = name
    annotations.update(
        {
            POD_GROUP_TOTAL_COUNT: str(replicas(stateful_set)),
            POD_GROUP_FAST_ADMISSION: "true",
            POD_GROUP_SERVING: "true",
            POD_GROUP_POD_INDEX_LABEL: POD_INDEX_LABEL,
            ROLE_HASH: "main",
        }
    )
    return new
