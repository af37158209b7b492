"""A `pykueue up` in another process with a small cluster, for tests of the page in a browser."""

import asyncio
import json
import signal
import socket
import subprocess
import sys

from pykueue.api import resources
from pykueue.api.errors import ApiError
from pykueue.kube import access
from pykueue.kube.client import DeleteOptions
from pykueue.kube.http_client import HttpClient

KUEUE = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
NODES = """
apiVersion: v1
kind: Node
metadata: {name: gpu-node}
status: {capacity: {cpu: "64", memory: 256Gi, nvidia.com/gpu: "8", pods: "110"}}
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Site:
    def __init__(self, directory):
        self._directory = directory
        self._data = directory / "data"
        self._process = None
        self._client = None
        self.port, self.page_port = free_port(), free_port()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.page_port}/dashboard/"

    @property
    def kubeconfig(self):
        return self._data / "kubeconfig"

    async def start(self):
        (self._directory / "nodes.yaml").write_text(NODES)
        await self.start_process()
        await self._create_queues()

    async def start_process(self):
        log = (self._directory / "up.log").open("a")
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pykueue", "up", "--runtime", "simulated", "--data-dir", str(self._data)),
            *("--listen", f"127.0.0.1:{self.port}", "--dashboard-port", str(self.page_port)),
            *("--nodes", str(self._directory / "nodes.yaml")),
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
        log.close()
        line = await asyncio.wait_for(self._process.stdout.readline(), 60)
        assert b"is ready at" in line, (self._directory / "up.log").read_text()
        self._client = HttpClient(await access.from_kubeconfig(self.kubeconfig))

    async def stop(self):
        await self._client.close()
        self._process.send_signal(signal.SIGINT)
        try:
            await asyncio.wait_for(self._process.wait(), 15)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def pykueue(self, *words):
        command = [sys.executable, "-m", "pykueue", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def link(self):
        return self.pykueue("dashboard", "--kubeconfig", str(self.kubeconfig)).strip()

    def add_user(self, name, namespace, *, role=""):
        """The token of a new user with rights in one namespace."""
        file = self._directory / f"{name}.kubeconfig"
        words = ["user", "add", name, "-n", namespace, "--kubeconfig", str(file), "--data-dir", str(self._data)]
        self.pykueue(*words, *(["--role", role] if role else []))
        return json.loads(file.read_text())["users"][0]["user"]["token"]

    async def _create_queues(self):
        quota = [{"name": "cpu", "nominalQuota": "32"}, {"name": GPU, "nominalQuota": "4"}]
        spec = {
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [
                {"coveredResources": ["cpu", GPU], "flavors": [{"name": "default", "resources": quota}]}
            ],
        }
        await self._create(resources.RESOURCE_FLAVOR, "ResourceFlavor", "default", {"spec": {}})
        await self._create(resources.CLUSTER_QUEUE, "ClusterQueue", "team", {"spec": spec})
        await self._create(resources.LOCAL_QUEUE, "LocalQueue", "gpu", {"spec": {"clusterQueue": "team"}}, "default")
        for name, value in (("high", 1000), ("low", 10)):
            await self._create(resources.WORKLOAD_PRIORITY_CLASS, "WorkloadPriorityClass", name, {"value": value})

    async def _create(self, resource, kind, name, body, namespace=""):
        obj = {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}, **body}
        await self._client.create(resource, obj, namespace)

    async def create_job(self, name, *, gpu, seconds, priority=""):
        labels = {"kueue.x-k8s.io/queue-name": "gpu"} | (
            {"kueue.x-k8s.io/priority-class": priority} if priority else {}
        )
        amounts = {"cpu": "1", GPU: str(gpu)}
        container = {"name": "main", "image": "i", "resources": {"requests": amounts, "limits": {GPU: str(gpu)}}}
        template = {
            "metadata": {"annotations": {"pykueue.dev/runtime": f"{seconds}s"}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels},
            "spec": {"suspend": True, "template": template},
        }
        await self._client.create(resources.JOB, job, "default")
        return name

    async def delete_job(self, name):
        """Delete a job, and return when its workload is gone."""
        await self._client.delete(resources.JOB, name, "default", DeleteOptions(propagation_policy="Background"))
        for _ in range(400):
            workloads = (await self._client.list(resources.WORKLOAD, "default")).items
            if not any(name in workload["metadata"]["name"] for workload in workloads):
                return
            await asyncio.sleep(0.05)
        raise ApiError(500, "", f"the workload of {name} does not go away")
