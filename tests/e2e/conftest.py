"""One server for the whole session, started as a user would, and real kubectl to talk to it.

With PYKUEUE_E2E_KUBECONFIG it is a cluster of somebody else's; see `given_cluster`.
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
from tests.e2e.given_cluster import GIVEN
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
    """`pykueue up` in a process of its own; returns when it says that it is ready."""
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
    made = start_server(tmp_path_factory.mktemp("up") / "data")
    yield made
    stop_server(made)
    log = (made.directory.parent / "data.log").read_text()
    assert "Traceback" not in log, log


@contextmanager
def running_api(given, directory, *, configuration=CONFIGURATION, controllers=True):
    """The kubeconfig of an API with nothing in it but pykueue: the given cluster, or an embedded API of its own."""
    if given is not None:
        given.clean()
        given.configure(configuration, controllers=controllers)
        try:
            yield given.kubeconfig
        finally:
            given.clean()
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
def kubeconfig(given, request):
    """Of a server that the tests share."""
    if given is None:
        return request.getfixturevalue("server").kubeconfig
    given.configure(CONFIGURATION)
    return given.kubeconfig


@pytest.fixture
def kubectl(kubeconfig, kubectl_home):
    """Kubectl as the administrator, in a namespace of its own."""
    if KUBECTL is None:
        pytest.skip("kubectl is not on PATH")
    unique = f"-{uuid.uuid4().hex[:5]}" if GIVEN else ""
    made = Kubectl(kubeconfig=kubeconfig, namespace=f"test-{next(_numbers)}{unique}", home=kubectl_home)
    made("create", "namespace", made.namespace)
    return made
