"""What to do next with a job: the job, its Workloads and their surroundings in, a plan out.

Reads as the list of questions that Kueue asks of every job, in order. Level-based: a plan brings the job one step further,
and the change that it makes brings the next look.
"""

import msgspec

from pykueue.api import conditions, resources
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import construction, injection, matching, slices, stopping
from pykueue.controllers.jobs.construction import priority_of
from pykueue.controllers.jobs.context import JobContext
from pykueue.controllers.workloads import predicates, transitions
from pykueue.controllers.workloads.decide import remove_finalizer
from pykueue.kube.controller.plan import Action, Create, Delete, Event, Plan, Write, changes
from pykueue.translate.jobs import framework
from pykueue.translate.pod_set_info import PodSetConflictError


def plan(case: JobContext) -> Plan:
    job = case.job
    if job is None or predicates.is_being_deleted(job):
        return Plan(actions=tuple(let_go(case)))
    if case.kind.skips(job) or case.namespace_labels is None or not case.policy.manages(case.namespace_labels):
        return Plan()
    if case.ancestor is not None:
        return _follow_ancestor(case, job, case.ancestor)
    if not framework.queue_name(job) and not case.policy.manage_jobs_without_queue_name:
        return Plan()
    return _managed(case, job)


def let_go(case: JobContext) -> list[Action]:
    """The job is gone: its Workloads hold nothing any more."""
    actions: list[Action] = []
    for old in case.workloads:
        new = copied(old)
        if case.policy.finish_orphans and not predicates.is_being_deleted(old) and predicates.controller_of(old):
            transitions.finish(
                new, reason="OwnerNotFound", message="The workload's owner no longer exists", now_ns=case.now_ns
            )
        remove_finalizer(new)
        actions += changes(resources.WORKLOAD, old, new)
    return actions


def _follow_ancestor(case: JobContext, job: Object, ancestor: Object) -> Plan:
    """A child never has a Workload: it may run while its ancestor's is admitted."""
    unmanaged = not framework.queue_name(job) and not framework.queue_name(ancestor)
    if unmanaged and not case.policy.manage_jobs_without_queue_name:
        return Plan()
    if case.kind.finished(job) is not None or framework.is_suspended(case.kind, job):
        return Plan()
    living = [workload for workload in case.ancestor_workloads if not predicates.is_finished(workload)]
    if living and predicates.is_admitted(living[-1]):
        return Plan()
    suspended = framework.suspended(case.kind, job)
    return Plan(
        actions=(
            Write(resource=case.kind.resource, old=job, new=suspended),
            Event(about=job, reason="Suspended", message="Kueue managed child job suspended"),
        )
    )


def _managed(case: JobContext, job: Object) -> Plan:
    found = matching.find(case, job)
    if found.actions:
        return Plan(actions=found.actions)
    workload = found.workload
    if workload is not None and predicates.is_finished(workload):
        return _finished_workload(case, job, workload)
    if workload is not None and predicates.is_being_deleted(workload):
        return _deleted_workload(case, job, workload)
    if case.kind.is_on_hold(job):
        return _on_hold(case, workload)
    finished = case.kind.finished(job)
    if finished is not None:
        return _finish(case, job, workload, finished)
    if workload is None:
        return _without_workload(case, job)
    course = _running_its_course(case, job, workload)
    if found.requeue_after_ns and not course.requeue_after_ns:
        return msgspec.structs.replace(course, requeue_after_ns=found.requeue_after_ns)
    return course


def _finished_workload(case: JobContext, job: Object, old: Object) -> Plan:
    del case
    new = copied(old)
    if not remove_finalizer(new):
        return Plan()
    return Plan(actions=(finished_event(job, old), *changes(resources.WORKLOAD, old, new)))


def finished_event(job: Object, workload: Object) -> Event:
    return Event(
        about=job, reason="FinishedWorkload", message=f"Workload '{predicates.key(workload)}' is declared finished"
    )


def _deleted_workload(case: JobContext, job: Object, old: Object) -> Plan:
    new = copied(old)
    remove_finalizer(new)
    stop = stopping.stop(case.kind, job, old, why="Workload is deleted", options=case.policy.options)
    return Plan(actions=(*stop, *changes(resources.WORKLOAD, old, new)))


def _on_hold(case: JobContext, old: Object | None) -> Plan:
    if old is None or not predicates.has_quota_reservation(old):
        return Plan()
    new = copied(old)
    transitions.release_quota(new, reason="OnHold", message="Job is on hold", now_ns=case.now_ns)
    return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))


def _finish(case: JobContext, job: Object, old: Object | None, finished: framework.JobResult) -> Plan:
    if old is None:
        return Plan()
    new = copied(old)
    reason = "Succeeded" if finished.is_success else "Failed"
    transitions.finish(new, reason=reason, message=finished.message, now_ns=case.now_ns)
    return Plan(actions=(*changes(resources.WORKLOAD, old, new), finished_event(job, old)))


