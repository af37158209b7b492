"""Real Ray and real torch.distributed, where they are installed."""

import importlib.util
import json
import shutil
import subprocess
import sys

import pytest
from tests.cluster.up import api_calls

from pykueue.api import conditions, resources
from pykueue.cluster.operators.kubeflow.frameworks import FRAMEWORKS

PYTORCH_JOB = FRAMEWORKS[0].resource
ALL_REDUCE = """
import torch, torch.distributed as distributed
distributed.init_process_group("gloo")
total = torch.ones(1) * (distributed.get_rank() + 1)
distributed.all_reduce(total)
assert total.item() == 3, total
distributed.barrier()
distributed.destroy_process_group()
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.timeout(300)
def test_two_processes_reduce_with_gloo(cluster):
    container = {"name": "pytorch", "image": "local", "command": [sys.executable, "-c", ALL_REDUCE]}
    replica = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "gloo"},
        "spec": {"pytorchReplicaSpecs": {"Master": replica, "Worker": replica}},
    }

    kubeconfig = cluster.directory / "kubeconfig"
    api_calls.create(kubeconfig, json.dumps(job))
    ended = api_calls.wait_until(
        kubeconfig,
        PYTORCH_JOB,
        "gloo",
        lambda obj: conditions.is_true(obj, "Succeeded") or conditions.is_true(obj, "Failed"),
        seconds=200,
    )
    assert conditions.is_true(ended, "Succeeded")


RAY_JOB = """
apiVersion: v1
kind: ConfigMap
metadata: {name: code}
data:
  squares.py: |
    import ray
    ray.init(address="auto")
    square = ray.remote(lambda number: number * number)
    assert sum(ray.get([square.remote(number) for number in range(10)])) == 285
---
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: squares}
spec:
  entrypoint: python /home/ray/samples/squares.py
  shutdownAfterJobFinishes: true
  rayClusterSpec:
    headGroupSpec:
      rayStartParams: {}
      template:
        spec:
          containers:
          - name: ray-head
            image: rayproject/ray
            resources: {requests: {cpu: 500m}}
            volumeMounts: [{name: code, mountPath: /home/ray/samples}]
          volumes: [{name: code, configMap: {name: code}}]
"""


@pytest.mark.skipif(shutil.which("ray") is None, reason="ray is not installed")
@pytest.mark.timeout(400)
def test_a_ray_job_runs_on_a_real_ray_cluster(cluster):
    kubeconfig = cluster.directory / "kubeconfig"
    api_calls.create(kubeconfig, RAY_JOB)
    ended = api_calls.wait_until(
        kubeconfig,
        resources.RAY_JOB,
        "squares",
        lambda obj: obj.get("status", {}).get("jobDeploymentStatus") in ("Complete", "Failed"),
        seconds=300,
    )
    assert ended["status"]["jobStatus"] == "SUCCEEDED"


TRAIN = """
from kubeflow.trainer import CustomTrainer, TrainerClient

def train():
    import torch, torch.distributed as distributed
    distributed.init_process_group("gloo")
    total = torch.ones(1) * (distributed.get_rank() + 1)
    distributed.all_reduce(total)
    assert total.item() == 3, total
    distributed.destroy_process_group()

client = TrainerClient()
trainer = CustomTrainer(func=train, num_nodes=2, resources_per_node={"cpu": "200m"})
name = client.train(runtime=client.get_runtime("torch-distributed"), trainer=trainer)
client.wait_for_job_status(name, status={"Complete", "Failed"}, timeout=250)
assert client.get_job(name).status == "Complete"
"""


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None or importlib.util.find_spec("kubeflow") is None,
    reason="torch or the Kubeflow SDK is not installed",
)
@pytest.mark.torture
@pytest.mark.timeout(400)
def test_the_kubeflow_sdk_trains_on_two_nodes(cluster, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    subprocess.run([sys.executable, str(script)], env=cluster.environment, timeout=300, check=True)
