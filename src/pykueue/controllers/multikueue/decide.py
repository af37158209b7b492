"""Decides what to do next with a dispatched Workload and its copies. Pure functions.

The steps and messages are those of Kueue's MultiKueue workload controller. A plan is a list of
stages; the writes of a stage go to the manager and to workers at the same time, and a stage that
fails ends the plan.
"""

from collections.abc import Iterable

import msgspec

from pykueue.api import conditions, go_format, objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import (
    JOB_UID,
    MULTI_KUEUE_PREEMPTION_GATE,
    RESOURCE_IN_USE,
    WORKLOAD_SLICE_REPLACEMENT_FOR,
)
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, from_ns
from pykueue.controllers.jobs import slices
from pykueue.controllers.multikueue import preemption_gates
from pykueue.controllers.multikueue.adapters import (
    changed_copy,
    clone_metadata,
    component_index,
    copy_of,
)
from pykueue.controllers.multikueue.context import MANAGER, GroupContext, GroupPlan, RemoteState, Stage
from pykueue.controllers.workloads import predicates, transitions
from pykueue.kube.controller.writes import Action, Create, Delete, Event, Update, changes

DEFERRED_NS = 2 * SECOND_NS


def plan(context: GroupContext) -> GroupPlan:
    workload, is_finished = context.workload, predicates.is_finished(context.workload)
    has_quota = predicates.has_quota_reservation(workload)
    if context.is_elastic and _is_being_replaced(workload, is_finished=is_finished, has_quota=has_quota):
        return GroupPlan()
    if is_finished or not has_quota:
        requeue_ns = context.policy.worker_lost_timeout_ns if context.unavailable else 0
        return GroupPlan(stages=_stages(delete_copies(context)), requeue_after_ns=requeue_ns)
    finished = _best(context, "Finished", context.remotes)
    if finished:
        return _finish(context, finished)
    evicted = _best(context, "Evicted", _candidates(context))
    if evicted and predicates.is_evicted(workload):
        return _sync(context, evicted)
    if evicted and context.check["state"] == "Ready":
        message = (
            f'Workload evicted on worker cluster: "{context.cluster_name}", resetting for re-admission. '
            'Previously: "Ready"'
        )
        return _with_check(context, "Retry", message, event_type="Normal")
    if predicates.is_evicted(workload) and not any(remote.workload for remote in context.remotes.values()):
        return _end_eviction(context)
    outdated = _repair(context)
    if outdated:
        return GroupPlan(stages=_stages(outdated), requeue_after_ns=1)
    admitting = _best(context, "Admitted", _candidates(context))
    if admitting:
        return _converge(context, admitting)
    if context.check["state"] == "Ready":
        return _without_admitting(context)
    return _nominate(context)


def _stages(*stages: Iterable[tuple[str, Action]]) -> tuple[Stage, ...]:
    return tuple(stage for stage in map(tuple, stages) if stage)


def _is_being_replaced(workload: Object, *, is_finished: bool, has_quota: bool) -> bool:
    """Whether the slice of an elastic job was replaced, or waits for the quota to replace one."""
    if is_finished:
        return (conditions.find(workload, "Finished") or {}).get("reason") == "WorkloadSliceReplaced"
    return not has_quota and WORKLOAD_SLICE_REPLACEMENT_FOR in objects.annotations(workload)


def _candidates(context: GroupContext) -> list[str]:
    """The clusters that may run the Workload: the one that runs it, if one does.

    A worker that was lost and came back may still have an older copy.
    """
    return [context.cluster_name] if context.cluster_name else list(context.remotes)


def _best(context: GroupContext, condition_type: str, clusters: Iterable[str]) -> str:
    """The cluster on which the condition became true first; that of the Workload comes before."""
    since: list[tuple[bool, int, str]] = []
    copies = context.copies(with_deleted=condition_type == "Finished")
    for cluster in clusters:
        condition = conditions.find(copies[cluster], condition_type) if cluster in copies else None
        if condition is not None and conditions.has_status_true(condition):
            since.append((cluster != context.cluster_name, conditions.since_ns(condition), cluster))
    return min(since)[2] if since else ""


