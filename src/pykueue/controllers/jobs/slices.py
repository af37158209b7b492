"""Workloads of elastic jobs: a job that grows gets a second Workload, which replaces the first when there is quota for it.

Only the number of pods may change so. A job that shrinks gives back by a change of its Workload, and a Workload that holds no
quota yet simply follows its job. `matching` asks here first; what cannot be told in slices it treats like any other job.
"""

from collections.abc import Mapping, Sequence

from pykueue.api import conditions, resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import ELASTIC_JOB, WORKLOAD_SLICE_NAME, WORKLOAD_SLICE_REPLACEMENT_FOR
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.controllers.jobs.context import JobContext
from pykueue.controllers.workloads import predicates, transitions
from pykueue.kube.controller.plan import Action, Write, changes

SCHEDULER_ENDS_WITHIN_NS = 5 * SECOND_NS


def is_elastic(case: JobContext, obj: Object) -> bool:
    """Of a job, or of a Workload made for one."""
    return case.policy.slices_workloads and _annotations(obj).get(ELASTIC_JOB) == "true"


def slice_name(workload: Object) -> str:
    """The name of the first slice, which all slices of a job and their pods carry."""
    return str(_annotations(workload).get(WORKLOAD_SLICE_NAME) or workload["metadata"]["name"])


def living(workloads: Sequence[Object]) -> list[Object]:
    """Not finished, the oldest first."""
    found = (workload for workload in workloads if not predicates.is_finished(workload))
    return sorted(found, key=lambda each: (each["metadata"].get("creationTimestamp", ""), each["metadata"]["uid"]))


def select(case: JobContext, workloads: Sequence[Object]) -> tuple[Object | None, list[Action]]:
    """The slice that tells what the job asks for, and what to do about those that are neither this nor the one it replaces.

    A slice whose replacement has just got quota is left to the scheduler, which ends it.
    """
    if len(workloads) < 2:
        return (workloads[0] if workloads else None), []
    standing = [workload for workload in workloads if not predicates.is_evicted(workload)]
    by_replaced = _by_replaced(standing)
    holders = [workload for workload in standing if predicates.has_quota_reservation(workload)]
    holder = next((each for each in reversed(holders) if not _is_replaced_by_holder(each, by_replaced)), None)
    waiting = None if holder is None else by_replaced.get(predicates.key(holder))
    if waiting is not None and predicates.has_quota_reservation(waiting):
        waiting = None
    chosen = waiting or holder or (standing[-1] if standing else None)
    actions: list[Action] = []
    for workload in workloads:
        if workload is not chosen and workload is not holder and not _is_ending(case, workload, by_replaced):
            actions += _finish(case, workload, is_replaced=predicates.key(workload) in by_replaced)
    return chosen, actions


def _is_ending(case: JobContext, workload: Object, by_replaced: Mapping[str, Object]) -> bool:
    replacement = by_replaced.get(predicates.key(workload))
    reserved = None if replacement is None else conditions.find(replacement, "QuotaReserved")
    if reserved is None or reserved["status"] != "True" or predicates.is_evicted(workload):
        return False
    return case.now_ns - conditions.since_ns(reserved) < SCHEDULER_ENDS_WITHIN_NS


def _by_replaced(workloads: Sequence[Object]) -> dict[str, Object]:
    """Who replaces whom; of two that claim the same, the one that holds quota."""
    found: dict[str, Object] = {}
    for workload in workloads:
        replaced = _annotations(workload).get(WORKLOAD_SLICE_REPLACEMENT_FOR)
        if replaced and (replaced not in found or predicates.has_quota_reservation(workload)):
            found[replaced] = workload
    return found


def _is_replaced_by_holder(workload: Object, by_replaced: Mapping[str, Object]) -> bool:
    replacement = by_replaced.get(predicates.key(workload))
    return replacement is not None and predicates.has_quota_reservation(replacement)


def _finish(case: JobContext, old: Object, *, is_replaced: bool) -> list[Action]:
    new = copied(old)
    reason, message = "OutOfSync", "The workload slice is out of sync with its parent job"
    if is_replaced:
        reason, message = "WorkloadSliceReplaced", "Replaced to accommodate a new workload slice"
    transitions.finish(new, reason=reason, message=message, now_ns=case.now_ns)
    return changes(resources.WORKLOAD, old, new)


def counts(pod_sets: Sequence[Object]) -> dict[str, int]:
    return {pod_set["name"]: pod_set.get("count", 1) for pod_set in pod_sets}


def may_follow(workload: Object, wanted: Mapping[str, int]) -> bool:
    """Whether its counts may change in place: it holds no quota, or gives back."""
    has = counts(workload["spec"]["podSets"])
    return not predicates.has_quota_reservation(workload) or all(wanted[name] <= count for name, count in has.items())


def resized(workload: Object, wanted: Mapping[str, int]) -> Write:
    new = copied(workload)
    for pod_set in new["spec"]["podSets"]:
        pod_set["count"] = wanted[pod_set["name"]]
    return Write(resource=resources.WORKLOAD, old=workload, new=new)


def marked(workload: Object, workloads: Sequence[Object]) -> Object:
    """A new Workload of an elastic job as a slice: the first one, or one that replaces the slice there is."""
    annotations = {**_annotations(workload), ELASTIC_JOB: "true", WORKLOAD_SLICE_NAME: workload["metadata"]["name"]}
    if workloads:
        annotations |= {
            WORKLOAD_SLICE_REPLACEMENT_FOR: predicates.key(workloads[0]),
            WORKLOAD_SLICE_NAME: slice_name(workloads[0]),
        }
    return {**workload, "metadata": {**workload["metadata"], "annotations": annotations}}


def _annotations(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}
