"""Decides what to do next with a single pod or a pod group: `plan` returns a plan of writes.

The steps are those of `controllers.jobs.decide`, for many objects at once. The owner of a failed
pod replaces it, and excess pods are deleted. A Workload with the group's name that was not created
for a pod group is never used, so that a group cannot run on the quota of another job.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from pykueue.api import conditions, objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import IS_GROUP_WORKLOAD, MANAGED, POD_GROUP_TOTAL_COUNT
from pykueue.api.scheme import Object
from pykueue.api.times import from_ns, to_ns
from pykueue.controllers.jobs import (
    construction,
    decide,
    equivalence,
    injection,
    matching,
)
from pykueue.controllers.jobs.context import JobContext
from pykueue.controllers.workloads import predicates, transitions
from pykueue.controllers.workloads.decide import remove_finalizer
from pykueue.kube.controller.writes import Action, Create, Delete, Event, Plan, Update, changes
from pykueue.translate.jobs import framework, pods
from pykueue.translate.jobs.pods import PodGroup
from pykueue.translate.pod_set_info import PodSetConflictError

MAX_POD_SETS = 18


class _GroupMatch(msgspec.Struct, frozen=True, kw_only=True):
    workload: Object | None = None
    group: PodGroup
    """The group without excess and replaced pods."""
    first: Object
    """The first pod of the whole group; events about the group are recorded on it."""
    missing: int = 0
    actions: tuple[Action, ...] = ()


def plan(context: JobContext, group: PodGroup | None) -> Plan:
    if group is None or (not group.name and objects.is_deleted(group.lead)):
        actions = decide.release_orphans(context)
        return Plan(actions=(*actions, *(_remove_finalizers(group.pods) if group else ())))
    if objects.labels(group.lead).get(MANAGED) != "true":
        return Plan()
    if not framework.queue_name(group.lead) and not context.policy.manage_jobs_without_queue_name:
        return Plan()
    if context.namespace_labels is None or not context.policy.manages(context.namespace_labels):
        return Plan()
    match = _find_workload(context, group)
    if match.actions:
        return Plan(actions=match.actions)
    return _managed(context, match)


def _remove_finalizers(members: Iterable[Object]) -> list[Action]:
    actions: list[Action] = []
    for old in members:
        finalizers = objects.finalizers(old)
        if MANAGED in finalizers:
            others = [name for name in finalizers if name != MANAGED]
            new = {**old, "metadata": {**old["metadata"], "finalizers": others}}
            actions.append(Update(resource=resources.POD, old=old, new=new))
    return actions


# The Workload of the group.


def _find_workload(context: JobContext, group: PodGroup) -> _GroupMatch:
    if not group.name:
        return _find_workload_of_pod(context, group)
    old = next((workload for workload in context.workloads if objects.name(workload) == group.name), None)
    if old is None:
        return _GroupMatch(group=group, first=group.lead)
    if context.policy.checks_group_owner and objects.annotations(old).get(IS_GROUP_WORKLOAD) != "true":
        message = (
            f'A Workload named "{group.name}" already exists but is not a pod group workload; '
            "this pod group cannot be admitted"
        )
        inactive = [pod for pod in group.pods if not pods.is_runnable_or_succeeded(pod)]
        event = Event(about=group.lead, reason="WorkloadNameConflict", message=message, type="Warning")
        return _GroupMatch(group=group, first=group.lead, actions=(event, *_remove_finalizers(inactive)))
    members = sort_members(group, old, context.now_ns)
    current = replace(group, pods=members.current)
    if not members.current or not _covers(old, current, context):
        return _GroupMatch(group=group, first=group.lead, actions=tuple(_mismatch(context, group, old)))
    actions = [*_add_owners(old, current), *_remove_excess(members), *_remove_finalizers(members.replaced)]
    return _GroupMatch(workload=old, group=current, first=group.lead, missing=members.missing, actions=tuple(actions))


def _covers(workload: Object, group: PodGroup, context: JobContext) -> bool:
    """Whether the Workload has every role of the group with at least as many pods."""
    if workload["spec"].get("maximumExecutionTimeSeconds") != equivalence.max_execution_seconds(group.lead):
        return False
    counts = {pod_set["name"]: pod_set.get("count", 1) for pod_set in workload["spec"]["podSets"]}
    finished = predicates.is_finished(workload)
    return all(
        pod_set["name"] in counts and (finished or pod_set["count"] <= counts[pod_set["name"]])
        for pod_set in group.pod_sets(context.policy.options)
    )


def _mismatch(context: JobContext, group: PodGroup, old: Object) -> list[Action]:
    if group.is_suspended and not predicates.has_quota_reservation(old):
        rebuilt = _construct(context, group)
        if isinstance(rebuilt, Event):
            return [rebuilt]
        new = {**old, "spec": {**rebuilt["spec"], "active": old["spec"].get("active", True)}}
        message = f"Updated not matching Workload for suspended job: {predicates.key(old)}"
        return [
            *changes(resources.WORKLOAD, old, new),
            Event(about=group.lead, reason="UpdatedWorkload", message=message),
        ]
    stop: list[Action] = []
    if not group.is_suspended and group.finished() is None:
        message = "No matching Workload; restoring pod templates according to existent Workload"
        stop = _stop(context, group, reason="NoMatchingWorkload", message=message)
    new = copied(old)
    remove_finalizer(new)
    message = f"Deleted not matching Workload: {predicates.key(old)}"
    return [
        *stop,
        *changes(resources.WORKLOAD, old, new),
        Delete(resource=resources.WORKLOAD, object=new),
        Event(about=group.lead, reason="DeletedWorkload", message=message),
    ]


def _add_owners(old: Object, group: PodGroup) -> list[Action]:
    references = old["metadata"].get("ownerReferences") or []
    owner_uids = {reference["uid"] for reference in references}
    added = [_reference(pod) for pod in group.pods if pod["metadata"]["uid"] not in owner_uids]
    if not added:
        return []
    new = {**old, "metadata": {**old["metadata"], "ownerReferences": [*references, *added]}}
    message = f"Added {len(added)} owner reference(s)"
    return [
        Update(resource=resources.WORKLOAD, old=old, new=new),
        Event(about=old, reason="OwnerReferencesAdded", message=message),
    ]


def _reference(pod: Object) -> Object:
    metadata = pod["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}


def _remove_excess(members: "Members") -> list[Action]:
    actions: list[Action] = []
    for pod in members.excess:
        actions += _remove_finalizers([pod])
        if not objects.is_deleted(pod):
            actions.append(Delete(resource=resources.POD, object=pod))
            actions.append(Event(about=pod, reason="ExcessPodDeleted", message="Excess pod deleted"))
    return actions


def _find_workload_of_pod(context: JobContext, group: PodGroup) -> _GroupMatch:
    pod_sets = group.pod_sets(context.policy.options)
    if matching.prebuilt_name(group.lead, context.policy):
        prebuilt = matching.find_prebuilt(context, group.lead, pod_sets, is_suspended=group.is_suspended)
        return _GroupMatch(workload=prebuilt.workload, group=group, first=group.lead, actions=prebuilt.actions)
    match, others = None, []
    for workload in context.workloads:
        is_match = equivalence.describes(
            workload, group.lead, pod_sets, context.flavors, is_suspended=group.is_suspended
        )
        if is_match and match is None:
            match = workload
        else:
            others.append(workload)
    actions: list[Action] = []
    for old in others:
        new = copied(old)
        remove_finalizer(new)
        actions += [*changes(resources.WORKLOAD, old, new), Delete(resource=resources.WORKLOAD, object=new)]
    if match is None and not group.is_suspended:
        message = "Missing Workload; unable to restore pod templates"
        actions = [*_stop(context, group, reason="NoMatchingWorkload", message=message), *actions]
    return _GroupMatch(workload=match, group=group, first=group.lead, actions=tuple(actions))


# The steps for a group and its Workload.


def _managed(context: JobContext, match: _GroupMatch) -> Plan:
    group, old = match.group, match.workload
    if old is not None and group.name:
        new = copied(old)
        if _set_waiting_for_replacement(new, match.missing, context.now_ns):
            return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))
    if old is not None and predicates.is_finished(old):
        new = copied(old)
        remove_finalizer(new)
        actions = [*_remove_finalizers(group.pods), *changes(resources.WORKLOAD, old, new)]
        events = (decide.finished_event(match.first, old),) if actions else ()
        return Plan(actions=(*events, *actions))
    if old is not None and objects.is_deleted(old):
        new = copied(old)
        remove_finalizer(new)
        stop = _stop(context, group, reason="WorkloadDeleted", message="Workload is deleted")
        return Plan(actions=(*stop, *changes(resources.WORKLOAD, old, new)))
    finished = group.finished()
    if finished is not None:
        return _finish(context, match, finished)
    if old is None:
        return _create(context, group)
    return _sync_unfinished(context, group, old)


def _set_waiting_for_replacement(workload: Object, missing: int, now_ns: int) -> bool:
    condition_type = "WaitingForReplacementPods"
    present = conditions.find(workload, condition_type)
    if not missing:
        if present is None or present["status"] == "False":
            return False
        message = "No pods need replacement"
        return conditions.put(
            workload, condition_type, status=False, reason="PodsReady", message=message, now_ns=now_ns
        )
    evicted = conditions.find(workload, "Evicted")
    if evicted is not None and evicted["status"] == "True":
        reason, message = evicted["reason"], evicted["message"]
    elif present is not None and present["status"] == "True":
        return False
    else:
        reason, message = "PodsFailed", "Some Failed pods need replacement"
    return conditions.put(workload, condition_type, status=True, reason=reason, message=message, now_ns=now_ns)


def _finish(context: JobContext, match: _GroupMatch, finished: framework.JobResult) -> Plan:
    actions: list[Action] = []
    old = match.workload
    if old is not None:
        new = copied(old)
        reason = "Succeeded" if finished.is_success else "Failed"
        transitions.finish(new, reason=reason, message=finished.message, now_ns=context.now_ns)
        actions = [*changes(resources.WORKLOAD, old, new), decide.finished_event(match.first, old)]
    return Plan(actions=(*actions, *_remove_finalizers(match.group.pods)))


def _create(context: JobContext, group: PodGroup) -> Plan:
    if matching.prebuilt_name(group.lead, context.policy):
        return Plan(actions=tuple(_stop(context, group, reason="NoMatchingWorkload", message="missing workload")))
    if _is_active(context, group):
        return Plan()
    active = [pod for pod in group.pods if pods.is_runnable_or_succeeded(pod)]
    inactive = [pod for pod in group.pods if not pods.is_runnable_or_succeeded(pod)]
    actions: list[Action] = _remove_finalizers(inactive) if group.name else []
    workload = _construct(context, group)
    if isinstance(workload, Event):
        return Plan(actions=(*actions, workload))
    if group.name and len(active) > group.total_count:
        active.sort(key=lambda pod: (MANAGED not in objects.finalizers(pod), pods.is_gated(pod)))
        actions += _remove_excess(
            Members(current=(), excess=tuple(active[group.total_count :]), replaced=(), missing=0)
        )
        return Plan(actions=tuple(actions))
    event = Event(about=group.lead, reason="CreatedWorkload", message=f"Created Workload: {predicates.key(workload)}")
    return Plan(actions=(*actions, Create(resource=resources.WORKLOAD, object=workload), event))


def _construct(context: JobContext, group: PodGroup) -> Object | Event:
    """The Workload of the group, or an event that says why it cannot be created yet."""
    pod_sets = group.pod_sets(context.policy.options)
    chosen = construction.priority_of(pods.FRAMEWORK, group.lead, pod_sets, context.classes)
    keys, annotation_keys = context.policy.label_keys_to_copy, context.policy.annotation_keys_to_copy
    workload = construction.workload_of(
        pods.FRAMEWORK,
        group.lead,
        pod_sets,
        priority=chosen,
        label_keys=keys,
        annotation_keys=annotation_keys,
        max_name_length=context.policy.max_name_length,
    )
    if not group.name:
        return workload
    fault = _group_fault(group, pod_sets)
    labels = _common(map(objects.labels, group.pods), keys)
    annotations = _common(map(objects.annotations, group.pods), annotation_keys)
    if not fault and (labels is None or annotations is None):
        fault = f"constructing workload: pods have different {'label' if labels is None else 'annotation'} values"
    if fault:
        return Event(about=group.lead, reason="ErrWorkloadCompose", message=fault, type="Warning")
    metadata = workload["metadata"]
    metadata["name"] = group.name
    metadata["labels"] = labels
    metadata["ownerReferences"] = [_reference(pod) for pod in group.pods]
    metadata["annotations"] = {**metadata.get("annotations", {}), **(annotations or {}), IS_GROUP_WORKLOAD: "true"}
    return workload


def _common(metadata: Iterable[Mapping[str, str]], keys: Collection[str]) -> dict[str, str] | None:
    """The entries with these keys that any pod has; None if two pods have different values."""
    common: dict[str, str] = {}
    for entries in metadata:
        for key, value in entries.items():
            if key in keys and common.setdefault(key, value) != value:
                return None
    return common


def _group_fault(group: PodGroup, pod_sets: list[Object]) -> str:
    runnable = [pod for pod in group.pods if pods.is_runnable_or_succeeded(pod)]
    if not group.is_fast and len(runnable) < group.total_count:
        return f"'{group.name}' group has fewer runnable pods than expected"
    lead = group.lead["metadata"]["name"]
    queue, count = framework.queue_name(group.lead), str(group.total_count)
    for pod in group.pods:
        if pods.phase(pod) == "Failed":
            continue
        name, own_queue = pod["metadata"]["name"], framework.queue_name(pod)
        if own_queue != queue:
            return f"pods '{lead}' and '{name}' has different queue names: {queue}!={own_queue}"
        own_count = objects.annotations(pod).get(POD_GROUP_TOTAL_COUNT, "")
        if own_count != count:
            key = POD_GROUP_TOTAL_COUNT
            return f"pods '{lead}' and '{name}' has different '{key}' values: {count}!={own_count}"
    if len(pod_sets) > MAX_POD_SETS:
        return "pod group can't include more than 18 roles"
    return ""


def _sync_unfinished(context: JobContext, group: PodGroup, old: Object) -> Plan:
    new = copied(old)
    if decide.set_reclaimable(new, group.reclaimable()):
        return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))
    if context.policy.waits_for_pods_ready and decide.set_pods_ready(
        new, is_ready=group.is_ready, now_ns=context.now_ns
    ):
        return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))
    if predicates.is_evicted(old):
        return _evicted(context, group, old)
    if group.is_suspended:
        if predicates.is_admitted(old):
            runs_elsewhere = any(check["name"] in context.dispatching_checks for check in predicates.checks(old))
            return Plan() if runs_elsewhere else _start(context, group, old)
        if not group.is_serving and old["spec"].get("queueName", "") != framework.queue_name(group.lead):
            new["spec"]["queueName"] = framework.queue_name(group.lead)
        return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))
    if predicates.is_admitted(old):
        return Plan()
    stop = _stop(context, group, reason="NotAdmitted", message="Not admitted by cluster queue")
    return Plan(actions=tuple(stop))


def _evicted(context: JobContext, group: PodGroup, old: Object) -> Plan:
    evicted = conditions.find(old, "Evicted")
    assert evicted is not None
    reason = f"WorkloadEvictedDueTo{evicted['reason']}"
    actions = _stop(context, group, reason=reason, message=evicted["message"])
    if predicates.has_quota_reservation(old) and not _is_active(context, group):
        new = copied(old)
        may_requeue = bool(group.name) or context.policy.requeues_single_pods
        decide.release_after_eviction(
            new, context.now_ns, may_requeue=may_requeue, unadmitted=context.policy.unadmitted
        )
        actions += changes(resources.WORKLOAD, old, new)
    return Plan(actions=tuple(actions))


def _is_active(context: JobContext, group: PodGroup) -> bool:
    """Whether pods still use quota; see `JobPolicy.deleted_pods_use_quota`."""
    if context.policy.deleted_pods_use_quota:
        return group.is_active(context.now_ns)
    living = tuple(pod for pod in group.pods if not objects.is_deleted(pod))
    return bool(living) and replace(group, pods=living).is_active(context.now_ns)


def _start(context: JobContext, group: PodGroup, old: Object) -> Plan:
    actions: list[Action] = []
    admitted = f"Admitted by clusterQueue {predicates.cluster_queue_reserved(old)}"
    templates = {pod_set["name"]: objects.nested(pod_set, "template", "spec") for pod_set in old["spec"]["podSets"]}
    try:
        all_infos = injection.from_admission(old, context.flavors, labels_queues=context.policy.labels_queues)
        infos = {info.name: info for info in all_infos}
        for pod in group.pods:
            if not pods.is_gated(pod):
                continue
            role = group.role(pod) if group.name else "main"
            if role not in infos:
                continue
            if group.name and not equivalence.has_same_requests(pod["spec"], templates[role]):
                message = f"pod asks for something else than its role '{role}' in the workload; it stays gated"
                actions.append(Event(about=pod, reason="ErrWorkloadCompose", message=message, type="Warning"))
                continue
            new = pods.released(pod, infos[role])
            if group.name:
                pods.set_role(new, role)
            actions.append(Update(resource=resources.POD, old=pod, new=new))
            actions.append(Event(about=pod, reason="Started", message=admitted))
    except PodSetConflictError as fault:
        new = copied(old)
        transitions.finish(new, reason="FailedToStart", message=str(fault), now_ns=context.now_ns)
        return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))
    return Plan(actions=tuple(actions))


def _stop(context: JobContext, group: PodGroup, *, reason: str, message: str) -> list[Action]:
    """Deletes the pods, after it sets the condition TerminationTarget on each."""
    actions: list[Action] = []
    for old in group.pods:
        if objects.is_deleted(old) or (reason != "WorkloadDeleted" and pods.is_suspended(old)):
            continue
        new = copied(old)
        target = {
            "type": "TerminationTarget",
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": from_ns(context.now_ns),
        }
        conditions.remove(new, "TerminationTarget")
        new.setdefault("status", {}).setdefault("conditions", []).append(target)
        text = conditions.truncate(message, conditions.EVENT_MESSAGE_BYTES)
        actions += [
            Update(resource=resources.POD, old=old, new=new, status=True),
            Delete(resource=resources.POD, object=old),
            Event(about=old, reason="Stopped", message=text),
        ]
    if group.name and reason == "WorkloadDeleted":
        actions += _remove_finalizers(group.pods)
    return actions


class Members(msgspec.Struct, frozen=True, kw_only=True):
    current: tuple[Object, ...]
    excess: tuple[Object, ...]
    """Pods that could run although the group is complete without them."""
    replaced: tuple[Object, ...]
    """Pods that cannot run and have replacements."""
    missing: int


def sort_members(group: PodGroup, workload: Object, now_ns: int) -> Members:
    current: list[Object] = []
    excess: list[Object] = []
    replaced: list[Object] = []
    missing = 0
    for pod_set in workload["spec"]["podSets"]:
        count = int(pod_set.get("count", 1))
        pods_of_role = [pod for pod in group.pods if group.role(pod) == pod_set["name"]]
        active = sorted((pod for pod in pods_of_role if pods.is_runnable_or_succeeded(pod)), key=_current_first)
        inactive = sorted(
            (pod for pod in pods_of_role if not pods.is_runnable_or_succeeded(pod)),
            key=lambda pod: _least_replaceable_first(pod, now_ns),
        )
        missing += _missing_count(group, count, len(active))
        current += active[:count]
        excess += active[count:]
        replaced_count = min(len(inactive), len(inactive) + len(active) - count)
        current_count = len(inactive) - max(replaced_count, 0)
        current += inactive[:current_count]
        replaced += inactive[current_count:]
    return Members(current=tuple(current), excess=tuple(excess), replaced=tuple(replaced), missing=missing)


def _missing_count(group: PodGroup, count: int, active: int) -> int:
    if group.is_fast:
        return 1 if count > 0 and active == 0 else 0
    return max(0, count - active)


def _has_finalizer(pod: Object) -> bool:
    return MANAGED in objects.finalizers(pod)


def _created(pod: Object) -> str:
    return str(pod["metadata"].get("creationTimestamp", ""))


def _current_first(pod: Object) -> tuple[bool, bool, str, str]:
    """Sorts pods with the finalizer first, then ungated ones, then the oldest."""
    return (not _has_finalizer(pod), pods.is_gated(pod), _created(pod), pod["metadata"]["name"])


def _least_replaceable_first(pod: Object, now_ns: int) -> tuple[bool, int, str, str]:
    """Sorts pods with the finalizer first, then the last active ones, then the oldest."""
    return (not _has_finalizer(pod), -_last_active_ns(pod, now_ns), _created(pod), pod["metadata"]["name"])


def _last_active_ns(pod: Object, now_ns: int) -> int:
    failed = ("ContainersReady", "False", "Failed")
    moments = [now_ns] + [
        to_ns(condition["lastTransitionTime"])
        for condition in objects.nested_list(pod, "status", "conditions")
        if (condition["type"], condition["status"], condition.get("reason")) == failed
    ]
    if objects.is_deleted(pod):
        moments.append(to_ns(pod["metadata"]["deletionTimestamp"]))
    return min(moments)
