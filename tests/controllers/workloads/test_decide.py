import msgspec
import pytest

from pykueue.api import conditions
from pykueue.api.times import SECOND_NS, from_ns, to_ns
from pykueue.controllers.workloads import decide as reconcile
from pykueue.controllers.workloads import predicates, transitions
from pykueue.controllers.workloads.context import LifecyclePolicy, PodsReadyPolicy, WorkloadContext
from pykueue.controllers.workloads.unadmitted import UnadmittedStatus

NOW = to_ns("2026-01-15T12:00:00Z")
PODS_READY = PodsReadyPolicy(timeout_ns=3 * SECOND_NS, backoff_limit_count=2, backoff_base_seconds=10)


def workload(**status):
    return {
        "metadata": {"name": "wl", "namespace": "ns", "generation": 1, "creationTimestamp": from_ns(NOW)},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 1}]},
        "status": status,
    }


def admitted(at_ns=NOW):
    obj = workload()
    transitions.reserve_quota(obj, {"clusterQueue": "cq", "podSetAssignments": [{"name": "main"}]}, at_ns)
    transitions.sync_admitted(obj, at_ns)
    return obj


def queue(stop="None", **spec):
    return {"metadata": {"name": "q"}, "spec": {"stopPolicy": stop, **spec}}


def workload_context(local_queue=None, cluster_queue=None):
    return WorkloadContext(
        local_queue=local_queue or queue(),
        cluster_queue_name="cq",
        cluster_queue=cluster_queue or queue(),
        is_cluster_queue_active=True,
    )


def decide(obj, context=None, policy=None, now_ns=NOW):
    return reconcile.decide(obj, context or workload_context(), policy or LifecyclePolicy(), now_ns)


def reason(obj, condition_type):
    return conditions.find(obj, condition_type)["reason"]


def test_nothing_to_do_changes_nothing():
    assert decide(admitted()).workload == admitted()


def test_a_missing_local_queue_is_named():
    outcome = reconcile.decide(workload(), WorkloadContext(), LifecyclePolicy(), NOW)
    assert conditions.find(outcome.workload, "QuotaReserved")["message"] == "LocalQueue lq doesn't exist"


def test_reservation_without_checks_is_admitted():
    obj = workload()
    transitions.reserve_quota(obj, {"clusterQueue": "cq"}, NOW)
    outcome = decide(obj, now_ns=NOW + 2 * SECOND_NS)
    assert predicates.is_admitted(outcome.workload)
    assert outcome.events[0].message == "Admitted by ClusterQueue cq, wait time since reservation was 2s"


@pytest.mark.parametrize(("kind", "key"), [("LocalQueue", "local_queue"), ("ClusterQueue", "cluster_queue")])
def test_draining_a_queue_evicts_what_is_admitted(kind, key):
    outcome = decide(admitted(), workload_context(**{key: queue("HoldAndDrain")}))
    assert reason(outcome.workload, "Evicted") == f"{kind}Stopped"
    assert outcome.events[0].reason == f"EvictedDueTo{kind}Stopped"


def test_holding_a_queue_leaves_what_is_admitted():
    assert not predicates.is_evicted(decide(admitted(), workload_context(cluster_queue=queue("Hold"))).workload)


def test_deactivation_evicts_once():
    obj = admitted()
    obj["spec"]["active"] = False
    evicted = decide(obj).workload
    assert reason(evicted, "Evicted") == "Deactivated"
    assert decide(evicted).events == ()


def test_reactivation_allows_requeueing():
    obj = workload()
    transitions.set_requeued(obj, allowed=False, reason="Deactivated", message="", now_ns=NOW)
    assert reason(decide(obj).workload, "Requeued") == "Reactivated"


def test_pods_that_are_not_ready_in_time_evict_with_backoff():
    policy = LifecyclePolicy(pods_ready=PODS_READY)
    outcome = decide(admitted(), policy=policy, now_ns=NOW + 3 * SECOND_NS)
    assert outcome.workload["status"]["requeueState"] == {"count": 1, "requeueAt": from_ns(NOW + 13 * SECOND_NS)}
    assert outcome.events[0].message == "Exceeded the PodsReady timeout ns/wl"


