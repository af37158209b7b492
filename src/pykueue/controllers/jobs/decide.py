"""Decides what to do next with a job: `plan` takes a `JobContext` and returns a plan of writes.

The checks have the order of Kueue's generic job reconciler. The decision is level-based: a plan
brings the job one step further, and the resulting change triggers the next reconcile.
"""

from collections.abc import Sequence

import msgspec

from pykueue.api import conditions, objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import RESOURCE_IN_USE
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import construction, injection, matching, slices, stopping
from pykueue.controllers.jobs.construction import priority_of
from pykueue.controllers.jobs.context import JobContext
from pykueue.controllers.workloads import predicates, transitions
from pykueue.controllers.workloads.decide import remove_finalizer
from pykueue.controllers.workloads.unadmitted import LEGACY, PENDING_EVALUATION, UnadmittedStatus
from pykueue.kube.controller.writes import Action, Create, Delete, Event, Plan, Update, changes
from pykueue.translate.jobs import framework
from pykueue.translate.pod_set_info import PodSetConflictError

_FAILED_TO_START = "FailedToStart"


def plan(context: JobContext) -> Plan:
    job = context.job
    if job is not None and _finalizes_late(context, job):
        return Plan()
    if job is None or objects.is_deleted(job):
        return Plan(actions=tuple(release_orphans(context)))
    if _is_managed(context, job):
        return _managed(context, job)
    former = [workload for workload in context.workloads if _is_of_former_job(workload, job)]
    if former:
        return Plan(actions=tuple(release_orphans(context, former)))
    return Plan() if context.ancestor is None else _follow_ancestor(context, job, context.ancestor)


def _finalizes_late(context: JobContext, job: Object) -> bool:
    return context.policy.defers_finalization and objects.is_deleted(job) and context.kind.finalizes_late(job)


def _is_managed(context: JobContext, job: Object) -> bool:
    """Whether the job has a Workload of its own."""
    if context.kind.skips(job) or context.namespace_labels is None or context.ancestor is not None:
        return False
    has_queue = framework.queue_name(job) or context.policy.manage_jobs_without_queue_name
    return bool(has_queue) and context.policy.manages(context.namespace_labels)


def _is_of_former_job(workload: Object, job: Object) -> bool:
    """Whether the Workload is deleted together with an earlier job of the same name."""
    return objects.is_deleted(workload) and not objects.is_controlled_by(workload, job)


def release_orphans(context: JobContext, workloads: Sequence[Object] | None = None) -> list[Action]:
    """Finishes the Workloads of a deleted job and removes their finalizers."""
    actions: list[Action] = []
    for old in context.workloads if workloads is None else workloads:
        new = copied(old)
        if context.policy.finish_orphans and not objects.is_deleted(old) and objects.controller_of(old):
            transitions.finish(
                new, reason="OwnerNotFound", message="The workload's owner no longer exists", now_ns=context.now_ns
            )
        remove_finalizer(new)
        actions += changes(resources.WORKLOAD, old, new)
    return actions


def _follow_ancestor(context: JobContext, job: Object, ancestor: Object) -> Plan:
    """A child job has no Workload: it may run while the Workload of its ancestor is admitted."""
    labels = context.namespace_labels
    if context.kind.skips(job) or labels is None or not context.policy.manages(labels):
        return Plan()
    unmanaged = not framework.queue_name(job) and not framework.queue_name(ancestor)
    if unmanaged and not context.policy.manage_jobs_without_queue_name:
        return Plan()
    if context.kind.finished(job) is not None or framework.is_suspended(context.kind, job):
        return Plan()
    if _may_run_child(context, job, ancestor):
        return Plan()
    suspended = framework.suspended(context.kind, job)
    return Plan(
        actions=(
            Update(resource=context.kind.resource, old=job, new=suspended),
            Event(about=job, reason="Suspended", message="Kueue managed child job suspended"),
        )
    )


