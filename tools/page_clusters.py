"""Clusters with something to see, for pictures of the page."""

import asyncio
import contextlib
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml

from pykueue.api import registry, resources, times
from pykueue.api.scheme import Object, Resource
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.paths import ServerPaths
from pykueue.dashboard.embedded import EmbeddedDashboard
from pykueue.kube import access
from pykueue.kube.client import Client
from pykueue.kube.http_client import HttpClient

KUEUE = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
TEAMS = {"research": 8, "speech": 4, "vision": 4}
_PRIORITIES = {"low": 10, "normal": 100, "high": 1000}
_RACK = "topology.lab/rack"
_GROUP_SIZE = 250


def node(name: str, rack: str) -> Object:
    labels = {_RACK: rack, "kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": "gpu-8"}
    capacity = {"cpu": "32", "memory": "256Gi", GPU: "8", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def nodes() -> str:
    return yaml.safe_dump_all([node(f"gpu-{number + 1}", f"rack-{'ab'[number // 2]}") for number in range(4)])


def cluster_queue(name: str, cohort: str, *, gpus: int, cpus: int) -> Object:
    quotas = {"cpu": str(cpus), "memory": f"{cpus * 8}Gi", GPU: str(gpus)}
    flavor = {"name": "h100", "resources": [{"name": key, "nominalQuota": value} for key, value in quotas.items()]}
    preemption = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    spec = {
        "cohortName": cohort,
        "namespaceSelector": {},
        "preemption": preemption,
        "resourceGroups": [{"coveredResources": [*quotas], "flavors": [flavor]}],
    }
    return {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


async def create_queues(client: Client, queues: dict[str, Object]) -> None:
    """The queues, each with a namespace and a LocalQueue `gpu` in it."""

    async def create(resource: Resource, kind: str, name: str, body: Object, namespace: str = "") -> None:
        version = "v1" if kind == "Namespace" else KUEUE
        obj = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **body}
        await client.create(resource, obj, namespace)

    levels = [{"nodeLabel": _RACK}, {"nodeLabel": "kubernetes.io/hostname"}]
    await create(resources.TOPOLOGY, "Topology", "racks", {"spec": {"levels": levels}})
    await create(resources.RESOURCE_FLAVOR, "ResourceFlavor", "h100", {"spec": {}})
    for name, value in _PRIORITIES.items():
        await create(resources.WORKLOAD_PRIORITY_CLASS, "WorkloadPriorityClass", name, {"value": value})
    for name, queue in queues.items():
        await client.create(resources.CLUSTER_QUEUE, queue)
        await create(resources.NAMESPACE, "Namespace", name, {})
        await create(resources.LOCAL_QUEUE, "LocalQueue", "gpu", {"spec": {"clusterQueue": name}}, name)


class BusyCluster:
    """Three teams in a cohort; their jobs borrow, wait and preempt."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._client: HttpClient | None = None

    @property
    def client(self) -> HttpClient:
        assert self._client is not None, "create_queues connects"
        return self._client

    async def create_queues(self) -> None:
        self._client = HttpClient(await access.from_kubeconfig(self._kubeconfig))
        queues = {name: cluster_queue(name, "lab", gpus=gpus, cpus=gpus * 4) for name, gpus in TEAMS.items()}
        await create_queues(self._client, queues)

    async def close(self) -> None:
        await self.client.close()

    def link(self) -> str:
        words = [sys.executable, "-m", "pykueue", "dashboard", "--kubeconfig", str(self._kubeconfig)]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()

    def arrivals(self) -> list[Callable[[], Awaitable[None]]]:
        """Jobs in the order in which they arrive. The later ones take quota back."""
        jobs = (
            ("eval", "speech", "normal", 1, 2, 600),
            ("finetune", "vision", "low", 2, 2, 900),
            ("train-resnet", "vision", "low", 2, 2, 900),
            ("asr", "speech", "normal", 2, 1, 600),
            ("tts", "speech", "low", 1, 2, 700),
            ("ablate", "research", "low", 1, 2, 800),
            ("llm-pretrain", "research", "high", 2, 4, 1800),
            ("sweep", "research", "normal", 4, 1, 500),
            ("detect", "vision", "normal", 1, 2, 400),
            ("speaker-id", "speech", "high", 1, 2, 300),
        )

        def submit(job: tuple[str, str, str, int, int, int]) -> Callable[[], Awaitable[None]]:
            return lambda: self._submit(*job)

        return [submit(job) for job in jobs]

    async def be_busy(self) -> None:
        for number in range(3):
            await self._submit(f"smoke-{number}", "research", "normal", 1, 1, 2)
        await asyncio.sleep(6)
        for submit in self.arrivals():
            await submit()
            await asyncio.sleep(0.7)

    async def _submit(self, name: str, team: str, priority: str, *amounts: int) -> None:
        pods, gpus, seconds = amounts
        requests = {"cpu": "2", "memory": "8Gi", GPU: str(gpus)}
        container = {
            "name": "main",
            "image": "registry.lab/train:1",
            "command": ["python", "train.py"],
            "resources": {"requests": requests, "limits": {GPU: str(gpus)}},
        }
        labels = {"kueue.x-k8s.io/queue-name": "gpu", "kueue.x-k8s.io/priority-class": priority}
        template = {
            "metadata": {"annotations": {"pykueue.dev/runtime": f"{seconds}s"}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        spec = {"suspend": True, "parallelism": pods, "completions": pods, "template": template}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels}, "spec": spec}
        await self.client.create(resources.JOB, job, team)


@contextlib.asynccontextmanager
async def many_workloads(directory: Path, total: int) -> AsyncIterator[Callable[[], str]]:
    """The API and the page without controllers: workloads in all states, written as they would be."""
    api = EmbeddedApi(ServerPaths(directory=directory, host="127.0.0.1", port=0), registry.scheme())
    await api.start()
    dashboard = EmbeddedDashboard(api, port=0, totals=dict, directory=directory)
    await dashboard.start()
    client = api.client()
    names = [f"queue-{number:02d}" for number in range(40)]
    queues = {
        name: cluster_queue(name, f"cohort-{number // 10}", gpus=64, cpus=512) for number, name in enumerate(names)
    }
    await create_queues(client, queues)
    for number in range(200):
        await create_node(client, number)
    writer = _WorkloadWriter(client, names)
    for start in range(0, total, _GROUP_SIZE):
        await asyncio.gather(*map(writer.create, range(start, min(total, start + _GROUP_SIZE))))
    for number, name in enumerate(names):
        await client.patch(
            resources.CLUSTER_QUEUE, name, "", {"status": writer.queue_status(number)}, subresource="status"
        )
    await dashboard.history.sample(int(time.time()))
    yield dashboard.link
    await dashboard.stop()
    await api.stop()


async def create_node(client: Client, number: int) -> None:
    """A node with some pods that run on it."""
    name = f"gpu-{number:03d}"
    ready = {"type": "Ready", "status": "True" if number % 50 else "False"}
    await client.create(resources.NODE, node(name, f"rack-{number // 20:02d}"))
    await client.patch(resources.NODE, name, "", {"status": {"conditions": [ready]}}, subresource="status")
    for index in range(number % 7):
        container = {
            "name": "main",
            "image": "i",
            "resources": {"requests": {"cpu": "4", GPU: "1"}, "limits": {GPU: "1"}},
        }
        spec = {"nodeName": name, "containers": [container], "restartPolicy": "Never"}
        pod = f"train-{number:03d}-{index}"
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod}, "spec": spec}
        await client.create(resources.POD, body, "queue-00")
        await client.patch(resources.POD, pod, "queue-00", {"status": {"phase": "Running"}}, subresource="status")


class _WorkloadWriter:
    """Workloads with the conditions that controllers would have written."""

    def __init__(self, client: Client, queues: list[str]) -> None:
        self._client = client
        self._queues = queues
        self._random = random.Random(17)
        self._counts = [{"admitted": 0, "pending": 0} for _ in queues]

    def queue_status(self, number: int) -> Object:
        counts = self._counts[number]
        gpus = 20 + number * 7 % 60
        used = [{"name": "cpu", "total": str(gpus * 6)}, {"name": "memory", "total": "1Ti"}]
        used.append({"name": GPU, "total": str(gpus), "borrowed": str(max(0, gpus - 64))})
        flavors = [{"name": "h100", "resources": used}]
        active = _condition("Active", "Ready", "Can admit new workloads", int(time.time()))
        return {
            "pendingWorkloads": counts["pending"],
            "admittedWorkloads": counts["admitted"],
            "reservingWorkloads": counts["admitted"],
            "flavorsReservation": flavors,
            "flavorsUsage": flavors,
            "conditions": [active],
        }

    async def create(self, number: int) -> None:
        place = number % len(self._queues)
        namespace = self._queues[place]
        name = f"job-{self._random.choice(('train', 'eval', 'sweep', 'finetune'))}-{number:05d}"
        requests = {"cpu": str(1 + number % 8), "memory": "16Gi", GPU: str(1 + number % 2)}
        container = {"name": "main", "image": "i", "resources": {"requests": requests}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        labels = {"user": f"user-{number % 40}"}
        spec = {
            "queueName": "gpu",
            "priority": [*_PRIORITIES.values()][number % 3],
            "podSets": [{"name": "main", "count": 1 + number % 4, "template": template}],
        }
        metadata = {"name": name, "labels": labels}
        obj = {"apiVersion": KUEUE, "kind": "Workload", "metadata": metadata, "spec": spec}
        created = await self._client.create(resources.WORKLOAD, obj, namespace)
        status = self._status(created, place, number)
        await self._client.patch(resources.WORKLOAD, name, namespace, {"status": status}, subresource="status")

    def _status(self, obj: Object, place: int, number: int) -> Object:
        """Of ten workloads six wait, two run, one has finished and one was preempted."""
        at = int(time.time())
        kind = self._random.randrange(10)
        self._counts[place]["pending" if kind < 6 or kind == 9 else "admitted"] += 1
        message = f"couldn't assign flavors to pod set main: insufficient unused quota for {GPU} in flavor h100, 1 more needed"
        if kind < 6 or kind == 9:
            waiting = [_condition("QuotaReserved", "Pending", message, at, status="False")]
            if kind == 9 and number % 10 == 9:
                by = f"Preempted to accommodate a workload (UID: {obj['metadata']['uid']}, JobUID: x) due to prioritization in the ClusterQueue; preemptor path: /a"
                waiting.append(_condition("Preempted", "InClusterQueue", by, at))
            return {"conditions": waiting}
        reserved = [
            _condition("QuotaReserved", "QuotaReserved", "Quota reserved", at),
            _condition("Admitted", "Admitted", "The workload is admitted", at),
        ]
        if kind == 8:
            reserved.append(_condition("Finished", "Succeeded", "Job finished successfully", at + 1))
        flavors = {"name": "main", "flavors": {"cpu": "h100", GPU: "h100"}}
        return {
            "conditions": reserved,
            "admission": {"clusterQueue": self._queues[place], "podSetAssignments": [flavors]},
        }


def _condition(name: str, reason: str, message: str, at: int, *, status: str = "True") -> dict[str, Any]:
    stamp = times.from_ns(at * times.SECOND_NS)
    return {"type": name, "status": status, "reason": reason, "message": message, "lastTransitionTime": stamp}