def test_readiness_is_looked_at_again_when_its_time_is_up():
    outcome = decide(admitted(), policy=LifecyclePolicy(pods_ready=PODS_READY), now_ns=NOW + SECOND_NS)
    assert outcome.requeue_after_ns == 2 * SECOND_NS


def test_too_many_requeues_deactivate():
    obj = admitted()
    obj["status"]["requeueState"] = {"count": 2}
    outcome = decide(obj, policy=LifecyclePolicy(pods_ready=PODS_READY), now_ns=NOW + 3 * SECOND_NS)
    assert reason(outcome.workload, "DeactivationTarget") == "RequeuingLimitExceeded"
    assert decide(outcome.workload).workload["spec"]["active"] is False


def test_a_rejected_check_deactivates():
    obj = admitted()
    obj["status"]["admissionChecks"] = [{"name": "ac", "state": "Rejected", "message": "no"}]
    rules = {"admissionChecksStrategy": {"admissionChecks": [{"name": "ac"}]}}
    groups = [{"flavors": [{"name": "f"}]}]
    obj["status"]["admission"]["podSetAssignments"] = [{"name": "main", "flavors": {"cpu": "f"}}]
    outcome = decide(obj, workload_context(cluster_queue=queue(resourceGroups=groups, **rules)))
    assert outcome.events[0].message == 'Deactivated due to AdmissionCheck in Rejected state: "ac" (no)'


def test_checks_follow_the_assigned_flavor():
    obj = admitted()
    obj["status"]["admission"]["podSetAssignments"] = [{"name": "main", "flavors": {"cpu": "spot"}}]
    strategy = {"admissionChecks": [{"name": "a", "onFlavors": ["spot"]}, {"name": "b", "onFlavors": ["other"]}]}
    groups = [{"flavors": [{"name": "spot"}, {"name": "other"}]}]
    outcome = decide(
        obj, workload_context(cluster_queue=queue(resourceGroups=groups, admissionChecksStrategy=strategy))
    )
    assert [check["name"] for check in outcome.workload["status"]["admissionChecks"]] == ["a"]


def test_execution_time_counts_former_runs():
    obj = admitted()
    obj["spec"]["maximumExecutionTimeSeconds"] = 10
    obj["status"]["accumulatedPastExecutionTimeSeconds"] = 8
    assert decide(obj).requeue_after_ns == 2 * SECOND_NS
    assert decide(obj, now_ns=NOW + 2 * SECOND_NS).events[0].reason == "MaximumExecutionTimeExceeded"


def test_finished_workloads_are_deleted_after_their_retention():
    obj = workload()
    transitions.finish(obj, reason="Succeeded", message="", now_ns=NOW)
    policy = LifecyclePolicy(retain_finished_ns=5 * SECOND_NS)
    assert decide(obj, policy=policy).requeue_after_ns == 5 * SECOND_NS
    assert decide(obj, policy=policy, now_ns=NOW + 5 * SECOND_NS).delete