# Deleting


def delete_copies(context: GroupContext, clusters: Iterable[str] | None = None) -> list[tuple[str, Action]]:
    return [
        (cluster, action)
        for cluster in (context.remotes if clusters is None else clusters)
        for action in deletion(context.remotes[cluster])
    ]


def deletion(remote: RemoteState) -> list[Action]:
    """Deletes the jobs first: the Workload says that there may be some.

    A copy without jobs is deleted as it was read: a request that arrives late must not delete the
    copy of a cluster that was chosen in the meantime.
    """
    actions: list[Action] = [
        Delete(resource=resource, object=job) for resource, job in remote.jobs if not objects.is_deleted(job)
    ]
    workload = remote.workload
    if workload is None:
        return actions
    if RESOURCE_IN_USE in objects.finalizers(workload):
        others = [name for name in objects.finalizers(workload) if name != RESOURCE_IN_USE]
        released = {**workload, "metadata": {**workload["metadata"], "finalizers": others}}
        actions += changes(resources.WORKLOAD, workload, released)
    if not objects.is_deleted(workload):
        actions.append(Delete(resource=resources.WORKLOAD, object=workload, only_if_unchanged=not remote.jobs))
    return actions


# The check


def _check_update(context: GroupContext, state: str, message: str) -> Object:
    """The Workload with a new state of the check."""
    new = {**context.workload, "status": copied(objects.status(context.workload))}
    check = next(check for check in predicates.checks(new) if check["name"] == context.check["name"])
    if check["state"] != state:
        check["lastTransitionTime"] = from_ns(context.now_ns)
    check.update(state=state, message=conditions.truncate(message, conditions.CONDITION_MESSAGE_BYTES))
    return new


def _with_check(context: GroupContext, state: str, message: str, *, event_type: str = "") -> GroupPlan:
    new = _check_update(context, state, message)
    actions = changes(resources.WORKLOAD, context.workload, new)
    if event_type:
        text = conditions.truncate(message, conditions.EVENT_MESSAGE_BYTES)
        actions.append(Event(about=context.workload, type=event_type, reason="MultiKueue", message=text))
    return GroupPlan(stages=_stages((MANAGER, action) for action in actions))


def answer(context: GroupContext, state: str, message: str, *, event_type: str = "") -> GroupPlan:
    """The check with a new state, and the former state in its message."""
    previously = f'{message}, Previously: "{context.check["state"]}"'
    return _with_check(context, state, previously, event_type=event_type)


# The jobs


class _JobSync(msgspec.Struct, frozen=True, kw_only=True):
    on_worker: tuple[Action, ...] = ()
    on_manager: tuple[Action, ...] = ()
    is_deferred: bool = False


def _sync_jobs(context: GroupContext, cluster: str, *, creates: bool) -> _JobSync:
    adapter, policy, name = context.adapter, context.policy, objects.name(context.workload)
    on_worker: list[Action] = []
    on_manager: list[Action] = []
    is_deferred = False
    for job, remote in context.remotes[cluster].copies:
        if remote is None:
            if creates and not objects.is_deleted(job):
                new = copy_of(adapter, job, name, origin=policy.origin, policy=policy.jobs)
                on_worker.append(Create(resource=adapter.resource, object=new))
            continue
        change = adapter.status(job, remote, context.now_ns)
        is_deferred = is_deferred or change.is_deferred
        if objects.status(change.job) != objects.status(job):
            on_manager.append(Update(resource=adapter.resource, old=job, new=change.job, status=True))
        resized = changed_copy(
            adapter, job, remote, workload_name=name, policy=policy.jobs, syncs_spec=policy.syncs_spec
        )
        if resized is not None and creates:
            on_worker.append(Update(resource=adapter.resource, old=remote, new=resized))
    return _JobSync(on_worker=tuple(on_worker), on_manager=tuple(on_manager), is_deferred=is_deferred)


def _targeted(cluster: str, actions: Iterable[Action]) -> Stage:
    return tuple((cluster, action) for action in actions)


