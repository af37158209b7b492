import pytest

from pykueue.api import conditions
from pykueue.api.times import SECOND_NS, from_ns, to_ns
from pykueue.controllers.workloads import decide as reconcile
from pykueue.controllers.workloads import predicates, transitions
from pykueue.controllers.workloads.decide import LifecyclePolicy, PodsReadyPolicy

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
    return reconcile.WorkloadContext(
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
    outcome = reconcile.decide(workload(), reconcile.WorkloadContext(), LifecyclePolicy(), NOW)
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
