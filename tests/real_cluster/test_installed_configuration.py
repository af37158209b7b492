"""`helm install` into `pykueue up`: the Configuration of the chart takes effect at once."""

import os
import subprocess

import pytest
from tests.e2e.conftest import KUBECTL, Kubectl, start_server, stop_server
from tests.e2e.controller_process import wait_for
from tests.e2e.external_cluster import embedded
from tests.install.test_chart import CHART, HELM, VALUES, needs_helm

TRAINING = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "training", "labels": {"kueue.x-k8s.io/queue-name": "jobs"}},
    "spec": {
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": {"spec": {"containers": [{"name": "pytorch", "image": "x"}]}}}
        }
    },
}


@pytest.fixture
def installed(tmp_path):
    """A server that manages Jobs only, and then the values of a chart that adds PyTorchJobs."""
    if KUBECTL is None:
        pytest.skip("kubectl is not on PATH")
    server = start_server(tmp_path / "data")
    kubectl = Kubectl(kubeconfig=server.kubeconfig, namespace="default", home=tmp_path)
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "HOME": str(tmp_path)}
    command = [HELM, "install", "kueue", str(CHART), "--namespace", "kueue-system", "--create-namespace"]
    done = subprocess.run([*command, "-f", str(VALUES)], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    yield kubectl
    stop_server(server)


@needs_helm
@embedded("its controllers obey a ConfigMap")
def test_an_installed_configuration_takes_effect(installed):
    def is_suspended():
        installed.apply(TRAINING)
        job = installed.json("get", "pytorchjob", "training")
        installed("delete", "pytorchjob", "training")
        return job["spec"].get("runPolicy", {}).get("suspend", False)

    wait_for(is_suspended, "PyTorchJobs with a queue are created suspended")
    installed.apply(TRAINING)
    wait_for(lambda: installed.json("get", "workloads")["items"], "they get a Workload")