def _sync(context: GroupContext, cluster: str) -> GroupPlan:
    """Bring the status of the jobs back while the Workload ends here and there.

    A worker without a job has nobody who ends the eviction of the copy, so the copy is deleted.
    """
    if not context.remotes[cluster].jobs:
        return GroupPlan(stages=_stages(delete_copies(context, [cluster])), requeue_after_ns=1)
    sync = _sync_jobs(context, cluster, creates=False)
    requeue_ns = DEFERRED_NS if sync.is_deferred else 0
    return GroupPlan(stages=_stages(_targeted(MANAGER, sync.on_manager)), requeue_after_ns=requeue_ns)


def _end_eviction(context: GroupContext) -> GroupPlan:
    """No worker has a copy of an evicted Workload, so its jobs must not run: nobody else says so.

    Jobs whose copy of the Workload was deleted by somebody are deleted. A worker that is lost may
    still run them, and has time to come back.
    """
    if leftover := delete_copies(context):
        return GroupPlan(stages=_stages(leftover))
    if any(remote.jobs for remote in context.remotes.values()):
        return GroupPlan()
    left_ns = context.lost_for_ns(context.unavailable)
    if left_ns:
        return GroupPlan(requeue_after_ns=left_ns)
    idle = ((job, context.adapter.idle_status(job, context.now_ns)) for job in context.jobs)
    actions = [
        Update(resource=context.adapter.resource, old=job, new={**job, "status": status}, status=True)
        for job, status in idle
        if status != objects.status(job)
    ]
    return GroupPlan(stages=_stages(_targeted(MANAGER, actions)))


def _finish(context: GroupContext, cluster: str) -> GroupPlan:
    remote = context.remotes[cluster].workload
    assert remote is not None
    finished = conditions.find(remote, "Finished")
    assert finished is not None
    if finished["reason"] == "OutOfSync" and not context.is_elastic:
        if context.check["state"] != "Ready":
            return GroupPlan()
        message = (
            f'Remote workload on worker cluster "{cluster}" is out of sync with its user job, resetting for re-dispatch'
        )
        return answer(context, "Retry", message, event_type="Warning")
    sync = _sync_jobs(context, cluster, creates=False)
    new = copied(context.workload)
    transitions.finish(new, reason=finished["reason"], message=finished.get("message", ""), now_ns=context.now_ns)
    finish = changes(resources.WORKLOAD, context.workload, new)
    return GroupPlan(stages=_stages(_targeted(MANAGER, sync.on_manager), _targeted(MANAGER, finish)))


# Copies that differ


def _repair(context: GroupContext) -> list[tuple[str, Action]]:
    """Updates copies whose priority or size changed, and deletes other copies that differ."""
    actions: list[tuple[str, Action]] = []
    for cluster, remote in context.copies().items():
        if _is_in_step(context.workload, remote):
            continue
        new = _updated_copy(context, remote)
        if new is not None:
            actions.append((cluster, Update(resource=resources.WORKLOAD, old=remote, new=new)))
        else:
            actions += delete_copies(context, [cluster])
    return actions


def _is_in_step(local: Object, remote: Object) -> bool:
    """Whether the specs are equal but for the preemption gates, which each cluster has itself."""
    specs = ({**objects.spec(workload), "preemptionGates": None} for workload in (local, remote))
    return go_format.are_equal(next(specs), next(specs), "WorkloadSpec")


def _updated_copy(context: GroupContext, remote: Object) -> Object | None:
    local = context.workload
    new: Object = copied(remote)
    if context.is_elastic and _has_shrunk(remote, local):
        new["spec"] = copied(objects.spec(local))
    if _has_other_priority(local, remote):
        for name in ("priorityClassRef", "priority"):
            new["spec"].pop(name, None)
            if name in objects.spec(local):
                new["spec"][name] = copied(local["spec"][name])
    if context.policy.orchestrates_preemption:
        new["spec"].pop("preemptionGates", None)
        if "preemptionGates" in remote["spec"]:
            new["spec"]["preemptionGates"] = remote["spec"]["preemptionGates"]
    return new if new != remote else None


