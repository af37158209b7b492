"""Controllers in processes of their own, against an embedded API in another one."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.e2e.conftest import KUBECTL, Kubectl, environment, start_server, stop_server

DEADLINE_SECONDS = 60
QUEUES = Path(__file__).parent / "queues.yaml"


def wait_for(claim, what, seconds=DEADLINE_SECONDS):
    """What the claim returns once it is true; both ends are real processes, so there is nothing to watch in here."""
    deadline = time.monotonic() + seconds
    while not (found := claim()):
        assert time.monotonic() < deadline, f"not in {seconds} s: {what}"
        time.sleep(0.05)
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Controller:
    """`pykueue controller` in a process of its own."""

    process: subprocess.Popen
    port: int
    log: Path

    def page(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def leads(self):
        return "kueue_" in self.page("metrics")

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(timeout=DEADLINE_SECONDS)


@dataclass
class Cluster:
    kubeconfig: Path
    kubectl: Kubectl
    directory: Path
    controllers: list[Controller] = field(default_factory=list)

    def start_controller(self, **configuration):
        port = free_port()
        address = f"127.0.0.1:{port}"
        file = self.directory / f"configuration-{port}.yaml"
        document = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": address},
            "metrics": {"bindAddress": address},
            "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": free_port()},
            **configuration,
        }
        file.write_text(json.dumps(document))
        log = self.directory / f"controller-{port}.log"
        command = [sys.executable, "-m", "pykueue", "controller", "--kubeconfig", str(self.kubeconfig)]
        with log.open("w") as stderr:
            process = subprocess.Popen([*command, "--config", str(file)], stderr=stderr, env=environment())
        self.controllers.append(Controller(process=process, port=port, log=log))
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
        return any(each["type"] == condition and each["status"] == "True" for each in conditions)

    def admitted(self):
        found = self.kubectl.json("get", "workloads")["items"]
        return [each["metadata"]["name"] for each in found if self.is_condition_true(each, "Admitted")]


@pytest.fixture
def cluster(tmp_path):
    if KUBECTL is None:
        pytest.skip("kubectl is not on PATH")
    server = start_server(tmp_path / "data", "--no-controllers")
    kubectl = Kubectl(kubeconfig=server.kubeconfig, namespace="default", home=tmp_path)
    made = Cluster(kubeconfig=server.kubeconfig, kubectl=kubectl, directory=tmp_path)
    kubectl("apply", "-f", os.fspath(QUEUES))
    yield made
    for controller in made.controllers:
        if controller.process.poll() is None:
            controller.stop()
        assert "Traceback" not in controller.log.read_text(), controller.log.read_text()
    stop_server(server)
