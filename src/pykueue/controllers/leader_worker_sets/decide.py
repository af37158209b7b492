"""The Workloads of a LeaderWorkerSet: every replica is a pod group with its own Workload.

Pure functions.

They decide which Workloads exist, build them, and label the pods as members of their group.
`controllers.pods` removes the admission gates of the pods.
"""

from collections.abc import Iterable

import msgspec

from pykueue.api import objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import (
    ADMISSION_GATE,
    COMPONENT_WORKLOAD_INDEX,
    IS_GROUP_WORKLOAD,
    JOB_OWNER_GVK,
    JOB_OWNER_NAME,
    MANAGED,
    MULTI_KUEUE_ORIGIN,
    POD_GROUP_NAME,
    POD_GROUP_TOTAL_COUNT,
    PREBUILT_WORKLOAD_NAME,
    QUEUE_NAME,
    ROLE_HASH,
    TOPOLOGY_GATE,
)
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import construction, matching
from pykueue.controllers.jobs.context import JobContext
from pykueue.controllers.workloads import predicates
from pykueue.controllers.workloads.decide import remove_finalizer
from pykueue.kube.controller.writes import Action, Create, Delete, Event, changes
from pykueue.translate.jobs import framework, pods, topology_request
from pykueue.translate.jobs.framework import JobOptions

NAME = "leaderworkerset.x-k8s.io/leaderworkerset"
DOMAIN = "leaderworkerset.sigs.k8s.io"
SET_NAME_LABEL = f"{DOMAIN}/name"
GROUP_INDEX_LABEL = f"{DOMAIN}/group-index"
WORKER_INDEX_LABEL = f"{DOMAIN}/worker-index"
LEADER_NAME_ANNOTATION = f"{DOMAIN}/leader-name"
REVISION_LABEL = "controller-revision-hash"
MOST_GROUPS = 5000
"""Groups beyond these have no Workloads: a number in a request does not become unbounded work."""
_MOST_PER_SYNC = 500
LEADER, WORKER, MAIN = "leader", "worker", "main"


class GroupWorkloads(msgspec.Struct, frozen=True, kw_only=True):
    """The existing Workloads, compared with the groups of the set."""

    missing: tuple[int, ...]
    current: tuple[Object, ...]
    excess: tuple[Object, ...]


def workload_name(
    leader_worker_set: Object, index: int | str, *, max_length: int = construction.MAX_NAME_LENGTH
) -> str:
    name, uid = f"{objects.name(leader_worker_set)}-{index}", construction.original_uid(leader_worker_set)
    return construction.workload_name(resources.LEADER_WORKER_SET, name, uid, max_length=max_length)


def size(leader_worker_set: Object) -> int:
    count = objects.nested(leader_worker_set, "spec", "leaderWorkerTemplate").get("size")
    return 1 if count is None else int(count)


def replicas(leader_worker_set: Object) -> int:
    """The number of groups, including those that a rolling update adds temporarily."""
    count = objects.spec(leader_worker_set).get("replicas")
    desired = 1 if count is None else min(MOST_GROUPS, int(count))
    status = leader_worker_set.get("status") or {}
    is_rolling = int(status.get("updatedReplicas", 0)) < desired
    if is_rolling and _surge(leader_worker_set) > 0:
        return min(MOST_GROUPS, max(desired, int(status.get("replicas", 0))))
    return desired


def _surge(leader_worker_set: Object) -> int:
    """The value of `maxSurge`; 0 if it is a percentage."""
    strategy = objects.nested(leader_worker_set, "spec", "rolloutStrategy")
    text = str(objects.nested(strategy, "rollingUpdateConfiguration").get("maxSurge", ""))
    return int(text) if text.isdigit() else 0


def compare_workloads(
    leader_worker_set: Object, existing: Iterable[Object], *, max_length: int = construction.MAX_NAME_LENGTH
) -> GroupWorkloads:
    by_name = {workload["metadata"]["name"]: workload for workload in existing}
    missing: list[int] = []
    current: list[Object] = []
    for index in range(replicas(leader_worker_set)):
        workload = by_name.pop(workload_name(leader_worker_set, index, max_length=max_length), None)
        if workload is None:
            missing.append(index)
        else:
            current.append(workload)
    return GroupWorkloads(
        missing=tuple(missing[:_MOST_PER_SYNC]), current=tuple(current), excess=tuple(by_name.values())
    )


def plan(context: JobContext, leader_worker_set: Object) -> list[Action]:
    """Creates, updates and deletes Workloads; `context.workloads` are all Workloads of the set.

    The Workloads of a copy that a MultiKueue manager created are created by the manager.
    """
    workloads = compare_workloads(leader_worker_set, context.workloads, max_length=context.policy.max_name_length)
    actions: list[Action] = []
    for workload in workloads.excess:
        actions += _deleted(workload)
    for workload in workloads.current:
        actions += sync_workload(context, leader_worker_set, workload)
    is_copy = MULTI_KUEUE_ORIGIN in objects.labels(leader_worker_set)
    for index in () if is_copy else workloads.missing:
        workload = workload_of(context, leader_worker_set, index)
        actions += (
            Create(resource=resources.WORKLOAD, object=workload),
            Event(
                about=leader_worker_set,
                reason="CreatedWorkload",
                message=f"Created Workload: {predicates.key(workload)}",
            ),
        )
    return actions


