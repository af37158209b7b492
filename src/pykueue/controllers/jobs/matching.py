"""One Workload for one job: which one is it, and what to do about those that do not match.

A Workload matches if it describes the job as it is, or as it runs with the admission it has. A pending job's Workload is
brought up to date; a running job without a match is stopped and queued anew, so that nobody grows after admission.
"""

import msgspec

from pykueue.api import objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import ADMISSION_GATED_BY, JOB_UID, PREBUILT_WORKLOAD_NAME, PRIORITY_CLASS
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import construction, equivalence, slices, stopping
from pykueue.controllers.jobs.construction import priority_of
from pykueue.controllers.jobs.context import JobContext
from pykueue.controllers.workloads import predicates, transitions
from pykueue.controllers.workloads.decide import remove_finalizer
from pykueue.kube.controller.plan import Action, Delete, Event, Write, changes
from pykueue.translate.jobs import framework


class WorkloadMatch(msgspec.Struct, frozen=True, kw_only=True):
    """The matching Workload, or actions that must come first."""

    workload: Object | None = None
    actions: tuple[Action, ...] = ()
    requeue_after_ns: int = 0
    """When to look again if nothing happens, 0 for never."""


def prebuilt_name(job: Object) -> str:
    annotations = job["metadata"].get("annotations") or {}
    return str(annotations.get(PREBUILT_WORKLOAD_NAME) or objects.labels(job).get(PREBUILT_WORKLOAD_NAME, ""))


def pod_sets(case: JobContext, job: Object) -> list[Object]:
    found = framework.pod_sets(case.kind, job, case.policy.options)
    return [construction.without_repeated_env(pod_set) for pod_set in found]


def find(case: JobContext, job: Object) -> WorkloadMatch:
    if prebuilt_name(job):
        return _prebuilt(case, job)
    wanted = pod_sets(case, job)
    if slices.is_elastic(case, job):
        found = _slice(case, job, slices.counts(wanted))
        if found is not None:
            return found
    is_suspended = framework.is_suspended(case.kind, job)
    match, others = None, []
    for workload in case.workloads:
        is_match = match is None and equivalence.describes(
            workload, job, wanted, case.flavors, is_suspended=is_suspended
        )
        if is_match:
            match = workload
        else:
            others.append(workload)
    if match is not None and not others:
        return follow_labels(case, job, match)
    if match is None and others and is_suspended and not predicates.has_quota_reservation(others[0]):
        outdated = others.pop(0)
        if not others:
            return WorkloadMatch(actions=tuple(_update(case, job, outdated, wanted)))
    actions: list[Action] = []
    if match is None and not is_suspended and case.kind.finished(job) is None:
        actions += _stop_unmatched(case, job, others)
    actions += _delete(job, others)
    return WorkloadMatch(workload=match, actions=tuple(actions))


def _slice(case: JobContext, job: Object, wanted: dict[str, int]) -> WorkloadMatch | None:
    """The slice of an elastic job; none if it needs a new one, None if more than numbers of pods changed."""
    living = slices.living(case.workloads)
    chosen, actions = slices.select(case, living)
    if actions:
        return WorkloadMatch(actions=tuple(actions))
    if chosen is None:
        return WorkloadMatch()
    has = slices.counts(chosen["spec"]["podSets"])
    if has.keys() != wanted.keys():
        return None
    if has == wanted:
        followed = follow_labels(case, job, chosen)
        is_ending = len(living) > 1 and predicates.has_quota_reservation(chosen)
        return msgspec.structs.replace(followed, requeue_after_ns=slices.SCHEDULER_ENDS_WITHIN_NS if is_ending else 0)
    if slices.may_follow(chosen, wanted):
        return WorkloadMatch(workload=chosen, actions=(slices.resized(chosen, wanted),))
    return WorkloadMatch()


def _stop_unmatched(case: JobContext, job: Object, others: list[Object]) -> list[Action]:
    kept = others[0] if len(others) == 1 else None
    if kept is None:
        why = "Missing Workload; unable to restore pod templates"
    else:
        why = "No matching Workload; restoring pod templates according to existent Workload"
    return stopping.stop(case.kind, job, kept, why=why, options=case.policy.options)


