"""Controllers in processes of their own, on an external cluster or an embedded API."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.e2e.conftest import KUBECTL, Kubectl, running_api
from tests.e2e.controller_process import Controller, start_controller, wait_for

QUEUES = Path(__file__).parent / "queues.yaml"


@dataclass
class Cluster:
    kubeconfig: Path
    """What the controllers use."""
    kubectl: Kubectl
    directory: Path
    controllers: list[Controller] = field(default_factory=list)

    def start_controller(self, **configuration):
        self.controllers.append(start_controller(self.kubeconfig, self.directory, configuration))
        return self.controllers[-1]

    def start_leader(self, **configuration):
        controller = self.start_controller(**configuration)
        wait_for(controller.leads, "the controller leads")
        return controller

    def job(self, name, queue="jobs", **spec):
        labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels},
            "spec": {"template": template, **spec},
        }

    def is_suspended(self, name):
        return self.kubectl.json("get", "job", name)["spec"].get("suspend", False)

    def is_condition_true(self, workload, condition):
        conditions = workload.get("status", {}).get("conditions", [])
        return any(item["type"] == condition and item["status"] == "True" for item in conditions)

    def admitted(self):
        workloads = self.kubectl.json("get", "workloads")["items"]
        return [workload["metadata"]["name"] for workload in workloads if self.is_condition_true(workload, "Admitted")]


@pytest.fixture
def cluster(external_cluster, tmp_path):
    if KUBECTL is None:
        pytest.skip("kubectl is not on PATH")
    with running_api(external_cluster, tmp_path, controllers=False) as kubeconfig:
        kubectl = Kubectl(kubeconfig=kubeconfig, namespace="default", home=tmp_path)
        cluster = Cluster(external_cluster.controller_kubeconfig if external_cluster else kubeconfig, kubectl, tmp_path)
        kubectl("apply", "-f", os.fspath(QUEUES))
        yield cluster
        for controller in cluster.controllers:
            controller.end()
