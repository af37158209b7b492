import re

import pytest
from tests.cluster.operators.ray.ray_fixture import RayFixture, cluster_spec

from pykueue.api import conditions, objects
from pykueue.cluster.operators.ray import names


def test_a_cluster_gets_a_head_and_its_workers():
    prefixes = sorted(
        re.sub(r"\d{5}$", "", objects.name(pod)) for pod in RayFixture().add_cluster().sync().api.of("Pod")
    )
    assert prefixes == ["raycluster-dev-head-", *["raycluster-dev-worker-small-group-test-"] * 2]


@pytest.mark.parametrize(
    ("cluster", "prefix"),
    [
        ("prod-pytorch-text-classifier-gkp9b-raycluster-s2f65", "torch-text-classifier-gkp9b-raycluster-s2f65-head-"),
        ("dev-pytorch-text-classifier-r6d4p-raycluster-br45j", "torch-text-classifier-r6d4p-raycluster-br45j-head-"),
    ],
)
def test_long_names_lose_their_beginning(cluster, prefix):
    assert names.head_prefix(cluster) == prefix


def test_a_shortened_name_begins_with_a_letter():
    assert names.shortened("abc-12345", 6) == "r12345"


def test_totals_are_in_the_first_status():
    status = RayFixture().add_cluster().sync().one("RayCluster")["status"]
    assert (status["desiredCPU"], status["desiredMemory"], status["desiredGPU"]) == ("6", "16G", "0")
    assert status["desiredWorkerReplicas"] == 2
    assert "availableWorkerReplicas" not in status


def test_gpus_of_limits_count():
    fixture = RayFixture().add_cluster(**cluster_spec(gpu="4")).sync()
    assert fixture.one("RayCluster")["status"]["desiredGPU"] == "4"


def test_a_cluster_whose_pods_are_ready_is_ready():
    cluster = RayFixture().add_cluster().sync().start_pods().one("RayCluster")
    assert (cluster["status"]["state"], cluster["status"]["availableWorkerReplicas"]) == ("ready", 2)
    assert conditions.is_true(cluster, "RayClusterProvisioned")


def test_a_suspended_cluster_has_no_pods():
    fixture = RayFixture().add_cluster().sync().start_pods()
    fixture.one("RayCluster")["spec"]["suspend"] = True
    fixture.sync()
    assert fixture.one("RayCluster")["status"]["state"] == "ready"
    fixture.collect()
    assert fixture.api.of("Pod") == []
    status = fixture.one("RayCluster")["status"]
    assert (status["state"], status["desiredWorkerReplicas"]) == ("suspended", 2)
    assert "availableWorkerReplicas" not in status


def test_a_failed_worker_is_replaced():
    fixture = RayFixture().add_cluster().sync()
    worker = next(pod for pod in fixture.api.of("Pod") if "worker" in objects.name(pod))
    fixture.api.end_pod(worker, 1)
    fixture.sync().collect()
    assert len(fixture.api.of("Pod")) == 3


def test_fewer_replicas_remove_workers():
    fixture = RayFixture().add_cluster().sync()
    fixture.one("RayCluster")["spec"]["workerGroupSpecs"][0]["replicas"] = 0
    fixture.sync()
    assert len(fixture.api.of("Pod")) == 1


def test_a_settled_cluster_is_not_written_again():
    fixture = RayFixture().add_cluster().sync().start_pods()
    version = fixture.one("RayCluster")["metadata"]["resourceVersion"]
    fixture.api.pass_time(60)
    assert fixture.sync().one("RayCluster")["metadata"]["resourceVersion"] == version


def test_the_head_starts_ray_with_its_size():
    head = next(pod for pod in RayFixture().add_cluster().sync().api.of("Pod") if "head" in objects.name(pod))
    (script,) = head["spec"]["containers"][0]["args"]
    assert script.startswith("ray start --head --block")
    assert "--num-cpus=2" in script