def _may_run_child(context: JobContext, job: Object, ancestor: Object) -> bool:
    """Whether the newest Workload of the ancestor lets the child run.

    While an elastic job grows, its newest slice is not admitted and the old one may be finished
    already. The child then goes on, unless the slice was evicted.
    """
    unfinished = [workload for workload in context.ancestor_workloads if not predicates.is_finished(workload)]
    if not unfinished:
        return False
    if slices.is_elastic(context, job) or slices.is_elastic(context, ancestor):
        return not predicates.is_evicted(unfinished[-1])
    return predicates.is_admitted(unfinished[-1])


def _managed(context: JobContext, job: Object) -> Plan:
    match = matching.find(context, job)
    if match.actions:
        return Plan(actions=match.actions)
    workload = match.workload
    if workload is not None and predicates.is_finished(workload):
        return _finished_workload(context, job, workload)
    if workload is not None and objects.is_deleted(workload):
        return _deleted_workload(context, job, workload)
    if context.kind.is_on_hold(job):
        return _on_hold(context, workload)
    finished = context.kind.finished(job)
    if finished is not None:
        return _finish(context, job, workload, finished)
    if workload is None:
        return _without_workload(context, job)
    result = _sync_unfinished(context, job, workload)
    if match.requeue_after_ns and not result.requeue_after_ns:
        return msgspec.structs.replace(result, requeue_after_ns=match.requeue_after_ns)
    return result


def _finished_workload(context: JobContext, job: Object, old: Object) -> Plan:
    """A job that could not start and was resumed by hand is stopped again: it has no quota."""
    stop: list[Action] = []
    finished = conditions.find(old, "Finished") or {}
    if finished.get("reason") == _FAILED_TO_START and context.kind.finished(job) is None:
        message = f"Workload '{predicates.key(old)}' could not start"
        stop = stopping.stop(context.kind, job, old, message=message, options=context.policy.options)
    if RESOURCE_IN_USE not in objects.finalizers(old):
        return Plan(actions=tuple(stop))
    new = copied(old)
    remove_finalizer(new)
    return Plan(actions=(*stop, finished_event(job, old), *changes(resources.WORKLOAD, old, new)))


def finished_event(job: Object, workload: Object) -> Event:
    return Event(
        about=job, reason="FinishedWorkload", message=f"Workload '{predicates.key(workload)}' is declared finished"
    )


def _deleted_workload(context: JobContext, job: Object, old: Object) -> Plan:
    new = copied(old)
    remove_finalizer(new)
    stop = stopping.stop(context.kind, job, old, message="Workload is deleted", options=context.policy.options)
    return Plan(actions=(*stop, *changes(resources.WORKLOAD, old, new)))


def _on_hold(context: JobContext, old: Object | None) -> Plan:
    if old is None or not predicates.has_quota_reservation(old):
        return Plan()
    new = copied(old)
    transitions.release_quota(
        new,
        reason="OnHold",
        message="Job is on hold",
        now_ns=context.now_ns,
        unadmitted=context.policy.unadmitted,
    )
    return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))


def _finish(context: JobContext, job: Object, old: Object | None, finished: framework.JobResult) -> Plan:
    if old is None:
        return Plan()
    new = copied(old)
    reason = "Succeeded" if finished.is_success else "Failed"
    transitions.finish(new, reason=reason, message=finished.message, now_ns=context.now_ns)
    actions: list[Action] = changes(resources.WORKLOAD, old, new)
    if RESOURCE_IN_USE not in objects.finalizers(old):  # its removal has the same event
        actions.append(finished_event(job, old))
    return Plan(actions=tuple(actions))


