"""One server for the whole session, started with `pykueue up`, and real kubectl as its client.

With PYKUEUE_E2E_KUBECONFIG the tests use an external cluster instead; see `external_cluster`.
"""

import itertools
import json
import signal
import subprocess
import sys
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.controller_process import environment
from tests.e2e.external_cluster import EXTERNAL_KUBECONFIG
from tests.e2e.real_kubectl import KUBECTL, Kubectl

CONFIGURATION = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "integrations": {"frameworks": ["batch/job", "kubeflow.org/pytorchjob", "ray.io/rayjob", "ray.io/raycluster"]},
}

_numbers = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Server:
    directory: Path
    process: subprocess.Popen[str]

    @property
    def kubeconfig(self):
        return self.directory / "kubeconfig"

    @property
    def access(self):
        return json.loads(self.kubeconfig.read_text())

    @property
    def url(self):
        return self.access["clusters"][0]["cluster"]["server"]

    @property
    def token(self):
        return self.access["users"][0]["user"]["token"]


def start_server(directory, *options):
    """Start `pykueue up` in another process and wait until it is ready."""
    command = [sys.executable, "-m", "pykueue", "up", "--runtime", "none", "--data-dir", str(directory)]
    log = directory.parent / f"{directory.name}.log"
    with log.open("a") as stderr:
        process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", *options],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=environment(),
        )
    line = process.stdout.readline()
    assert "is ready at" in line, log.read_text()
    return Server(directory=directory, process=process)


def stop_server(server):
    server.process.send_signal(signal.SIGINT)
    try:
        server.process.wait(timeout=10)
    finally:
        server.process.kill()
        server.process.stdout.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    server = start_server(tmp_path_factory.mktemp("up") / "data")
    yield server
    stop_server(server)
    log = (server.directory.parent / "data.log").read_text()
    assert "Traceback" not in log, log


@contextmanager
def running_api(external_cluster, directory, *, configuration=CONFIGURATION, controllers=True):
    """The kubeconfig of an empty API with pykueue: the external cluster or a new embedded API."""
    if external_cluster is not None:
        external_cluster.clean()
        external_cluster.configure(configuration, controllers=controllers)
        try:
            yield external_cluster.kubeconfig
        finally:
            external_cluster.clean()
        return
    (directory / "config.yaml").write_text(json.dumps(configuration))
    options = ["--config", str(directory / "config.yaml")] + ([] if controllers else ["--no-controllers"])
    server = start_server(directory / "data", *options)
    try:
        yield server.kubeconfig
    finally:
        stop_server(server)


@pytest.fixture(scope="session")
def kubectl_home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def kubeconfig(external_cluster, request):
    """The kubeconfig of the server that the tests share."""
    if external_cluster is None:
        return request.getfixturevalue("server").kubeconfig
    external_cluster.configure(CONFIGURATION)
    return external_cluster.kubeconfig


@pytest.fixture
def kubectl(kubeconfig, kubectl_home):
    """Kubectl as the administrator, in a new namespace."""
    if KUBECTL is None:
        pytest.skip("kubectl is not on PATH")
    unique = f"-{uuid.uuid4().hex[:5]}" if EXTERNAL_KUBECONFIG else ""
    kubectl = Kubectl(kubeconfig=kubeconfig, namespace=f"test-{next(_numbers)}{unique}", home=kubectl_home)
    kubectl("create", "namespace", kubectl.namespace)
    return kubectl
