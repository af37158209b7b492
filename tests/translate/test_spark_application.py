import copy

import pytest

from pykueue.translate.jobs import framework, spark_application
from pykueue.translate.jobs.framework import JobOptions
from pykueue.translate.pod_set_info import PodSetInfo

SPARK = spark_application.FRAMEWORK


def application(driver=None, **executor):
    return {
        "metadata": {"name": "pi"},
        "spec": {"suspend": True, "driver": driver or {"coreRequest": "1"}, "executor": {"instances": 3, **executor}},
    }


def pod_sets(job):
    return framework.pod_sets(SPARK, job, JobOptions())


def resources(job, role):
    return pod_sets(job)[role]["template"]["spec"]["containers"][0]["resources"]


def test_one_driver_and_the_executors_asked_for():
    assert [(pod_set["name"], pod_set["count"]) for pod_set in pod_sets(application())] == [
        ("driver", 1),
        ("executor", 3),
    ]


@pytest.mark.parametrize(("java", "kubernetes"), [("512m", "512Mi"), ("2g", "2Gi"), ("1gb", "1Gi"), ("512Mi", "512Mi")])
def test_memory_is_read_as_java_writes_it(java, kubernetes):
    assert resources(application(memory=java), 1)["requests"]["memory"] == kubernetes


def test_gpus_are_limits():
    container_resources = resources(application(gpu={"name": "nvidia.com/gpu", "quantity": 2}), 1)
    assert container_resources["limits"] == {"nvidia.com/gpu": "2"}


def test_sidecars_count():
    job = application(sidecars=[{"name": "log", "image": "fluent"}])
    names = [container["name"] for container in pod_sets(job)[1]["template"]["spec"]["containers"]]
    assert names == ["spark-kubernetes-executor", "log"]


def test_a_start_writes_into_the_fields_of_each_role():
    infos = [PodSetInfo(node_selector={"pool": "a"}), PodSetInfo(node_selector={"pool": "b"}, labels={"x": "y"})]
    started = framework.started(SPARK, application(), infos, JobOptions())
    assert started["spec"]["driver"]["nodeSelector"] == {"pool": "a"}
    assert started["spec"]["executor"] == {"instances": 3, "nodeSelector": {"pool": "b"}, "labels": {"x": "y"}}
    assert not started["spec"]["suspend"]


def test_a_stop_restores_what_was_there():
    job = application()
    original = [PodSetInfo(name="driver", count=1), PodSetInfo(name="executor", count=3)]
    infos = [PodSetInfo(node_selector={"pool": "a"}), PodSetInfo(tolerations=({"key": "spot"},))]
    running = framework.started(SPARK, copy.deepcopy(job), infos, JobOptions())
    assert framework.suspended(SPARK, framework.restored(SPARK, running, original, JobOptions())) == job


def test_pods_are_ready_when_the_executors_are():
    job = application() | {"status": {"applicationState": {"state": "RUNNING"}, "executorState": {"e1": "RUNNING"}}}
    assert not SPARK.pods_ready(job)
    job["status"]["executorState"] |= {"e2": "RUNNING", "e3": "COMPLETED"}
    assert SPARK.pods_ready(job)


def test_a_failed_submission_is_the_end():
    job = application() | {"status": {"applicationState": {"state": "SUBMISSION_FAILED", "errorMessage": "no jar"}}}
    assert (SPARK.finished(job).is_success, SPARK.finished(job).message) == (False, "no jar")
