"""What the manager decides about copies that a worker restored from a backup has."""

import pytest

from pykueue.controllers.multikueue import adapters, decide
from pykueue.controllers.multikueue.context import GroupContext, RemoteState
from pykueue.kube.controller.writes import Create, Delete, Update

NOW_NS = 1_700_000_000_000_000_000


def workload(*true_conditions, check="Ready"):
    conditions = [
        {"type": name, "status": "True", "reason": name, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for name in true_conditions
    ]
    return {
        "metadata": {"name": "workload", "namespace": "default", "uid": "1"},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]},
        "status": {"conditions": conditions, "admissionChecks": [{"name": "multikueue", "state": check}]},
    }


def plan(local, copy):
    """The manager's plan if the only worker has a copy of the Workload and no job."""
    job = {"metadata": {"name": "job", "namespace": "default", "uid": "2"}, "spec": {"template": {"metadata": {}}}}
    context = GroupContext(
        workload=local,
        check=local["status"]["admissionChecks"][0],
        adapter=adapters.ADAPTERS["batch/job"],
        remotes={"worker1": RemoteState(workload=copy, copies=((job, None),), jobs=())},
        jobs=(job,),
        now_ns=NOW_NS,
    )
    return [action for stage in decide.plan(context).stages for _, action in stage]


def test_an_evicted_copy_without_a_job_is_deleted():
    """Nobody on the worker would end its eviction."""
    actions = plan(workload("QuotaReserved", "Evicted"), workload("QuotaReserved", "Admitted", "Evicted"))
    assert [type(action) for action in actions] == [Delete]


@pytest.mark.parametrize(("check", "creates"), [("Ready", True), ("Pending", True), ("Retry", False)])
def test_a_workload_that_is_to_be_tried_again_gets_no_job(check, creates):
    local = workload("QuotaReserved", check=check)
    local["status"] |= {"clusterName": "worker1"}
    actions = plan(local, workload("QuotaReserved", "Admitted"))
    assert any(isinstance(action, Create) for action in actions) == creates


def test_the_finalizer_of_a_copy_is_removed_with_a_patch_that_custom_resources_know():
    copy = workload("QuotaReserved")
    copy["metadata"]["finalizers"] = ["other", "kueue.x-k8s.io/resource-in-use"]
    [release, deletion] = decide.deletion(RemoteState(workload=copy))
    assert isinstance(release, Update)
    assert release.new["metadata"]["finalizers"] == ["other"]
    assert isinstance(deletion, Delete)