def _has_shrunk(old: Object, new: Object) -> bool:
    before, after = slices.counts(old["spec"]["podSets"]), slices.counts(new["spec"]["podSets"])
    return before.keys() == after.keys() and before != after and all(after[name] <= before[name] for name in before)


def _has_other_priority(local: Object, remote: Object) -> bool:
    local_class, remote_class = (objects.nested(workload, "spec", "priorityClassRef") for workload in (local, remote))
    if local_class.get("kind") == "PriorityClass" or remote_class.get("kind") != "WorkloadPriorityClass":
        return False
    if remote_class.get("name") != local_class.get("name"):
        return True
    return bool(objects.spec(local).get("priority", 0) != objects.spec(remote).get("priority", 0))


# A worker has admitted the Workload


def _converge(context: GroupContext, cluster: str) -> GroupPlan:
    """Deletes the other copies, says that the check is ready and creates the job.

    The cluster is recorded before it gets the job: if its answer is lost, no other cluster may run
    the job as well. A Workload that is to be tried again gets no job: it will be evicted.
    """
    others = delete_copies(context, [name for name in context.remotes if name != cluster])
    evicted = conditions.find(context.workload, "Evicted")
    if evicted is not None and conditions.has_status_true(evicted):
        return GroupPlan(stages=_stages(others, _targeted(cluster, _deactivate(context, cluster, evicted))))
    if not context.cluster_name and cluster not in context.nominated:
        nominate = _nominate_locally(context, [*context.nominated, cluster])
        return GroupPlan(stages=_stages(others, nominate), requeue_after_ns=1)
    is_wanted = context.check["state"] in ("Pending", "Ready")
    sync = _sync_jobs(context, cluster, creates=is_wanted)
    ready = _ready(context, cluster) if is_wanted else []
    stages = _stages(
        others,
        _targeted(MANAGER, ready),
        _targeted(cluster, sync.on_worker),
        _targeted(MANAGER, sync.on_manager),
    )
    requeue_ns = DEFERRED_NS if sync.is_deferred else context.policy.worker_lost_timeout_ns
    return GroupPlan(stages=stages, requeue_after_ns=requeue_ns)


def _deactivate(context: GroupContext, cluster: str, evicted: Object) -> list[Action]:
    """Ends the copy of a Workload that is evicted here."""
    remote = context.remotes[cluster].workload
    assert remote is not None
    new = copied(remote)
    message = conditions.truncate(f"Evicted on manager: {evicted['message']}", conditions.CONDITION_MESSAGE_BYTES)
    transitions.target_deactivation(new, reason="EvictedOnManagerCluster", message=message, now_ns=context.now_ns)
    return changes(resources.WORKLOAD, remote, new)


def _ready(context: GroupContext, cluster: str) -> list[Action]:
    message = f'The workload was admitted on "{cluster}"'
    new = _check_update(context, "Ready", message)
    _end_delayed_topology(new, context.remotes[cluster].workload)
    new["status"]["clusterName"] = cluster
    new["status"].pop("nominatedClusterNames", None)
    actions = changes(resources.WORKLOAD, context.workload, new)
    if (context.check["state"], context.check.get("message")) != ("Ready", message):
        actions.append(Event(about=context.workload, reason="MultiKueue", message=message))
    return actions


def _end_delayed_topology(workload: Object, remote: Object | None) -> None:
    """The worker has placed the pods, so the manager waits for no topology."""
    placed = {
        assignment["name"]
        for assignment in objects.nested_list(remote or {}, "status", "admission", "podSetAssignments")
        if assignment.get("topologyAssignment")
    }
    for assignment in objects.nested_list(workload, "status", "admission", "podSetAssignments"):
        if assignment["name"] in placed and assignment.get("delayedTopologyRequest") == "Pending":
            assignment["delayedTopologyRequest"] = "Ready"


