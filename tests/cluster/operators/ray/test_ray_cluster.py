import re

import pytest
from tests.cluster.operators.ray.operator import Operator, cluster_spec

from pykueue.api import conditions, objects
from pykueue.cluster.operators.ray import names


def test_a_cluster_gets_a_head_and_its_workers():
    found = sorted(re.sub(r"\d{5}$", "", objects.name(pod)) for pod in Operator().add_cluster().sync().world.of("Pod"))
    assert found == ["raycluster-dev-head-", *["raycluster-dev-worker-small-group-test-"] * 2]


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


def test_totals_are_known_at_once():
    status = Operator().add_cluster().sync().one("RayCluster")["status"]
    assert (status["desiredCPU"], status["desiredMemory"], status["desiredGPU"]) == ("6", "16G", "0")
    assert status["desiredWorkerReplicas"] == 2
    assert "availableWorkerReplicas" not in status


def test_gpus_of_limits_count():
    operator = Operator().add_cluster(**cluster_spec(gpu="4")).sync()
    assert operator.one("RayCluster")["status"]["desiredGPU"] == "4"


def test_a_cluster_whose_pods_are_ready_is_ready():
    cluster = Operator().add_cluster().sync().start_pods().one("RayCluster")
    assert (cluster["status"]["state"], cluster["status"]["availableWorkerReplicas"]) == ("ready", 2)
    assert conditions.is_true(cluster, "RayClusterProvisioned")


def test_a_suspended_cluster_has_no_pods():
    operator = Operator().add_cluster().sync().start_pods()
    operator.one("RayCluster")["spec"]["suspend"] = True
    operator.sync()
    assert operator.one("RayCluster")["status"]["state"] == "ready"
    operator.collect()
    assert operator.world.of("Pod") == []
    status = operator.one("RayCluster")["status"]
    assert (status["state"], status["desiredWorkerReplicas"]) == ("suspended", 2)
    assert "availableWorkerReplicas" not in status


def test_a_failed_worker_is_replaced():
    operator = Operator().add_cluster().sync()
    worker = next(pod for pod in operator.world.of("Pod") if "worker" in objects.name(pod))
    operator.world.end_pod(worker, 1)
    operator.sync().collect()
    assert len(operator.world.of("Pod")) == 3


def test_fewer_replicas_remove_workers():
    operator = Operator().add_cluster().sync()
    operator.one("RayCluster")["spec"]["workerGroupSpecs"][0]["replicas"] = 0
    operator.sync()
    assert len(operator.world.of("Pod")) == 1


def test_a_settled_cluster_is_not_written_again():
    operator = Operator().add_cluster().sync().start_pods()
    version = operator.one("RayCluster")["metadata"]["resourceVersion"]
    operator.world.pass_time(60)
    assert operator.sync().one("RayCluster")["metadata"]["resourceVersion"] == version


def test_the_head_starts_ray_with_its_size():
    head = next(pod for pod in Operator().add_cluster().sync().world.of("Pod") if "head" in objects.name(pod))
    (script,) = head["spec"]["containers"][0]["args"]
    assert script.startswith("ray start --head --block")
    assert "--num-cpus=2" in script