def _deleted(old: Object) -> list[Action]:
    actions = without_finalizer(old)
    if not objects.is_deleted(old):
        actions.append(Delete(resource=resources.WORKLOAD, object=old))
    return actions


def without_finalizer(old: Object) -> list[Action]:
    """Removes the finalizer `resource-in-use` of a Workload."""
    new = copied(old)
    remove_finalizer(new)
    return changes(resources.WORKLOAD, old, new)


def sync_workload(context: JobContext, leader_worker_set: Object, old: Object) -> list[Action]:
    """Copies queue name, admission gate and priority class of the set to a Workload."""
    if objects.is_deleted(old):
        return []
    queue_name = framework.queue_name(leader_worker_set)
    if old["spec"].get("queueName", "") != queue_name:
        return changes(resources.WORKLOAD, old, {**old, "spec": {**old["spec"], "queueName": queue_name}})
    return list(matching.follow_labels(context, leader_worker_set, old).actions)


def workload_of(context: JobContext, leader_worker_set: Object, index: int) -> Object:
    metadata = leader_worker_set["metadata"]
    sets = pod_sets(leader_worker_set, context.policy.options)
    workload = construction.workload_of(
        pods.FRAMEWORK,
        leader_worker_set,
        sets,
        priority=construction.priority_of(pods.FRAMEWORK, leader_worker_set, sets, context.classes),
        label_keys=context.policy.label_keys_to_copy,
        annotation_keys=context.policy.annotation_keys_to_copy,
    )
    resource = resources.LEADER_WORKER_SET
    owner = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    annotations = {
        **workload["metadata"].get("annotations", {}),
        IS_GROUP_WORKLOAD: "true",
        JOB_OWNER_GVK: f"{resource.api_version}, Kind={resource.kind}",
        JOB_OWNER_NAME: metadata["name"],
        COMPONENT_WORKLOAD_INDEX: str(index),
    }
    workload["metadata"] |= {
        "name": workload_name(leader_worker_set, index, max_length=context.policy.max_name_length),
        "ownerReferences": [owner],
        "annotations": annotations,
    }
    return workload


def pod_sets(leader_worker_set: Object, options: JobOptions) -> list[Object]:
    template = objects.nested(leader_worker_set, "spec", "leaderWorkerTemplate")
    leader, worker = template.get("leaderTemplate"), objects.nested(template, "workerTemplate")
    count = size(leader_worker_set)
    if leader is None:
        return [_pod_set(MAIN, worker, count, options, WORKER_INDEX_LABEL)]
    return [
        _pod_set(LEADER, leader, 1, options),
        _pod_set(WORKER, worker, count - 1, options, WORKER_INDEX_LABEL),
    ]


def _pod_set(name: str, template: Object, count: int, options: JobOptions, *index_label: str) -> Object:
    visible = copied(template)
    metadata = visible.get("metadata") or {}
    for part in ("labels", "annotations"):
        if metadata.get(part):
            metadata[part] = {key: value for key, value in metadata[part].items() if not _belongs_to_operator(key)}
    pod_set: Object = {"name": name, "count": count, "template": visible}
    if options.topology_aware:
        annotations = objects.nested(template, "metadata", "annotations")
        label = index_label[0] if index_label else None
        request = topology_request.from_annotations(annotations, pod_index_label=label)
        if request is not None:
            pod_set["topologyRequest"] = request
    return pod_set


def _belongs_to_operator(key: str) -> bool:
    return key.startswith(DOMAIN) and key != SET_NAME_LABEL


def with_group_labels(
    pod: Object, leader_worker_set: Object, *, max_name_length: int = construction.MAX_NAME_LENGTH
) -> Object:
    """The pod as a member of its pod group; unchanged until it has a group index."""
    labels = objects.labels(pod)
    queue_name = framework.queue_name(leader_worker_set)
    is_marked = MANAGED in labels
    if not is_marked and GROUP_INDEX_LABEL not in labels:
        return pod
    new: Object = copied(pod)
    if queue_name and pods.is_gated(pod):
        new["metadata"]["labels"][QUEUE_NAME] = queue_name
    if is_marked:
        return new
    name = workload_name(leader_worker_set, labels[GROUP_INDEX_LABEL], max_length=max_name_length)
    new["metadata"]["labels"][MANAGED] = "true"
    annotations = new["metadata"].setdefault("annotations", {})
    annotations |= {
        POD_GROUP_NAME: name,
        PREBUILT_WORKLOAD_NAME: name,
        POD_GROUP_TOTAL_COUNT: str(size(leader_worker_set)),
        ROLE_HASH: _role(pod, leader_worker_set),
    }
    return new


def _role(pod: Object, leader_worker_set: Object) -> str:
    if objects.nested(leader_worker_set, "spec", "leaderWorkerTemplate").get("leaderTemplate") is None:
        return MAIN
    return WORKER if LEADER_NAME_ANNOTATION in objects.annotations(pod) else LEADER


def is_outdated(pod: Object, stateful_set: Object | None) -> bool:
    """Whether the pod has an old revision; a gated pod would block the StatefulSet's rollout."""
    status = (stateful_set or {}).get("status") or {}
    current, update = status.get("currentRevision", ""), status.get("updateRevision", "")
    return bool(current != update and current == objects.labels(pod).get(REVISION_LABEL))


def ungated(pod: Object) -> Object:
    new: Object = copied(pod)
    pods.remove_gates(new, ADMISSION_GATE, TOPOLOGY_GATE)
    return new
