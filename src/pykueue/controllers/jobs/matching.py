"""One Workload for one job: which one is it, and what to do about those that do not match.

A Workload matches if it describes the job as it is, or as it runs with the admission it has. A pending job's Workload is
brought up to date; a running job without a match is stopped and queued anew, so that nobody grows after admission.
"""

import msgspec

from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.controllers import kinds
from pykueue.controllers.actions import Action, Delete, Tell, Write, changes
from pykueue.controllers.jobs import construction, equivalence, slices, stopping
from pykueue.controllers.jobs.priority import of_job
from pykueue.controllers.jobs.situation import Situation
from pykueue.controllers.workload import facts, transitions
from pykueue.controllers.workload.reconcile import remove_finalizer
from pykueue.translate.jobs import framework


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The matching Workload, or actions that must come first."""

    workload: Object | None = None
    actions: tuple[Action, ...] = ()
    again_ns: int = 0
    """When to look again if nothing happens, 0 for never."""


def prebuilt_name(job: Object) -> str:
    annotations = job["metadata"].get("annotations") or {}
    return str(annotations.get(framework.PREBUILT_WORKLOAD) or framework.label(job, framework.PREBUILT_WORKLOAD))


def pod_sets(case: Situation, job: Object) -> list[Object]:
    found = framework.pod_sets(case.kind, job, case.policy.options)
    return [construction.without_repeated_env(pod_set) for pod_set in found]


def find(case: Situation, job: Object) -> Found:
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
    if match is None and others and is_suspended and not facts.has_quota_reservation(others[0]):
        outdated = others.pop(0)
        if not others:
            return Found(actions=tuple(_update(case, job, outdated, wanted)))
    actions: list[Action] = []
    if match is None and not is_suspended and case.kind.finished(job) is None:
        actions += _stop_unmatched(case, job, others)
    actions += _delete(job, others)
    return Found(workload=match, actions=tuple(actions))


def _slice(case: Situation, job: Object, wanted: dict[str, int]) -> Found | None:
    """The slice of an elastic job; none if it needs a new one, None if more than numbers of pods changed."""
    living = slices.living(case.workloads)
    chosen, actions = slices.select(case, living)
    if actions:
        return Found(actions=tuple(actions))
    if chosen is None:
        return Found()
    has = slices.counts(chosen["spec"]["podSets"])
    if has.keys() != wanted.keys():
        return None
    if has == wanted:
        followed = follow_labels(case, job, chosen)
        is_ending = len(living) > 1 and facts.has_quota_reservation(chosen)
        return msgspec.structs.replace(followed, again_ns=slices.SCHEDULER_ENDS_WITHIN_NS if is_ending else 0)
    if slices.may_follow(chosen, wanted):
        return Found(workload=chosen, actions=(slices.resized(chosen, wanted),))
    return Found()


def _stop_unmatched(case: Situation, job: Object, others: list[Object]) -> list[Action]:
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
        actions += changes(kinds.WORKLOAD, old, new)
        if not facts.is_being_deleted(old):
            message = f"Deleted not matching Workload: {facts.key(old)}"
            actions.append(Delete(resource=kinds.WORKLOAD, object=new))
            actions.append(Tell(about=job, reason="DeletedWorkload", message=message))
    return actions


def _update(case: Situation, job: Object, old: Object, wanted: list[Object]) -> list[Action]:
    new = copied(old)
    priority = of_job(case.kind, job, wanted, case.classes)
    new["spec"] = construction.spec_of(job, wanted, priority)
    if "active" in old["spec"]:
        new["spec"]["active"] = old["spec"]["active"]
    message = f"Updated not matching Workload for suspended job: {facts.key(old)}"
    return [*changes(kinds.WORKLOAD, old, new), Tell(about=job, reason="UpdatedWorkload", message=message)]


def follow_labels(case: Situation, job: Object, old: Object) -> Found:
    """Changes of the job that its Workload simply takes over: the admission gate and the priority class."""
    gate = str((job["metadata"].get("annotations") or {}).get(facts.ADMISSION_GATED_BY, ""))
    is_gate_changed = gate != facts.admission_gate(old)
    if not is_gate_changed and not _class_changed(job, old):
        return Found(workload=old)
    new = copied(old)
    if is_gate_changed:
        annotations = new["metadata"].setdefault("annotations", {})
        if gate:
            annotations[facts.ADMISSION_GATED_BY] = gate
        else:
            del annotations[facts.ADMISSION_GATED_BY]
        message = f'Updated workload AdmissionGatedBy to "{gate}"'
    else:
        new["spec"].pop("priorityClassRef", None)
        new["spec"] |= of_job(case.kind, job, old["spec"]["podSets"], case.classes)
        message = f"Updated workload priority class: {facts.key(old)}"
    if new == old:
        return Found(workload=old)
    actions = (
        Write(resource=kinds.WORKLOAD, old=old, new=new),
        Tell(about=job, reason="UpdatedWorkload", message=message),
    )
    return Found(workload=old, actions=actions)


def _class_changed(job: Object, workload: Object) -> bool:
    reference = workload["spec"].get("priorityClassRef")
    if reference is None and facts.has_quota_reservation(workload):
        return False
    if reference is not None and reference.get("kind") != "WorkloadPriorityClass":
        return False
    return framework.label(job, framework.PRIORITY_CLASS_LABEL) != facts.priority_class_name(workload)


def _prebuilt(case: Situation, job: Object) -> Found:
    name = prebuilt_name(job)
    old = next((workload for workload in case.workloads if workload["metadata"]["name"] == name), None)
    if old is None:
        return Found()
    owner = facts.controller_of(old)
    if owner is not None and owner["uid"] != job["metadata"]["uid"]:
        return Found()
    new = copied(old)
    if owner is None:
        new["metadata"].setdefault("ownerReferences", []).append(construction.owner_reference(case.kind, job))
        new["metadata"].setdefault("labels", {})[facts.JOB_UID_LABEL] = job["metadata"]["uid"]
        return Found(actions=(Write(resource=kinds.WORKLOAD, old=old, new=new),))
    is_suspended = framework.is_suspended(case.kind, job)
    if equivalence.describes(old, job, pod_sets(case, job), case.flavors, is_suspended=is_suspended):
        return Found(workload=old)
    if facts.is_finished(old):
        return Found()
    message = "The prebuilt workload is out of sync with its user job"
    transitions.finish(new, reason="OutOfSync", message=message, now_ns=case.now_ns)
    return Found(actions=tuple(changes(kinds.WORKLOAD, old, new)))
