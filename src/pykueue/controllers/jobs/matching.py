"""Finds the Workload that matches a job, and updates or deletes the Workloads that do not match.

A Workload matches if it equals the job's pod sets, before or after the injection of its admission.
The Workload of a suspended job is updated. A running job without a matching Workload is stopped
and requeued, so that no job can grow after its admission.
"""

from collections.abc import Sequence

import msgspec

from pykueue.api import objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import ADMISSION_GATED_BY, JOB_UID, PREBUILT_WORKLOAD_NAME, PRIORITY_CLASS
from pykueue.api.rules import syntax
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import construction, equivalence, slices, stopping
from pykueue.controllers.jobs.construction import priority_of
from pykueue.controllers.jobs.context import JobContext, JobPolicy
from pykueue.controllers.workloads import predicates, transitions
from pykueue.controllers.workloads.decide import remove_finalizer
from pykueue.kube.controller.writes import Action, Delete, Event, Update, changes
from pykueue.translate.jobs import framework


class WorkloadMatch(msgspec.Struct, frozen=True, kw_only=True):
    """The matching Workload, or the actions that come first."""

    workload: Object | None = None
    actions: tuple[Action, ...] = ()
    requeue_after_ns: int = 0
    """When to reconcile again without a change; 0 for never."""


def prebuilt_name(job: Object, policy: JobPolicy) -> str:
    """The name of the job's prebuilt Workload, from its label or annotation."""
    annotation = str(objects.annotations(job).get(PREBUILT_WORKLOAD_NAME, ""))
    label = str(objects.labels(job).get(PREBUILT_WORKLOAD_NAME, ""))
    if policy.identifies_by_annotation:
        return annotation or label
    return label or (annotation if len(annotation) > syntax.LABEL_VALUE_LENGTH else "")


def pod_sets(context: JobContext, job: Object) -> list[Object]:
    pod_sets = framework.pod_sets(context.kind, job, context.policy.options)
    return [construction.without_repeated_env(pod_set) for pod_set in pod_sets]


def _shared_pod_sets(context: JobContext, job: Object) -> list[Object]:
    """The same pod sets, to be compared but not changed."""
    pod_sets = framework.shared_pod_sets(context.kind, job, context.policy.options)
    return [construction.without_repeated_env(pod_set) for pod_set in pod_sets]


def find(context: JobContext, job: Object) -> WorkloadMatch:
    if prebuilt_name(job, context.policy):
        is_suspended = framework.is_suspended(context.kind, job)
        return find_prebuilt(context, job, _shared_pod_sets(context, job), is_suspended=is_suspended)
    job_pod_sets = _shared_pod_sets(context, job)
    if slices.is_elastic(context, job):
        slice_match = _slice(context, job, slices.counts(job_pod_sets))
        if slice_match is not None:
            return slice_match
    is_suspended = framework.is_suspended(context.kind, job)
    match, others = None, []
    for workload in context.workloads:
        is_match = match is None and equivalence.describes(
            workload, job, job_pod_sets, context.flavors, is_suspended=is_suspended
        )
        if is_match:
            match = workload
        else:
            others.append(workload)
    if match is not None and not others:
        return follow_labels(context, job, match)
    if match is None and others and is_suspended and _may_update(job, others[0]):
        outdated = others.pop(0)
        if not others:
            return WorkloadMatch(actions=tuple(_update(context, job, outdated)))
    actions: list[Action] = []
    if match is None and not is_suspended and context.kind.finished(job) is None:
        actions += _stop_unmatched(context, job, others)
    actions += _delete(job, others)
    return WorkloadMatch(workload=match, actions=tuple(actions))


def _may_update(job: Object, workload: Object) -> bool:
    """A Workload that is deleted with an earlier job of the same name stays as it is."""
    if objects.is_deleted(workload) and not objects.is_controlled_by(workload, job):
        return False
    return not predicates.has_quota_reservation(workload)


def _slice(context: JobContext, job: Object, counts: dict[str, int]) -> WorkloadMatch | None:
    """The slice of an elastic job, without a Workload if it needs a new slice.

    None if more than the counts of the pod sets changed.
    """
    unfinished = slices.unfinished(context.workloads)
    chosen, actions = slices.select(context, unfinished)
    actions += slices.released(context.workloads)
    if actions:
        return WorkloadMatch(actions=tuple(actions))
    if chosen is None:
        return WorkloadMatch()
    current = slices.counts(chosen["spec"]["podSets"])
    if current.keys() != counts.keys():
        return None
    if current == counts:
        match = follow_labels(context, job, chosen)
        has_two_slices = len(unfinished) > 1 and predicates.has_quota_reservation(chosen)
        return msgspec.structs.replace(
            match, requeue_after_ns=slices.SCHEDULER_FINISHES_WITHIN_NS if has_two_slices else 0
        )
    if slices.can_resize(chosen, counts):
        return WorkloadMatch(workload=chosen, actions=(slices.resized(chosen, counts),))
    return WorkloadMatch()


