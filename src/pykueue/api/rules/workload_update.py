"""The fields of a Workload that an update may not change. Called by `workload`."""

import copy
from collections.abc import Iterator
from typing import Any

from pykueue.api import feature_gates, go_format
from pykueue.api.errors import FieldError
from pykueue.api.labels import ELASTIC_JOB, WORKLOAD_SLICE_REPLACEMENT_FOR
from pykueue.api.rules import admission_gates, faults, reading
from pykueue.api.scheme import AdmissionRequest, Object

PARTIAL_AND_ELASTIC = "partial admission and elastic job cannot be used together"
CLUSTER_NOT_NOMINATED = "when setting clusterName it must be one of the nominatedClusterNames"


def is_elastic(request: AdmissionRequest, obj: Object) -> bool:
    is_on = feature_gates.is_enabled(request.settings.feature_gates, "ElasticJobsViaWorkloadSlices")
    return is_on and reading.annotation(obj, ELASTIC_JOB) == "true"


def pod_set_counts(workload: Object) -> dict[str, int]:
    pod_sets = reading.mappings(reading.at(workload, "spec", "podSets"))
    return {reading.text(pod_set.get("name")): reading.integer(pod_set.get("count")) for pod_set in pod_sets}


def reclaimable_counts(workload: Object) -> dict[str, int]:
    pods = reading.mappings(reading.at(workload, "status", "reclaimablePods"))
    return {reading.text(pod.get("name")): reading.integer(pod.get("count")) for pod in pods}


def check(request: AdmissionRequest, old: Object) -> Iterator[FieldError]:
    new = request.object
    was_reserved = reading.is_condition_true(old, "QuotaReserved")
    if was_reserved and reading.has_changed(new, old, "spec"):
        yield from _check_pod_sets(request, old)
    if was_reserved and reading.is_condition_true(new, "QuotaReserved"):
        yield from _check_reclaimable_pods(request, old)
    yield from _check_admission(request, old)
    yield from _check_ready_checks(new, old)
    yield from _check_cluster_name(request, old)
    if feature_gates.is_enabled(request.settings.feature_gates, "AdmissionGatedBy"):
        yield from admission_gates.check_update(new, old)


def _check_pod_sets(request: AdmissionRequest, old: Object) -> Iterator[FieldError]:
    before, after = (reading.mappings(reading.at(workload, "spec", "podSets")) for workload in (old, request.object))
    if len(before) != len(after):
        yield faults.invalid("spec.podSets", go_format.in_go_order(after, "PodSet"), faults.IMMUTABLE)
        return
    may_shrink = feature_gates.is_enabled(request.settings.feature_gates, "ElasticJobsViaWorkloadSlices")
    for index, (new_set, old_set) in enumerate(zip(after, before, strict=True)):
        shrinks = may_shrink and reading.integer(new_set.get("count")) < reading.integer(old_set.get("count"))
        compared = new_set | {"count": old_set["count"]} if shrinks else new_set
        if not go_format.are_equal(compared, old_set, "PodSet"):
            printed = go_format.in_go_order(compared, "PodSet")
            yield faults.invalid(f"spec.podSets.{index}", printed, faults.IMMUTABLE)


def _check_reclaimable_pods(request: AdmissionRequest, old: Object) -> Iterator[FieldError]:
    before, after = reclaimable_counts(old), reclaimable_counts(request.object)
    shrunk = _scaled_down(request)
    for name, count in after.items():
        if count < before.get(name, count) and name not in shrunk:
            yield faults.invalid(f"status.reclaimablePods[{name}].count", count, f"cannot be less than {before[name]}")
    for name in before:
        if name not in after and name not in shrunk:
            yield faults.required(f"status.reclaimablePods[{name}]", "cannot be removed")


def _scaled_down(request: AdmissionRequest) -> set[str]:
    """The pod sets of an elastic workload that have fewer pods than were admitted."""
    if not is_elastic(request, request.object):
        return set()
    counts = pod_set_counts(request.object)
    assignments = reading.mappings(reading.at(request.object, "status", "admission", "podSetAssignments"))
    admitted = {
        reading.text(assignment.get("name")): reading.integer(assignment.get("count")) for assignment in assignments
    }
    return {name for name, count in admitted.items() if count > counts.get(name, 0)}


def _check_admission(request: AdmissionRequest, old: Object) -> list[FieldError]:
    after, before = (reading.at(workload, "status", "admission") for workload in (request.object, old))
    if not isinstance(after, dict) or not isinstance(before, dict) or after == before:
        return []
    if feature_gates.is_enabled(request.settings.feature_gates, "TopologyAwareScheduling"):
        compared = (_without_topology(after), _without_topology(before))
    else:
        compared = (after, before)
    if go_format.are_equal(*compared, "Admission"):
        return []
    return [faults.invalid("status.admission", go_format.in_go_order(after, "Admission"), faults.IMMUTABLE)]


def _without_topology(admission: Object) -> Any:
    stripped = copy.copy(admission)
    stripped["podSetAssignments"] = [
        {
            name: item
            for name, item in assignment.items()
            if name not in ("topologyAssignment", "delayedTopologyRequest")
        }
        for assignment in reading.mappings(admission.get("podSetAssignments"))
    ]
    return stripped


def _check_ready_checks(new: Object, old: Object) -> Iterator[FieldError]:
    after = {
        reading.text(check.get("name")): check
        for check in reading.mappings(reading.at(new, "status", "admissionChecks"))
    }
    for index, before in enumerate(reading.mappings(reading.at(old, "status", "admissionChecks"))):
        now = after.get(reading.text(before.get("name")))
        if now is None or before.get("state") != "Ready" or now.get("state") != "Ready":
            continue
        updates = now.get("podSetUpdates")
        if not go_format.are_equal(updates or [], before.get("podSetUpdates") or [], "PodSetUpdate"):
            path = f"status.admissionChecks[{index}].podSetUpdates"
            yield faults.invalid(path, go_format.in_go_order(updates, "PodSetUpdate"), faults.IMMUTABLE)


def _check_cluster_name(request: AdmissionRequest, old: Object) -> Iterator[FieldError]:
    may_slice = feature_gates.is_enabled(request.settings.feature_gates, "ElasticJobsViaWorkloadSlices")
    if may_slice and WORKLOAD_SLICE_REPLACEMENT_FOR in reading.annotations(request.object):
        return
    name = reading.at(request.object, "status", "clusterName")
    nominated = reading.texts(reading.at(old, "status", "nominatedClusterNames"))
    if name is not None and reading.at(old, "status", "clusterName") is None and name not in nominated:
        yield faults.invalid("status.clusterName", name, CLUSTER_NOT_NOMINATED)
