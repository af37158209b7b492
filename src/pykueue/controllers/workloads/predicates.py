"""Predicates on a Workload's JSON, named after Kueue's own words."""

from pykueue.api import conditions, objects
from pykueue.api.labels import ADMISSION_GATED_BY
from pykueue.api.scheme import Object
from pykueue.api.times import to_ns


def key(workload: Object) -> str:
    return f"{objects.namespace(workload)}/{objects.name(workload)}"


def is_active(workload: Object) -> bool:
    return objects.spec(workload).get("active") is not False


def is_finished(workload: Object) -> bool:
    return conditions.is_true(workload, "Finished")


def is_admitted(workload: Object) -> bool:
    return conditions.is_true(workload, "Admitted")


def is_evicted(workload: Object) -> bool:
    return conditions.is_true(workload, "Evicted")


def has_quota_reservation(workload: Object) -> bool:
    return conditions.is_true(workload, "QuotaReserved")


def holds_quota(workload: Object) -> bool:
    """Whether the Workload counts in the usage of its ClusterQueue."""
    return (
        has_quota_reservation(workload)
        and "admission" in workload["status"]
        and not is_finished(workload)
        and is_active(workload)
    )


def is_on_hold(workload: Object) -> bool:
    return conditions.is_false_because(workload, "QuotaReserved", "OnHold")


def admission_gate(workload: Object) -> str:
    return str(objects.annotations(workload).get(ADMISSION_GATED_BY, ""))


def is_admissible(workload: Object) -> bool:
    """Whether the Workload may be queued."""
    return not (
        admission_gate(workload)
        or is_finished(workload)
        or not is_active(workload)
        or has_quota_reservation(workload)
        or is_on_hold(workload)
        or conditions.is_true(workload, "WaitingForReplacementPods")
    )


def stop_policy(queue: Object) -> str:
    """The stop policy of a LocalQueue or ClusterQueue; "" if it is not stopped."""
    policy = str(queue["spec"].get("stopPolicy") or "None")
    return "" if policy == "None" else policy


def status_word(workload: Object) -> str:
    if is_finished(workload):
        return "finished"
    if is_admitted(workload):
        return "admitted"
    return "quotaReserved" if has_quota_reservation(workload) else "pending"


def cluster_queue_reserved(workload: Object) -> str:
    return str(objects.nested(workload, "status", "admission").get("clusterQueue", ""))


def priority_class_name(workload: Object) -> str:
    return str(objects.nested(workload, "spec", "priorityClassRef").get("name", ""))


def checks(workload: Object) -> list[Object]:
    return objects.nested_list(workload, "status", "admissionChecks")


def checks_in(workload: Object, state: str) -> list[Object]:
    return [check for check in checks(workload) if check.get("state") == state]


def has_all_checks_ready(workload: Object) -> bool:
    return all(check.get("state") == "Ready" for check in checks(workload))


def waits_for_topology(workload: Object) -> bool:
    """Whether the topology assignment of a pod set waits for the admission checks."""
    return any(
        not assignment.get("topologyAssignment") and assignment.get("delayedTopologyRequest") == "Pending"
        for assignment in objects.nested_list(workload, "status", "admission", "podSetAssignments")
    )


def queued_since_ns(workload: Object) -> int:
    """The time of the last requeue, or else of the creation."""
    requeued = conditions.find(workload, "Requeued")
    text = requeued["lastTransitionTime"] if requeued else workload["metadata"].get("creationTimestamp")
    return to_ns(text) if text else 0