def _delete(job: Object, workloads: list[Object]) -> list[Action]:
    actions: list[Action] = []
    for old in workloads:
        new = copied(old)
        remove_finalizer(new)
        actions += changes(resources.WORKLOAD, old, new)
        if not predicates.is_being_deleted(old):
            message = f"Deleted not matching Workload: {predicates.key(old)}"
            actions.append(Delete(resource=resources.WORKLOAD, object=new))
            actions.append(Event(about=job, reason="DeletedWorkload", message=message))
    return actions


def _update(case: JobContext, job: Object, old: Object, wanted: list[Object]) -> list[Action]:
    new = copied(old)
    priority = priority_of(case.kind, job, wanted, case.classes)
    new["spec"] = construction.spec_of(job, wanted, priority)
    if "active" in old["spec"]:
        new["spec"]["active"] = old["spec"]["active"]
    message = f"Updated not matching Workload for suspended job: {predicates.key(old)}"
    return [*changes(resources.WORKLOAD, old, new), Event(about=job, reason="UpdatedWorkload", message=message)]


def follow_labels(case: JobContext, job: Object, old: Object) -> WorkloadMatch:
    """Changes of the job that its Workload simply takes over: the admission gate and the priority class."""
    gate = str((job["metadata"].get("annotations") or {}).get(ADMISSION_GATED_BY, ""))
    is_gate_changed = gate != predicates.admission_gate(old)
    if not is_gate_changed and not _class_changed(job, old):
        return WorkloadMatch(workload=old)
    new = copied(old)
    if is_gate_changed:
        annotations = new["metadata"].setdefault("annotations", {})
        if gate:
            annotations[ADMISSION_GATED_BY] = gate
        else:
            del annotations[ADMISSION_GATED_BY]
        message = f'Updated workload AdmissionGatedBy to "{gate}"'
    else:
        new["spec"].pop("priorityClassRef", None)
        new["spec"] |= priority_of(case.kind, job, old["spec"]["podSets"], case.classes)
        message = f"Updated workload priority class: {predicates.key(old)}"
    if new == old:
        return WorkloadMatch(workload=old)
    actions = (
        Write(resource=resources.WORKLOAD, old=old, new=new),
        Event(about=job, reason="UpdatedWorkload", message=message),
    )
    return WorkloadMatch(workload=old, actions=actions)


def _class_changed(job: Object, workload: Object) -> bool:
    reference = workload["spec"].get("priorityClassRef")
    if reference is None and predicates.has_quota_reservation(workload):
        return False
    if reference is not None and reference.get("kind") != "WorkloadPriorityClass":
        return False
    return objects.labels(job).get(PRIORITY_CLASS, "") != predicates.priority_class_name(workload)


def _prebuilt(case: JobContext, job: Object) -> WorkloadMatch:
    name = prebuilt_name(job)
    old = next((workload for workload in case.workloads if workload["metadata"]["name"] == name), None)
    if old is None:
        return WorkloadMatch()
    owner = predicates.controller_of(old)
    if owner is not None and owner["uid"] != job["metadata"]["uid"]:
        return WorkloadMatch()
    new = copied(old)
    if owner is None:
        new["metadata"].setdefault("ownerReferences", []).append(construction.owner_reference(case.kind, job))
        new["metadata"].setdefault("labels", {})[JOB_UID] = job["metadata"]["uid"]
        return WorkloadMatch(actions=(Write(resource=resources.WORKLOAD, old=old, new=new),))
    is_suspended = framework.is_suspended(case.kind, job)
    if equivalence.describes(old, job, pod_sets(case, job), case.flavors, is_suspended=is_suspended):
        return WorkloadMatch(workload=old)
    if predicates.is_finished(old):
        return WorkloadMatch()
    message = "The prebuilt workload is out of sync with its user job"
    transitions.finish(new, reason="OutOfSync", message=message, now_ns=case.now_ns)
    return WorkloadMatch(actions=tuple(changes(resources.WORKLOAD, old, new)))