def _without_workload(context: JobContext, job: Object) -> Plan:
    if matching.prebuilt_name(job, context.policy):
        return Plan(
            actions=tuple(
                stopping.stop(context.kind, job, None, message="missing workload", options=context.policy.options)
            )
        )
    is_elastic = slices.is_elastic(context, job)
    if context.kind.is_active(job) and not is_elastic:
        return Plan()
    pod_sets = matching.pod_sets(context, job)
    workload = construction.workload_of(
        context.kind,
        job,
        pod_sets,
        priority=priority_of(context.kind, job, pod_sets, context.classes),
        label_keys=context.policy.label_keys_to_copy,
        annotation_keys=context.policy.annotation_keys_to_copy,
        max_name_length=context.policy.max_name_length,
    )
    if is_elastic:
        generation = str(job["metadata"].get("generation", "")) + context.kind.slice_name_suffix
        workload["metadata"]["name"] = construction.name_of(
            context.kind, job, generation, max_length=context.policy.max_name_length
        )
        workload = slices.as_slice(workload, slices.unfinished(context.workloads))
    return Plan(
        actions=(
            Create(resource=resources.WORKLOAD, object=workload),
            Event(about=job, reason="CreatedWorkload", message=f"Created Workload: {predicates.key(workload)}"),
        )
    )


def _sync_unfinished(context: JobContext, job: Object, old: Object) -> Plan:
    new = _with_own_conditions(old)
    if set_reclaimable(new, context.kind.reclaimable(job)):
        return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))
    if context.policy.waits_for_pods_ready and set_pods_ready(
        new, is_ready=context.kind.pods_ready(job), now_ns=context.now_ns
    ):
        return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))
    if predicates.is_evicted(old):
        return _evicted(context, job, old)
    if not framework.is_suspended(context.kind, job):
        if predicates.is_admitted(old) or slices.is_elastic(context, job):
            return Plan()
        stop = stopping.stop(
            context.kind, job, old, message="Not admitted by cluster queue", options=context.policy.options
        )
        return Plan(actions=tuple(stop))
    if predicates.is_admitted(old):
        return _start(context, job, old)
    return _waiting(job, old)


def _with_own_conditions(workload: Object) -> Object:
    """A copy whose conditions, and the fields of its status, may be changed."""
    status = dict(objects.status(workload))
    if status.get("conditions"):
        status["conditions"] = list(map(dict, status["conditions"]))
    return {**workload, "status": status}


def _evicted(context: JobContext, job: Object, old: Object) -> Plan:
    evicted = conditions.find(old, "Evicted")
    assert evicted is not None
    actions = stopping.stop(context.kind, job, old, message=evicted["message"], options=context.policy.options)
    if predicates.has_quota_reservation(old) and not context.kind.is_active(job):
        new = copied(old)
        release_after_eviction(new, context.now_ns, unadmitted=context.policy.unadmitted)
        actions += changes(resources.WORKLOAD, old, new)
    retain_ns = context.policy.retain_deactivated_ns
    if retain_ns is None or predicates.is_active(old) or not evicted["reason"].startswith("DeactivatedDueTo"):
        return Plan(actions=tuple(actions))
    remaining_ns = conditions.since_ns(evicted) + retain_ns - context.now_ns
    if remaining_ns > 0:
        return Plan(actions=tuple(actions), requeue_after_ns=remaining_ns)
    actions += (
        Delete(resource=context.kind.resource, object=job, propagation_policy="Background"),
        Event(about=job, reason="Deleted", message="Deleted job: deactivation retention period expired"),
    )
    return Plan(actions=tuple(actions))


def release_after_eviction(
    workload: Object, now_ns: int, *, may_requeue: bool = True, unadmitted: UnadmittedStatus = LEGACY
) -> None:
    """Releases the quota of a stopped job; only preemption and node failures requeue at once."""
    evicted = conditions.find(workload, "Evicted")
    assert evicted is not None
    reason, message = evicted["reason"], evicted["message"]
    allowed = may_requeue and reason in ("Preempted", "NodeFailures")
    transitions.set_requeued(workload, allowed=allowed, reason=reason, message=message, now_ns=now_ns)
    pending = unadmitted.reason(PENDING_EVALUATION, "Pending")
    transitions.release_quota(workload, reason=pending, message=message, now_ns=now_ns, unadmitted=unadmitted)


