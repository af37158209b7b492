"""Workload slices of elastic jobs: a job that grows gets a
second Workload, which replaces the first once admitted.

Only the counts of pod sets may change this way. If the job shrinks, or its Workload has no quota
reservation yet, the Workload is resized in place. `matching` calls these functions before it
treats the job like any other job.
"""

from collections.abc import Mapping, Sequence

from pykueue.api import conditions, objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import ELASTIC_JOB, WORKLOAD_SLICE_NAME, WORKLOAD_SLICE_REPLACEMENT_FOR
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.controllers.jobs.context import JobContext
from pykueue.controllers.workloads import predicates, transitions
from pykueue.controllers.workloads.decide import remove_finalizer
from pykueue.kube.controller.writes import Action, Update, changes

SCHEDULER_FINISHES_WITHIN_NS = 5 * SECOND_NS


def is_elastic(context: JobContext, obj: Object) -> bool:
    """Whether a job, or the Workload of a job, is elastic."""
    return context.policy.slices_workloads and objects.annotations(obj).get(ELASTIC_JOB) == "true"


def slice_name(workload: Object) -> str:
    """The name of the first slice; all slices of a job and their pods are annotated with it."""
    return str(objects.annotations(workload).get(WORKLOAD_SLICE_NAME) or workload["metadata"]["name"])


def unfinished(workloads: Sequence[Object]) -> list[Object]:
    """The Workloads that are not finished, the oldest first."""
    not_finished = (workload for workload in workloads if not predicates.is_finished(workload))
    return sorted(
        not_finished, key=lambda workload: (workload["metadata"].get("creationTimestamp", ""), objects.uid(workload))
    )


def select(context: JobContext, workloads: Sequence[Object]) -> tuple[Object | None, list[Action]]:
    """The newest valid slice, and the actions that finish
    all slices except it and the one that it replaces.

    A slice whose replacement has just reserved quota is left to the scheduler, which finishes it.
    """
    if len(workloads) < 2:
        return (workloads[0] if workloads else None), []
    not_evicted = [workload for workload in workloads if not predicates.is_evicted(workload)]
    replacements = _replacements(not_evicted)
    reserved = [workload for workload in not_evicted if predicates.has_quota_reservation(workload)]
    current = next(
        (workload for workload in reversed(reserved) if not _has_reserved_replacement(workload, replacements)), None
    )
    replacement = None if current is None else replacements.get(predicates.key(current))
    if replacement is not None and predicates.has_quota_reservation(replacement):
        replacement = None
    chosen = replacement or current or (not_evicted[-1] if not_evicted else None)
    actions: list[Action] = []
    for workload in workloads:
        if (
            workload is not chosen
            and workload is not current
            and not _is_finished_by_scheduler(context, workload, replacements)
        ):
            actions += _finish(context, workload, is_replaced=predicates.key(workload) in replacements)
    return chosen, actions


def released(workloads: Sequence[Object]) -> list[Action]:
    """Removes the finalizers of finished slices that were deleted: nobody follows them."""
    actions: list[Action] = []
    for old in workloads:
        if predicates.is_finished(old) and objects.is_deleted(old):
            new = copied(old)
            remove_finalizer(new)
            actions += changes(resources.WORKLOAD, old, new)
    return actions


def _is_finished_by_scheduler(context: JobContext, workload: Object, replacements: Mapping[str, Object]) -> bool:
    replacement = replacements.get(predicates.key(workload))
    reserved = None if replacement is None else conditions.find(replacement, "QuotaReserved")
    if reserved is None or reserved["status"] != "True" or predicates.is_evicted(workload):
        return False
    return context.now_ns - conditions.since_ns(reserved) < SCHEDULER_FINISHES_WITHIN_NS


def _replacements(workloads: Sequence[Object]) -> dict[str, Object]:
    """The replacement of each replaced Workload, by key; one with a reservation wins."""
    replacements: dict[str, Object] = {}
    for workload in workloads:
        replaced = objects.annotations(workload).get(WORKLOAD_SLICE_REPLACEMENT_FOR)
        if replaced and (replaced not in replacements or predicates.has_quota_reservation(workload)):
            replacements[replaced] = workload
    return replacements


def _has_reserved_replacement(workload: Object, replacements: Mapping[str, Object]) -> bool:
    replacement = replacements.get(predicates.key(workload))
    return replacement is not None and predicates.has_quota_reservation(replacement)


def _finish(context: JobContext, old: Object, *, is_replaced: bool) -> list[Action]:
    new = copied(old)
    reason, message = "OutOfSync", "The workload slice is out of sync with its parent job"
    if is_replaced:
        reason, message = "WorkloadSliceReplaced", "Replaced to accommodate a new workload slice"
    transitions.finish(new, reason=reason, message=message, now_ns=context.now_ns)
    return changes(resources.WORKLOAD, old, new)


def counts(pod_sets: Sequence[Object]) -> dict[str, int]:
    return {pod_set["name"]: pod_set.get("count", 1) for pod_set in pod_sets}


def can_resize(workload: Object, target: Mapping[str, int]) -> bool:
    """Whether the counts may change in place: there is no quota reservation, or no count grows."""
    current = counts(workload["spec"]["podSets"])
    return not predicates.has_quota_reservation(workload) or all(
        target[name] <= count for name, count in current.items()
    )


def resized(workload: Object, target: Mapping[str, int]) -> Update:
    new = copied(workload)
    for pod_set in new["spec"]["podSets"]:
        pod_set["count"] = target[pod_set["name"]]
    return Update(resource=resources.WORKLOAD, old=workload, new=new)


def as_slice(workload: Object, workloads: Sequence[Object]) -> Object:
    """Annotates a new Workload as the first slice, or as the replacement of the oldest one."""
    annotations = {
        **objects.annotations(workload),
        ELASTIC_JOB: "true",
        WORKLOAD_SLICE_NAME: workload["metadata"]["name"],
    }
    if workloads:
        annotations |= {
            WORKLOAD_SLICE_REPLACEMENT_FOR: predicates.key(workloads[0]),
            WORKLOAD_SLICE_NAME: slice_name(workloads[0]),
        }
    return {**workload, "metadata": {**workload["metadata"], "annotations": annotations}}