def test_a_gate_releases_quota_until_it_is_cleared():
    obj = admitted()
    obj["metadata"]["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}
    gated = decide(obj).workload
    assert reason(gated, "QuotaReserved") == "AdmissionGated"
    del gated["metadata"]["annotations"]
    assert reason(decide(gated).workload, "QuotaReserved") == "Pending"


def test_losing_the_reservation_adds_to_execution_time():
    obj = admitted()
    transitions.release_quota(obj, reason="Pending", message="", now_ns=NOW + 7 * SECOND_NS)
    assert obj["status"]["accumulatedPastExecutionTimeSeconds"] == 7


def test_long_messages_are_cut():
    obj = workload()
    transitions.finish(obj, reason="Failed", message="x" * 40000, now_ns=NOW)
    assert len(conditions.find(obj, "Finished")["message"]) == 32 * 1024


# Status of what is not admitted (UnadmittedWorkloadsObservability, UnadmittedWorkloadsExplicitStatus).

GRANULAR = LifecyclePolicy(unadmitted=UnadmittedStatus(is_granular=True))
EXPLICIT = LifecyclePolicy(unadmitted=UnadmittedStatus(is_granular=True, is_explicit=True))


def pending(reason, message="m"):
    obj = workload()
    conditions.put(obj, "QuotaReserved", status=False, reason=reason, message=message, now_ns=NOW)
    return obj


def causes(obj, context=None, policy=GRANULAR):
    """Reason and message of QuotaReserved, and the reason of Admitted."""
    written = decide(obj, context, policy).workload
    reserved, admitted_condition = conditions.find(written, "QuotaReserved"), conditions.find(written, "Admitted")
    return (
        None if reserved is None else (reserved["reason"], reserved["message"]),
        None if admitted_condition is None else admitted_condition["reason"],
    )


def test_a_new_workload_has_no_conditions_before_it_is_tried():
    assert causes(workload()) == (None, None)


def test_a_new_workload_has_explicit_conditions_with_the_gate():
    text = "Workload is pending evaluation in the scheduling queue"
    assert causes(workload(), policy=EXPLICIT) == (("PendingEvaluation", text), "NoReservation")


@pytest.mark.parametrize(
    ("context", "cause"),
    [
        (WorkloadContext(), ("Misconfigured", "LocalQueue lq doesn't exist")),
        (workload_context(local_queue=queue("Hold")), ("Suspended", "LocalQueue lq is inactive")),
        (
            WorkloadContext(local_queue=queue(), cluster_queue_name="cq"),
            ("Misconfigured", "ClusterQueue cq doesn't exist"),
        ),
        (
            WorkloadContext(local_queue=queue(), cluster_queue_name="cq", cluster_queue=queue()),
            ("Suspended", "ClusterQueue cq is inactive"),
        ),
    ],
)
def test_a_queue_in_the_way_is_a_granular_reason(context, cause):
    assert causes(workload(), context) == (cause, "NoReservation")
    assert causes(workload(), context, LifecyclePolicy()) == (("Inadmissible", cause[1]), None)


def test_invalid_requests_are_a_misconfiguration():
    context = msgspec.structs.replace(workload_context(), inadmissibility="resources validation failed: x")
    assert causes(workload(), context)[0] == ("Misconfigured", "resources validation failed: x")


@pytest.mark.parametrize("word", ["WaitingForQuota", "ExceedsMaxQuota", "TopologyPlacementFailed"])
def test_the_reason_of_the_scheduler_stays(word):
    assert causes(pending(word)) == ((word, "m"), "NoReservation")


def test_a_queue_that_is_back_makes_the_workload_wait_for_evaluation():
    assert causes(pending("Suspended"))[0][0] == "PendingEvaluation"


def test_a_workload_that_an_equivalent_one_was_tried_for_says_so():
    context = msgspec.structs.replace(workload_context(), bypassed_reason="WaitingForQuota")
    text = "Bypassed scheduling evaluation because an equivalent workload recently failed"
    assert causes(pending("PendingEvaluation"), context)[0] == ("WaitingForQuota", text)
    assert causes(pending("ExceedsMaxQuota"), context)[0] == ("ExceedsMaxQuota", "m")
    assert causes(workload(), context)[0] is None
    assert causes(workload(), context, EXPLICIT)[0] == ("WaitingForQuota", text)


def test_a_deactivated_workload_says_so():
    obj = workload()
    obj["spec"]["active"] = False
    conditions.put(obj, "Evicted", status=True, reason="Deactivated", message="m", now_ns=NOW)
    assert causes(obj) == (("Deactivated", "The workload is deactivated"), "NoReservation")


def test_checks_that_are_not_ready_are_a_granular_reason():
    obj = admitted()
    obj["status"]["conditions"] = [one for one in obj["status"]["conditions"] if one["type"] != "Admitted"]
    obj["status"]["admissionChecks"] = [{"name": "c", "state": "Pending", "message": "", "lastTransitionTime": None}]
    rules = {"admissionChecks": [{"name": "c"}]}
    spec = {"resourceGroups": [{"flavors": [{"name": "f"}]}], "admissionChecksStrategy": rules}
    obj["status"]["admission"]["podSetAssignments"] = [{"name": "main", "flavors": {"cpu": "f"}}]
    context = workload_context(cluster_queue=queue(**spec))
    assert causes(obj, context)[1] == "UnsatisfiedAdmissionChecks"
    assert causes(obj, context, LifecyclePolicy())[1] is None
