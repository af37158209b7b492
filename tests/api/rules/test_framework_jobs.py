"""TrainJob, AppWrapper, SparkApplication and LeaderWorkerSet, in the words of Kueue's webhooks."""

import pytest
from tests.install.job_objects import (
    ELASTIC,
    JOBS,
    MANAGED,
    QUEUE,
    REQUIRED,
    SIZE,
    SLICE,
    changed,
    marked,
    placed,
)

PARENT, SERVING = "kueue.x-k8s.io/pod-suspending-parent", "kueue.x-k8s.io/pod-group-serving"
OFFSET = "kueue.x-k8s.io/pod-index-offset"
SPARK, GROUPS = JOBS["SparkApplication"], JOBS["LeaderWorkerSet"]
PARTS = ("spec", "leaderWorkerTemplate")


@pytest.mark.parametrize("kind", ["TrainJob", "AppWrapper", "SparkApplication"])
def test_job_with_a_queue_is_created_suspended(admission, kind):
    assert admission.stored(JOBS[kind])["spec"]["suspend"] is True


@pytest.mark.parametrize("kind", ["AppWrapper", "SparkApplication", "LeaderWorkerSet"])
def test_job_without_a_queue_is_left_as_it_is(admission, kind):
    job = marked(JOBS[kind], {})
    assert admission.stored(job) == job


def test_train_job_gets_a_patch_of_kueue_after_those_of_users(admission):
    stored = admission.stored(changed(JOBS["TrainJob"], ("spec", "runtimePatches"), [{"manager": "mine"}]))
    assert [patch["manager"] for patch in stored["spec"]["runtimePatches"]] == ["mine", "kueue.x-k8s.io/manager"]


def test_spark_application_runs_in_cluster_mode(admission):
    expected = 'spec.mode: Invalid value: "client": only Cluster mode is supported for a kueue managed job'
    assert admission.refusal(changed(SPARK, ("spec", "mode"), "client")) == expected


def test_spark_application_allocates_dynamically_only_as_an_elastic_job(admission):
    expected = (
        "spec.dynamicAllocation.enabled: Invalid value: true: a kueue managed job can use dynamicAllocation only when the "
        "ElasticJobsViaWorkloadSlices feature gate is on and the job is an elastic job"
    )
    assert admission.refusal(changed(SPARK, ("spec", "dynamicAllocation"), {"enabled": True})) == expected


def test_spark_application_without_a_queue_may_do_as_it_likes(admission):
    assert admission.refusal(changed(marked(SPARK, {}), ("spec", "mode"), "client")) == ""


def test_spark_application_cannot_be_elastic(admission):
    expected = (
        f"metadata.annotations[{ELASTIC}]: Forbidden: elastic job is not supported for "
        '"sparkoperator.k8s.io/v1beta2, Kind=SparkApplication"'
    )
    assert admission.refusal(marked(SPARK, None, {ELASTIC: "true"})) == expected


def test_pods_of_a_leader_worker_set_are_marked(admission):
    templates = admission.stored(GROUPS)["spec"]["leaderWorkerTemplate"]
    marks = {PARENT: "leaderworkerset.x-k8s.io/leaderworkerset", SERVING: "true"}
    assert templates["leaderTemplate"]["metadata"] == {"labels": {QUEUE: "lq"}, "annotations": marks}
    assert templates["workerTemplate"]["metadata"] == {"labels": {QUEUE: "lq"}, "annotations": marks | {OFFSET: "1"}}


def test_leader_worker_set_has_a_sane_number_of_replicas(admission):
    expected = (
        "spec.replicas: Invalid value: 1000001: invalid LeaderWorkerSet replicas: must be <= 1000000, got 1000001"
    )
    assert admission.refusal(changed(GROUPS, ("spec", "replicas"), 1_000_001)) == expected


def test_size_of_a_group_is_immutable(admission):
    expected = "spec.leaderWorkerTemplate.size: Invalid value: 4: field is immutable"
    assert admission.refusal(changed(GROUPS, (*PARTS, "size"), 4), GROUPS) == expected


def test_slices_of_workers_are_not_larger_than_a_group(admission):
    expected = (
        f"spec.leaderWorkerTemplate.workerTemplate.metadata.annotations[{SIZE}]: Invalid value: "
        '"3": must not be greater than pod set count 2'
    )
    assert admission.refusal(placed(GROUPS, {REQUIRED: "block", SLICE: "rack", SIZE: "3"}, 1)) == expected


def test_pods_of_a_leader_worker_set_are_not_labelled_as_managed(admission):
    """The controller does it when it has found their group."""
    templates = admission.stored(GROUPS)["spec"]["leaderWorkerTemplate"]
    assert MANAGED not in templates["workerTemplate"]["metadata"]["labels"]