def _start(context: JobContext, job: Object, old: Object) -> Plan:
    try:
        info = injection.from_admission(old, context.flavors, labels_queues=context.policy.labels_queues)
        running = framework.started(context.kind, job, info, context.policy.options)
    except (PodSetConflictError, framework.PodSetsCountError) as fault:
        new = copied(old)
        transitions.finish(new, reason=_FAILED_TO_START, message=str(fault), now_ns=context.now_ns)
        return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))
    cluster_queue = predicates.cluster_queue_reserved(old)
    writes = [Update(resource=context.kind.resource, old=job, new=running)]
    if context.kind.changes_while_suspended:
        prepared = framework.suspended(context.kind, running)
        writes = [
            Update(resource=context.kind.resource, old=job, new=prepared),
            Update(resource=context.kind.resource, old=prepared, new=running),
        ]
    return Plan(
        actions=(*writes, Event(about=job, reason="Started", message=f"Admitted by clusterQueue {cluster_queue}"))
    )


def _waiting(job: Object, old: Object) -> Plan:
    actions: list[Action] = []
    if predicates.has_quota_reservation(old):
        pending = [
            f"{check['name']}: {check['message']}"
            for check in predicates.checks_in(old, "Pending")
            if check.get("message")
        ]
        if pending:
            text = conditions.truncate("; ".join(pending), conditions.EVENT_MESSAGE_BYTES)
            actions.append(Event(about=job, reason="UpdatedAdmissionCheck", message=text))
    if old["spec"].get("queueName", "") != framework.queue_name(job):
        new = copied(old)
        new["spec"]["queueName"] = framework.queue_name(job)
        actions += changes(resources.WORKLOAD, old, new)
    return Plan(actions=tuple(actions))


NOT_READY = "Not all pods are ready or succeeded"
RECOVERING = "At least one pod has failed, waiting for recovery"
READY = "All pods reached readiness and the workload is running"


def set_pods_ready(workload: Object, *, is_ready: bool, now_ns: int) -> bool:
    """Sets PodsReady; True if its status or reason changed."""
    old = conditions.find(workload, "PodsReady")
    status, reason, message = _pods_ready(workload, old, is_ready=is_ready)
    if old is not None and (old["status"] == "True") == status and old["reason"] == reason:
        return False
    return conditions.put(workload, "PodsReady", status=status, reason=reason, message=message, now_ns=now_ns)


def _pods_ready(workload: Object, old: Object | None, *, is_ready: bool) -> tuple[bool, str, str]:
    if not predicates.is_admitted(workload):
        return False, "WaitForStart", NOT_READY
    if is_ready:
        recovered = old is not None and old["reason"] in ("WaitForRecovery", "Recovered")
        return True, "Recovered" if recovered else "Started", READY
    if old is not None and (old["status"] == "True" or old["reason"] == "WaitForRecovery"):
        return False, "WaitForRecovery", RECOVERING
    return False, "WaitForStart", NOT_READY


def set_reclaimable(workload: Object, reclaimable: list[Object]) -> bool:
    """Sets `reclaimablePods`, at most the size of each pod set; True if it changed."""
    sizes = {pod_set["name"]: int(pod_set.get("count", 1)) for pod_set in workload["spec"]["podSets"]}
    bounded = {item["name"]: min(int(item["count"]), sizes.get(item["name"], 0)) for item in reclaimable}
    status = workload.setdefault("status", {})
    present = {item["name"]: item["count"] for item in status.get("reclaimablePods") or ()}
    if bounded == present:
        return False
    status["reclaimablePods"] = [{"name": name, "count": count} for name, count in bounded.items()]
    return True
