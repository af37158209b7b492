import pytest

from pykueue.dashboard import rows


def workload(*conditions, active=True, **status):
    return {
        "metadata": {
            "name": "job-train",
            "namespace": "team",
            "uid": "u1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"kind": "Job", "name": "train"}],
        },
        "spec": {
            "queueName": "gpu",
            "priority": 7,
            "active": active,
            "podSets": [
                {
                    "count": 2,
                    "template": {
                        "spec": {"containers": [{"resources": {"requests": {"cpu": "500m", "memory": "1Ki"}}}]}
                    },
                }
            ],
        },
        "status": {"conditions": [*conditions], **status},
    }


def condition(name, *, status="True", reason="", message="", at="2026-01-01T00:01:00Z"):
    return {"type": name, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


def field(row, name):
    return row[rows.WORKLOAD_FIELDS.index(name)]


RESERVED, ADMITTED = condition("QuotaReserved"), condition("Admitted")


@pytest.mark.parametrize(
    ("state", "obj"),
    [
        ("pending", workload()),
        ("reserved", workload(RESERVED)),
        ("starting", workload(RESERVED, ADMITTED, condition("PodsReady", status="False"))),
        ("running", workload(RESERVED, ADMITTED, condition("PodsReady"))),
        ("running", workload(RESERVED, ADMITTED)),
        ("stopping", workload(RESERVED, ADMITTED, condition("Evicted"))),
        ("pending", workload(condition("Evicted"))),
        ("stopped", workload(active=False)),
        ("finished", workload(RESERVED, ADMITTED, condition("Finished", reason="Succeeded"))),
        ("failed", workload(RESERVED, ADMITTED, condition("Finished", reason="Failed"))),
    ],
)
def test_the_state_of_a_workload(state, obj):
    assert field(rows.workload(obj), "state") == state


def test_requests_are_those_of_all_pods():
    assert field(rows.workload(workload()), "requests") == {"cpu": 1.0, "memory": 2048.0}


def test_a_pending_workload_says_why():
    row = rows.workload(workload(condition("QuotaReserved", status="False", message="no quota")))
    assert field(row, "message") == "no quota"


def test_a_long_reason_is_cut():
    row = rows.workload(workload(condition("QuotaReserved", status="False", message="x" * 5000)))
    assert len(field(row, "message")) == 160


def test_a_preemption_names_the_preemptor_and_the_lost_work():
    message = "Preempted to accommodate a workload (UID: u2, JobUID: j2) due to reclamation within the cohort; preemptor path: /a"
    preempted = condition("Preempted", reason="InCohortReclamation", message=message, at="2026-01-01T00:05:00Z")
    preemption = rows.preemption(workload(RESERVED, ADMITTED, preempted))
    assert (preemption["by"], preemption["why"], preemption["ran"]) == ("u2", "reclamation within the cohort", 240)


def test_a_finished_pod_has_no_row():
    pod = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "a"}, "status": {"phase": "Succeeded"}}
    assert rows.pod(pod) is None


def test_a_cluster_queue_has_quota_and_usage():
    resource = {"name": "cpu", "nominalQuota": "4", "borrowingLimit": "2"}
    usage = [{"name": "f", "resources": [{"name": "cpu", "total": "5", "borrowed": "1"}]}]
    queue = {
        "metadata": {"name": "q"},
        "spec": {"resourceGroups": [{"flavors": [{"name": "f", "resources": [resource]}]}]},
        "status": {"flavorsReservation": usage},
    }
    assert rows.cluster_queue(queue)["quota"] == [["f", "cpu", 4.0, 2.0, None, 5.0, 1.0, 0.0, 0.0]]
