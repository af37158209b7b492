"""What to do next with a pod or a group of pods. The same questions as for any job, answered for many objects at once.

Members that failed are replaced by whoever made them; members in excess are deleted. A Workload that happens to bear the
group's name but was not made for a group is never taken over, so nobody runs on somebody else's quota.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pykueue.api import conditions, objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import IS_GROUP_WORKLOAD, JOB_UID, MANAGED, POD_GROUP_TOTAL_COUNT
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
from pykueue.kube.controller.plan import Action, Create, Delete, Event, Plan, Write, changes
from pykueue.translate.jobs import framework, pods
from pykueue.translate.jobs.pods import PodGroup
from pykueue.translate.pod_set_info import PodSetConflictError

MOST_POD_SETS = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    workload: Object | None = None
    group: PodGroup
    """Without members that do not count."""
    first: Object
    """Of all members: events about the whole group are told of it."""
    absent: int = 0
    actions: tuple[Action, ...] = ()


def plan(case: JobContext, group: PodGroup | None) -> Plan:
    if group is None or (not group.name and objects.is_deleted(group.lead)):
        gone = decide.let_go(case)
        return Plan(actions=(*gone, *(_finalize(group.pods) if group else ())))
    if (group.lead["metadata"].get("labels") or {}).get(MANAGED) != "true":
        return Plan()
    if not framework.queue_name(group.lead) and not case.policy.manage_jobs_without_queue_name:
        return Plan()
    if case.namespace_labels is None or not case.policy.manages(case.namespace_labels):
        return Plan()
    found = _find(case, group)
    if found.actions:
        return Plan(actions=found.actions)
    return _managed(case, found)


def _finalize(members: Iterable[Object]) -> list[Action]:
    actions: list[Action] = []
    for old in members:
        finalizers = old["metadata"].get("finalizers") or []
        if MANAGED in finalizers:
            kept = [name for name in finalizers if name != MANAGED]
            new = {**old, "metadata": {**old["metadata"], "finalizers": kept}}
            actions.append(Write(resource=resources.POD, old=old, new=new))
    return actions


# Which Workload is theirs.


def _find(case: JobContext, group: PodGroup) -> _Found:
    if not group.name:
        return _find_single(case, group)
    old = next((each for each in case.workloads if each["metadata"]["name"] == group.name), None)
    if old is None:
        return _Found(group=group, first=group.lead)
    if (old["metadata"].get("annotations") or {}).get(IS_GROUP_WORKLOAD) != "true":
        message = (
            f'A Workload named "{group.name}" already exists but is not a pod group workload; '
            "this pod group cannot be admitted"
        )
        inactive = [pod for pod in group.pods if not pods.is_runnable_or_succeeded(pod)]
        told = Event(about=group.lead, reason="WorkloadNameConflict", message=message, warning=True)
        return _Found(group=group, first=group.lead, actions=(told, *_finalize(inactive)))
    members = sort_members(group, old, case.now_ns)
    kept = replace(group, pods=members.kept)
    if not members.kept or not _covers(old, kept, case):
        return _Found(group=group, first=group.lead, actions=tuple(_mismatch(case, group, old)))
    actions = [*_own(old, kept), *_remove_excess(members), *_finalize(members.replaced)]
    return _Found(workload=old, group=kept, first=group.lead, absent=members.absent, actions=tuple(actions))


def _covers(workload: Object, group: PodGroup, case: JobContext) -> bool:
    """Every role of the group is in the Workload, and not more often."""
    if workload["spec"].get("maximumExecutionTimeSeconds") != equivalence.max_execution_seconds(group.lead):
        return False
    counts = {pod_set["name"]: pod_set.get("count", 1) for pod_set in workload["spec"]["podSets"]}
    finished = predicates.is_finished(workload)
    return all(
        pod_set["name"] in counts and (finished or pod_set["count"] <= counts[pod_set["name"]])
        for pod_set in group.pod_sets(case.policy.options)
    )


def _mismatch(case: JobContext, group: PodGroup, old: Object) -> list[Action]:
    if group.is_suspended and not predicates.has_quota_reservation(old):
        rebuilt = _construct(case, group)
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
        why = "No matching Workload; restoring pod templates according to existent Workload"
        stop = _stop(case, group, reason="NoMatchingWorkload", why=why)
    new = copied(old)
    remove_finalizer(new)
    message = f"Deleted not matching Workload: {predicates.key(old)}"
    return [
        *stop,
        *changes(resources.WORKLOAD, old, new),
        Delete(resource=resources.WORKLOAD, object=new),
        Event(about=group.lead, reason="DeletedWorkload", message=message),
    ]


def _own(old: Object, group: PodGroup) -> list[Action]:
    references = old["metadata"].get("ownerReferences") or []
    known = {reference["uid"] for reference in references}
    added = [_reference(pod) for pod in group.pods if pod["metadata"]["uid"] not in known]
    if not added:
        return []
    new = {**old, "metadata": {**old["metadata"], "ownerReferences": [*references, *added]}}
    message = f"Added {len(added)} owner reference(s)"
    return [
        Write(resource=resources.WORKLOAD, old=old, new=new),
        Event(about=old, reason="OwnerReferencesAdded", message=message),
    ]


def _reference(pod: Object) -> Object:
    metadata = pod["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}


def _remove_excess(members: "Members") -> list[Action]:
    actions: list[Action] = []
    for pod in members.excess:
        actions += _finalize([pod])
        if not objects.is_deleted(pod):
            actions.append(Delete(resource=resources.POD, object=pod))
            actions.append(Event(about=pod, reason="ExcessPodDeleted", message="Excess pod deleted"))
    return actions


def _find_single(case: JobContext, group: PodGroup) -> _Found:
    wanted = group.pod_sets(case.policy.options)
    match, others = None, []
    for workload in case.workloads:
        is_match = equivalence.describes(workload, group.lead, wanted, case.flavors, is_suspended=group.is_suspended)
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
        why = "Missing Workload; unable to restore pod templates"
        actions = [*_stop(case, group, reason="NoMatchingWorkload", why=why), *actions]
    return _Found(workload=match, group=group, first=group.lead, actions=tuple(actions))


# What to do with it.


def _managed(case: JobContext, found: _Found) -> Plan:
    group, old = found.group, found.workload
    if old is not None and group.name:
        new = copied(old)
        if _set_waiting_for_replacement(new, found.absent, case.now_ns):
            return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))
    if old is not None and predicates.is_finished(old):
        new = copied(old)
        remove_finalizer(new)
        actions = [*_finalize(group.pods), *changes(resources.WORKLOAD, old, new)]
        told = (decide.finished_event(found.first, old),) if actions else ()
        return Plan(actions=(*told, *actions))
    if old is not None and predicates.is_being_deleted(old):
        new = copied(old)
        remove_finalizer(new)
        stop = _stop(case, group, reason="WorkloadDeleted", why="Workload is deleted")
        return Plan(actions=(*stop, *changes(resources.WORKLOAD, old, new)))
    finished = group.finished()
    if finished is not None:
        return _finish(case, found, finished)
    if old is None:
        return _create(case, group)
    return _running_its_course(case, group, old)


def _set_waiting_for_replacement(workload: Object, absent: int, now_ns: int) -> bool:
    condition_type = "WaitingForReplacementPods"
    present = conditions.find(workload, condition_type)
    if not absent:
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


def _finish(case: JobContext, found: _Found, finished: framework.JobResult) -> Plan:
    actions: list[Action] = []
    old = found.workload
    if old is not None:
        new = copied(old)
        reason = "Succeeded" if finished.is_success else "Failed"
        transitions.finish(new, reason=reason, message=finished.message, now_ns=case.now_ns)
        actions = [*changes(resources.WORKLOAD, old, new), decide.finished_event(found.first, old)]
    return Plan(actions=(*actions, *_finalize(found.group.pods)))


def _create(case: JobContext, group: PodGroup) -> Plan:
    if matching.prebuilt_name(group.lead):
        return Plan(actions=tuple(_stop(case, group, reason="NoMatchingWorkload", why="missing workload")))
    if group.is_active(case.now_ns):
        return Plan()
    active = [pod for pod in group.pods if pods.is_runnable_or_succeeded(pod)]
    inactive = [pod for pod in group.pods if not pods.is_runnable_or_succeeded(pod)]
    actions: list[Action] = _finalize(inactive) if group.name else []
    workload = _construct(case, group)
    if isinstance(workload, Event):
        return Plan(actions=(*actions, workload))
    if group.name and len(active) > group.total_count:
        active.sort(key=lambda pod: (MANAGED not in (pod["metadata"].get("finalizers") or ()), pods.is_gated(pod)))
        actions += _remove_excess(Members(kept=(), excess=tuple(active[group.total_count :]), replaced=(), absent=0))
        return Plan(actions=tuple(actions))
    told = Event(about=group.lead, reason="CreatedWorkload", message=f"Created Workload: {predicates.key(workload)}")
    return Plan(actions=(*actions, Create(resource=resources.WORKLOAD, object=workload), told))


def _construct(case: JobContext, group: PodGroup) -> Object | Event:
    """The Workload, or why there cannot be one yet."""
    pod_sets = group.pod_sets(case.policy.options)
    chosen = construction.priority_of(pods.FRAMEWORK, group.lead, pod_sets, case.classes)
    keys = case.policy.label_keys_to_copy
    if not group.name:
        return construction.workload_of(pods.FRAMEWORK, group.lead, pod_sets, priority=chosen, label_keys=keys)
    fault = _group_fault(group, pod_sets)
    if fault:
        return Event(about=group.lead, reason="ErrWorkloadCompose", message=fault, warning=True)
    workload = construction.workload_of(pods.FRAMEWORK, group.lead, pod_sets, priority=chosen, label_keys=keys)
    metadata = workload["metadata"]
    metadata["name"] = group.name
    metadata["labels"].pop(JOB_UID)
    metadata["ownerReferences"] = [_reference(pod) for pod in group.pods]
    metadata["annotations"] = {**metadata.get("annotations", {}), IS_GROUP_WORKLOAD: "true"}
    return workload


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
        own_count = (pod["metadata"].get("annotations") or {}).get(POD_GROUP_TOTAL_COUNT, "")
        if own_count != count:
            key = POD_GROUP_TOTAL_COUNT
            return f"pods '{lead}' and '{name}' has different '{key}' values: {count}!={own_count}"
    if len(pod_sets) > MOST_POD_SETS:
        return "pod group can't include more than 18 roles"
    return ""


def _running_its_course(case: JobContext, group: PodGroup, old: Object) -> Plan:
    new = copied(old)
    if decide.set_reclaimable(new, group.reclaimable()):
        return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))
    if case.policy.waits_for_pods_ready and decide.set_pods_ready(new, is_ready=group.is_ready, now_ns=case.now_ns):
        return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))
    if predicates.is_evicted(old):
        return _evicted(case, group, old)
    if group.is_suspended:
        if predicates.is_admitted(old):
            return _start(case, group, old)
        if not group.is_serving and old["spec"].get("queueName", "") != framework.queue_name(group.lead):
            new["spec"]["queueName"] = framework.queue_name(group.lead)
        return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))
    if predicates.is_admitted(old):
        return Plan()
    stop = _stop(case, group, reason="NotAdmitted", why="Not admitted by cluster queue")
    return Plan(actions=tuple(stop))


def _evicted(case: JobContext, group: PodGroup, old: Object) -> Plan:
    evicted = conditions.find(old, "Evicted")
    assert evicted is not None
    reason = f"WorkloadEvictedDueTo{evicted['reason']}"
    actions = _stop(case, group, reason=reason, why=evicted["message"])
    if predicates.has_quota_reservation(old) and not group.is_active(case.now_ns):
        new = copied(old)
        decide.release_after_eviction(new, case.now_ns, may_requeue=bool(group.name))
        actions += changes(resources.WORKLOAD, old, new)
    return Plan(actions=tuple(actions))


def _start(case: JobContext, group: PodGroup, old: Object) -> Plan:
    actions: list[Action] = []
    admitted = f"Admitted by clusterQueue {predicates.cluster_queue_reserved(old)}"
    templates = {pod_set["name"]: pod_set["template"]["spec"] for pod_set in old["spec"]["podSets"]}
    try:
        info = {each.name: each for each in injection.from_admission(old, case.flavors)}
        for pod in group.pods:
            if not pods.is_gated(pod):
                continue
            role = group.role(pod) if group.name else "main"
            if role not in info:
                continue
            if group.name and not equivalence.asks_the_same(pod["spec"], templates[role]):
                message = f"pod asks for something else than its role '{role}' in the workload; it stays gated"
                actions.append(Event(about=pod, reason="ErrWorkloadCompose", message=message, warning=True))
                continue
            new = pods.released(pod, info[role])
            if group.name:
                pods.set_role(new, role)
            actions.append(Write(resource=resources.POD, old=pod, new=new))
            actions.append(Event(about=pod, reason="Started", message=admitted))
    except PodSetConflictError as fault:
        new = copied(old)
        transitions.finish(new, reason="FailedToStart", message=str(fault), now_ns=case.now_ns)
        return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))
    return Plan(actions=tuple(actions))


def _stop(case: JobContext, group: PodGroup, *, reason: str, why: str) -> list[Action]:
    """Pods end: each gets the condition that says why, and is deleted."""
    actions: list[Action] = []
    for old in group.pods:
        if objects.is_deleted(old) or (reason != "WorkloadDeleted" and pods.is_suspended(old)):
            continue
        new = copied(old)
        target = {
            "type": "TerminationTarget",
            "status": "True",
            "reason": reason,
            "message": why,
            "lastTransitionTime": from_ns(case.now_ns),
        }
        present = new.setdefault("status", {}).setdefault("conditions", [])
        new["status"]["conditions"] = [each for each in present if each["type"] != "TerminationTarget"] + [target]
        text = conditions.truncate(why, conditions.EVENT_MESSAGE_BYTES)
        actions += [
            Write(resource=resources.POD, old=old, new=new, status=True),
            Delete(resource=resources.POD, object=old),
            Event(about=old, reason="Stopped", message=text),
        ]
    if group.name and reason == "WorkloadDeleted":
        actions += _finalize(group.pods)
    return actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    kept: tuple[Object, ...]
    excess: tuple[Object, ...]
    """Could run, but the group is complete without them."""
    replaced: tuple[Object, ...]
    """Cannot run, and others stand in for them."""
    absent: int


def sort_members(group: PodGroup, workload: Object, now_ns: int) -> Members:
    kept: list[Object] = []
    excess: list[Object] = []
    replaced: list[Object] = []
    absent = 0
    for pod_set in workload["spec"]["podSets"]:
        count = int(pod_set.get("count", 1))
        of_role = [pod for pod in group.pods if group.role(pod) == pod_set["name"]]
        active = sorted((pod for pod in of_role if pods.is_runnable_or_succeeded(pod)), key=_keep_first)
        inactive = sorted(
            (pod for pod in of_role if not pods.is_runnable_or_succeeded(pod)),
            key=lambda pod: _replace_last(pod, now_ns),
        )
        absent += _absent(group, count, len(active))
        kept += active[:count]
        excess += active[count:]
        needless = min(len(inactive), len(inactive) + len(active) - count)
        stays = len(inactive) - max(needless, 0)
        kept += inactive[:stays]
        replaced += inactive[stays:]
    return Members(kept=tuple(kept), excess=tuple(excess), replaced=tuple(replaced), absent=absent)


def _absent(group: PodGroup, count: int, active: int) -> int:
    if group.is_fast:
        return 1 if count > 0 and active == 0 else 0
    return max(0, count - active)


def _has_finalizer(pod: Object) -> bool:
    return MANAGED in (pod["metadata"].get("finalizers") or ())


def _created(pod: Object) -> str:
    return str(pod["metadata"].get("creationTimestamp", ""))


def _keep_first(pod: Object) -> tuple[bool, bool, str, str]:
    """With finalizer, not gated, older."""
    return (not _has_finalizer(pod), pods.is_gated(pod), _created(pod), pod["metadata"]["name"])


def _replace_last(pod: Object, now_ns: int) -> tuple[bool, int, str, str]:
    """With finalizer, active last, older."""
    return (not _has_finalizer(pod), -_last_active_ns(pod, now_ns), _created(pod), pod["metadata"]["name"])


def _last_active_ns(pod: Object, now_ns: int) -> int:
    failed = ("ContainersReady", "False", "Failed")
    moments = [now_ns] + [
        to_ns(condition["lastTransitionTime"])
        for condition in (pod.get("status") or {}).get("conditions") or ()
        if (condition["type"], condition["status"], condition.get("reason")) == failed
    ]
    if objects.is_deleted(pod):
        moments.append(to_ns(pod["metadata"]["deletionTimestamp"]))
    return min(moments)
