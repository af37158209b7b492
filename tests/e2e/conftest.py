"""One server for the whole session, started as a user would, and real kubectl to talk to it."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

KUBECTL = shutil.which("kubectl")
SOURCE = Path(__file__).parents[2] / "src"
READY_SECONDS = 30

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


def environment():
    return {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1"}


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


@dataclass(frozen=True, kw_only=True)
class Kubectl:
    """Runs kubectl in one namespace; `fails` gives what it says when it is refused."""

    kubeconfig: Path
    namespace: str
    home: Path

    @property
    def _place(self):
        return ["-n", self.namespace] if self.namespace else []

    def run(self, *arguments, stdin=None, environment=()):
        env = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.home), **dict(environment)}
        command = [KUBECTL, f"--cache-dir={self.home}/cache", *self._place, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, env=env, timeout=60, check=False)

    def __call__(self, *arguments, stdin=None, environment=()):
        done = self.run(*arguments, stdin=stdin, environment=environment)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def everywhere(self):
        """The same without a namespace: manifests say where things go."""
        return replace(self, namespace="")

    def fails(self, *arguments, stdin=None):
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode != 0, f"kubectl {' '.join(arguments)} did not fail\n{done.stdout}"
        return done.stderr

    def json(self, *arguments):
        return json.loads(self(*arguments, "-o", "json"))

    def apply(self, *objects, options=()):
        return self(
            "apply", *options, "-f", "-", stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": objects})
        )

    def popen(self, *arguments):
        env = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.home)}
        command = [KUBECTL, f"--cache-dir={self.home}/cache", *self._place, *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


@pytest.fixture(scope="session")
def kubectl_home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def kubectl(server, kubectl_home):
    """Kubectl as the administrator, in a namespace of its own."""
    if KUBECTL is None:
        pytest.skip("kubectl is not on PATH")
    made = Kubectl(kubeconfig=server.kubeconfig, namespace=f"test-{next(_numbers)}", home=kubectl_home)
    made("create", "namespace", made.namespace)
    return made