def _without_workload(case: JobContext, job: Object) -> Plan:
    if matching.prebuilt_name(job):
        return Plan(
            actions=tuple(stopping.stop(case.kind, job, None, why="missing workload", options=case.policy.options))
        )
    is_elastic = slices.is_elastic(case, job)
    if case.kind.is_active(job) and not is_elastic:
        return Plan()
    pod_sets = matching.pod_sets(case, job)
    workload = construction.workload_of(
        case.kind,
        job,
        pod_sets,
        priority=priority_of(case.kind, job, pod_sets, case.classes),
        label_keys=case.policy.label_keys_to_copy,
    )
    if is_elastic:
        generation = str(job["metadata"].get("generation", ""))
        workload["metadata"]["name"] = construction.name_of(case.kind, job, generation)
        workload = slices.marked(workload, slices.living(case.workloads))
    return Plan(
        actions=(
            Create(resource=resources.WORKLOAD, object=workload),
            Event(about=job, reason="CreatedWorkload", message=f"Created Workload: {predicates.key(workload)}"),
        )
    )


def _running_its_course(case: JobContext, job: Object, old: Object) -> Plan:
    new = {**old, "status": copied(old.get("status") or {})}
    if set_reclaimable(new, case.kind.reclaimable(job)):
        return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))
    if case.policy.waits_for_pods_ready and set_pods_ready(new, is_ready=case.kind.pods_ready(job), now_ns=case.now_ns):
        return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))
    if predicates.is_evicted(old):
        return _evicted(case, job, old)
    if not framework.is_suspended(case.kind, job):
        if predicates.is_admitted(old) or slices.is_elastic(case, job):
            return Plan()
        stop = stopping.stop(case.kind, job, old, why="Not admitted by cluster queue", options=case.policy.options)
        return Plan(actions=tuple(stop))
    if predicates.is_admitted(old):
        return _start(case, job, old)
    return _waiting(job, old)


def _evicted(case: JobContext, job: Object, old: Object) -> Plan:
    evicted = conditions.find(old, "Evicted")
    assert evicted is not None
    actions = stopping.stop(case.kind, job, old, why=evicted["message"], options=case.policy.options)
    if predicates.has_quota_reservation(old) and not case.kind.is_active(job):
        new = copied(old)
        release_after_eviction(new, case.now_ns)
        actions += changes(resources.WORKLOAD, old, new)
    retention = case.policy.retain_deactivated_ns
    if retention is None or predicates.is_active(old) or not evicted["reason"].startswith("DeactivatedDueTo"):
        return Plan(actions=tuple(actions))
    remaining_ns = conditions.since_ns(evicted) + retention - case.now_ns
    if remaining_ns > 0:
        return Plan(actions=tuple(actions), requeue_after_ns=remaining_ns)
    actions += (
        Delete(resource=case.kind.resource, object=job, propagation_policy="Background"),
        Event(about=job, reason="Deleted", message="Deleted job: deactivation retention period expired"),
    )
    return Plan(actions=tuple(actions))


def release_after_eviction(workload: Object, now_ns: int, *, may_requeue: bool = True) -> None:
    """Stopped: the quota goes back. Only preemption and failed nodes queue again without waiting for something."""
    evicted = conditions.find(workload, "Evicted")
    assert evicted is not None
    reason, message = evicted["reason"], evicted["message"]
    allowed = may_requeue and reason in ("Preempted", "NodeFailures")
    transitions.set_requeued(workload, allowed=allowed, reason=reason, message=message, now_ns=now_ns)
    transitions.release_quota(workload, reason="Pending", message=message, now_ns=now_ns)


def _start(case: JobContext, job: Object, old: Object) -> Plan:
    try:
        info = injection.from_admission(old, case.flavors)
        running = framework.started(case.kind, job, info, case.policy.options)
    except (PodSetConflictError, framework.PodSetsCountError) as fault:
        new = copied(old)
        transitions.finish(new, reason="FailedToStart", message=str(fault), now_ns=case.now_ns)
        return Plan(actions=tuple(changes(resources.WORKLOAD, old, new)))
    cluster_queue = predicates.cluster_queue_reserved(old)
    writes = [Write(resource=case.kind.resource, old=job, new=running)]
    if case.kind.changes_while_suspended:
        prepared = framework.suspended(case.kind, running)
        writes = [
            Write(resource=case.kind.resource, old=job, new=prepared),
            Write(resource=case.kind.resource, old=prepared, new=running),
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
    """True if the condition's status or reason changed."""
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
    """Never more than a pod set has; True if changed."""
    sizes = {pod_set["name"]: int(pod_set.get("count", 1)) for pod_set in workload["spec"]["podSets"]}
    bounded = {item["name"]: min(int(item["count"]), sizes.get(item["name"], 0)) for item in reclaimable}
    status = workload.setdefault("status", {})
    present = {item["name"]: item["count"] for item in status.get("reclaimablePods") or ()}
    if bounded == present:
        return False
    status["reclaimablePods"] = [{"name": name, "count": count} for name, count in bounded.items()]
    return True
