"""`pykueue up` in another process, and the commands of a user."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src"

QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: shared}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: ["cpu"]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 1}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: user-queue, namespace: default}
spec: {clusterQueue: shared}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: high}
value: 1000
"""


class Cluster:
    def __init__(self, directory):
        self.directory = directory
        self.process = None

    def start(self, *options):
        command = [sys.executable, "-m", "pykueue", "up", "--bare", "--listen", "127.0.0.1:0", *options]
        self.process = subprocess.Popen(
            [*command, "--data-dir", str(self.directory)], stdout=subprocess.PIPE, text=True, env=self.environment
        )
        assert "is ready at" in self.process.stdout.readline()
        return self

    @property
    def environment(self):
        return {**os.environ, "PYTHONPATH": str(SOURCE), "KUBECONFIG": str(self.directory / "kubeconfig")}

    def stop(self, number=signal.SIGTERM):
        """Send a signal, wait for the end, and return what was printed since the start."""
        self.process.send_signal(number)
        with self.process:
            return self.process.stdout.read()

    def run(self, *words, code=0):
        done = self._run(words)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def fail(self, *words):
        return self.stderr(*words, code=1)

    def stderr(self, *words, code=0):
        done = self._run(words)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr

    def following(self, *words):
        """A command that runs beside the test."""
        command = [sys.executable, "-m", "pykueue", *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self.environment)

    def _run(self, words):
        return subprocess.run(
            [sys.executable, "-m", "pykueue", *words],
            capture_output=True,
            text=True,
            timeout=100,
            env=self.environment,
            cwd=self.directory,
            check=False,
        )


@pytest.fixture
def cluster(tmp_path):
    started = Cluster(tmp_path / "data").start()
    yield started
    started.run("down", "--data-dir", str(started.directory))
    if started.process.returncode is None:
        started.process.communicate(timeout=30)