def _stop_unmatched(context: JobContext, job: Object, others: list[Object]) -> list[Action]:
    workload = others[0] if len(others) == 1 else None
    if workload is None:
        message = "Missing Workload; unable to restore pod templates"
    else:
        message = "No matching Workload; restoring pod templates according to existent Workload"
    return stopping.stop(context.kind, job, workload, message=message, options=context.policy.options)


def _delete(job: Object, workloads: list[Object]) -> list[Action]:
    actions: list[Action] = []
    for old in workloads:
        new = copied(old)
        remove_finalizer(new)
        actions += changes(resources.WORKLOAD, old, new)
        if not objects.is_deleted(old):
            message = f"Deleted not matching Workload: {predicates.key(old)}"
            actions.append(Delete(resource=resources.WORKLOAD, object=new))
            actions.append(Event(about=job, reason="DeletedWorkload", message=message))
    return actions


def _update(context: JobContext, job: Object, old: Object) -> list[Action]:
    new, job_pod_sets = copied(old), pod_sets(context, job)
    priority = priority_of(context.kind, job, job_pod_sets, context.classes)
    new["spec"] = construction.spec_of(job, job_pod_sets, priority)
    if "active" in old["spec"]:
        new["spec"]["active"] = old["spec"]["active"]
    message = f"Updated not matching Workload for suspended job: {predicates.key(old)}"
    return [*changes(resources.WORKLOAD, old, new), Event(about=job, reason="UpdatedWorkload", message=message)]


def follow_labels(context: JobContext, job: Object, old: Object) -> WorkloadMatch:
    """Copies the admission gate and the priority class of the job to its Workload."""
    gate = str(objects.annotations(job).get(ADMISSION_GATED_BY, ""))
    is_gate_changed = gate != predicates.admission_gate(old)
    if not is_gate_changed and not _priority_class_changed(job, old):
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
        new["spec"] |= priority_of(context.kind, job, old["spec"]["podSets"], context.classes)
        message = f"Updated workload priority class: {predicates.key(old)}"
    if new == old:
        return WorkloadMatch(workload=old)
    actions = (
        Update(resource=resources.WORKLOAD, old=old, new=new),
        Event(about=job, reason="UpdatedWorkload", message=message),
    )
    return WorkloadMatch(workload=old, actions=actions)


def _priority_class_changed(job: Object, workload: Object) -> bool:
    reference = workload["spec"].get("priorityClassRef")
    if reference is None and predicates.has_quota_reservation(workload):
        return False
    if reference is not None and reference.get("kind") != "WorkloadPriorityClass":
        return False
    return objects.labels(job).get(PRIORITY_CLASS, "") != predicates.priority_class_name(workload)


def find_prebuilt(context: JobContext, job: Object, pod_sets: Sequence[Object], *, is_suspended: bool) -> WorkloadMatch:
    """The prebuilt Workload of a job; the job becomes its owner first."""
    name = prebuilt_name(job, context.policy)
    old = next((workload for workload in context.workloads if workload["metadata"]["name"] == name), None)
    if old is None:
        return WorkloadMatch()
    owner = objects.controller_of(old)
    if owner is not None and owner["uid"] != job["metadata"]["uid"]:
        return WorkloadMatch()
    new = copied(old)
    if owner is None:
        new["metadata"].setdefault("ownerReferences", []).append(construction.owner_reference(context.kind, job))
        new["metadata"].setdefault("labels", {})[JOB_UID] = job["metadata"]["uid"]
        return WorkloadMatch(actions=(Update(resource=resources.WORKLOAD, old=old, new=new),))
    if equivalence.describes(old, job, pod_sets, context.flavors, is_suspended=is_suspended):
        return WorkloadMatch(workload=old)
    if predicates.is_finished(old):
        return WorkloadMatch()
    message = "The prebuilt workload is out of sync with its user job"
    transitions.finish(new, reason="OutOfSync", message=message, now_ns=context.now_ns)
    return WorkloadMatch(actions=tuple(changes(resources.WORKLOAD, old, new)))
