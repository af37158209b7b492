from pykueue.controllers.workloads import transitions


def evicted(**check):
    workload = {"metadata": {"name": "w"}, "spec": {}, "status": {"admissionChecks": [{"name": "c", **check}]}}
    transitions.evict(workload, reason="AdmissionCheck", message="", now_ns=0)
    return workload["status"]["admissionChecks"][0]


def test_a_retried_check_counts_its_retries():
    assert evicted(state="Retry", retryCount=1)["retryCount"] == 2


def test_a_rejected_check_keeps_its_count_of_retries():
    assert evicted(state="Rejected", retryCount=1)["retryCount"] == 1


def test_a_ready_check_has_no_retries():
    assert "retryCount" not in evicted(state="Ready")