def _without_admitting(context: GroupContext) -> GroupPlan:
    """The check is ready, but no copy is admitted: wait for a lost worker, else try again."""
    cluster = context.cluster_name
    others = delete_copies(context, [name for name in context.remotes if name != cluster])
    if cluster in context.unavailable:
        left_ns = context.lost_for_ns([cluster])
        if left_ns:
            return GroupPlan(stages=_stages(others), requeue_after_ns=left_ns)
        return answer(context, "Retry", "Admitting remote lost")
    if not cluster:
        message = "Admission check is Ready but no admitting cluster is recorded; this is unexpected, please report it"
        return answer(context, "Retry", message)
    return answer(context, "Retry", "Admitting remote no longer exists")


# No worker has admitted it yet


def _nominate(context: GroupContext) -> GroupPlan:
    opened, requeue_ns = preemption_gates.opening(context) if context.policy.orchestrates_preemption else ([], 0)
    has_cluster = context.cluster_name and not context.is_elastic
    if has_cluster or predicates.is_evicted(context.workload) or context.check["state"] != "Pending":
        return GroupPlan(stages=_stages(opened), requeue_after_ns=requeue_ns)
    others_ready = all(
        check.get("state") == "Ready"
        for check in predicates.checks(context.workload)
        if check["name"] != context.check["name"]
    )
    if not others_ready or (context.adapter.has_several_workloads and not _has_all_components(context)):
        return GroupPlan(stages=_stages(opened), requeue_after_ns=requeue_ns)
    dispatch = _dispatch(context)
    return GroupPlan(stages=(*_stages(opened), *dispatch), requeue_after_ns=requeue_ns)


def _has_all_components(context: GroupContext) -> bool:
    return 1 + len(context.components) >= context.expected_components


def _dispatch(context: GroupContext) -> tuple[Stage, ...]:
    """Creates the copies on the nominated clusters, and deletes those on others."""
    assigned = {str(name) for member in context.components if (name := objects.status(member).get("clusterName"))}
    if assigned:
        cluster = min(assigned)
        nominate = _nominate_locally(context, [cluster]) if cluster not in context.nominated else ()
        return _stages(nominate, _copy_to(context, [cluster], is_gated=False)) if cluster in context.remotes else ()
    if context.adapter.has_several_workloads and not _is_first_component(context):
        return ()
    if context.is_elastic and context.cluster_name:
        return _stages(_copy_to(context, [context.cluster_name], is_gated=True))
    if not context.policy.nominates_all:
        return _stages(_copy_to(context, context.nominated, is_gated=True))
    names = list(context.remotes)
    nominate = _nominate_locally(context, names) if set(names) != set(context.nominated) else ()
    return _stages(nominate, _copy_to(context, names, is_gated=True))


def _is_first_component(context: GroupContext) -> bool:
    index = component_index(context.workload)
    others = (component_index(member) for member in context.components)
    return index >= 0 and not any(0 <= other < index for other in others)


def _nominate_locally(context: GroupContext, names: list[str]) -> Stage:
    status = {**objects.status(context.workload), "nominatedClusterNames": names}
    return _targeted(MANAGER, changes(resources.WORKLOAD, context.workload, {**context.workload, "status": status}))


def _copy_to(context: GroupContext, clusters: Iterable[str], *, is_gated: bool) -> Stage:
    nominated = set(clusters)
    actions = delete_copies(context, [name for name in context.remotes if name not in nominated])
    for cluster, remote in context.remotes.items():
        if cluster in nominated and remote.workload is None:
            actions.append(
                (cluster, Create(resource=resources.WORKLOAD, object=workload_copy(context, is_gated=is_gated)))
            )
    return tuple(actions)


def workload_copy(context: GroupContext, *, is_gated: bool) -> Object:
    local = context.workload
    metadata = clone_metadata(local, context.policy.origin)
    metadata["labels"].pop(JOB_UID, None)
    spec = copied(objects.spec(local))
    if is_gated and context.policy.orchestrates_preemption:
        spec["preemptionGates"] = [{"name": MULTI_KUEUE_PREEMPTION_GATE}]
    return {
        "apiVersion": resources.WORKLOAD.api_version,
        "kind": resources.WORKLOAD.kind,
        "metadata": metadata,
        "spec": spec,
    }
