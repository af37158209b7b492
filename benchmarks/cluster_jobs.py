"""Jobs in many queues with `pykueue controller` in a process of its own: rate, CPU and API calls.

python benchmarks/cluster_jobs.py [--jobs 5000] [--queues 30] [--finish]

PYKUEUE_E2E_KUBECONFIG names the cluster; it must have the definitions (`pykueue manifests crds`),
and no other controller. Without it an embedded API in another process is used, and fewer jobs.
`--finish` also plays the kubelet: every pod succeeds.
"""

import argparse
import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from pykueue.api import conditions, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Resource
from pykueue.kube import access
from pykueue.kube.client import DeleteOptions
from pykueue.kube.http_client import HttpClient
from pykueue.translate.jobs import registry

NAMESPACE = "benchmark"
JOB = registry.FRAMEWORKS["batch/job"].resource
OURS = {
    ("workloads", "POST"),
    ("workloads", "PATCH"),
    ("workloads/status", "PATCH"),
    ("jobs", "GET"),
    ("jobs", "PATCH"),
    ("jobs/status", "PATCH"),
    ("localqueues/status", "PATCH"),
    ("clusterqueues/status", "PATCH"),
    ("events", "POST"),
    ("events", "PATCH"),
}
CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: "0"}
metrics: {bindAddress: "0"}
featureGates: {VisibilityOnDemand: false}
integrations: {frameworks: [batch/job]}
"""
Object = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser()
    existing_cluster = os.environ.get("PYKUEUE_E2E_KUBECONFIG")
    parser.add_argument("--jobs", type=int, default=5000 if existing_cluster else 300)
    parser.add_argument("--queues", type=int, default=30)
    parser.add_argument("--finish", action="store_true")
    options, _ = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as name, _api(existing_cluster, Path(name)) as kubeconfig:
        print(
            "the cluster of PYKUEUE_E2E_KUBECONFIG"
            if existing_cluster
            else "an embedded API; PYKUEUE_E2E_KUBECONFIG: any other"
        )
        with _running("controller", "--kubeconfig", str(kubeconfig), "--config", _configuration(name)) as controller:
            asyncio.run(_measure(kubeconfig, controller, options))


@contextlib.contextmanager
def _api(existing_cluster: str | None, directory: Path) -> Iterator[Path]:
    if existing_cluster:
        yield Path(existing_cluster)
        return
    kubeconfig = directory / "kubeconfig"
    options = ("--listen", "127.0.0.1:0", "--data-dir", str(directory / "data"), "--kubeconfig", str(kubeconfig))
    with _running("up", "--no-controllers", *options):
        while not kubeconfig.exists():
            time.sleep(0.05)
        yield kubeconfig


@contextlib.contextmanager
def _running(*arguments: str) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-m", "pykueue", *arguments], stdout=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _configuration(directory: str) -> str:
    path = Path(directory) / "configuration.yaml"
    path.write_text(CONFIGURATION)
    return str(path)


async def _measure(kubeconfig: Path, controller: int, options: argparse.Namespace) -> None:
    client = HttpClient(await access.from_kubeconfig(kubeconfig))
    try:
        await _create_queues(client, options.queues, options.jobs)
        await _until_active(client, options.queues)
        await _run(client, controller, options)
    finally:
        await _clean(client, options.queues)
        await client.close()


async def _run(client: HttpClient, controller: int, options: argparse.Namespace) -> None:
    jobs = options.jobs
    calls, cpu, start = await _calls(client), _cpu_seconds(controller), time.monotonic()
    phases = {
        "admitted": _follow(client, resources.WORKLOAD, _is_admitted, jobs),
        "started": _follow(client, JOB, _runs, jobs),
    }
    kubelet = None
    if options.finish:
        phases["finished"] = _follow(client, JOB, _is_complete, jobs)
        kubelet = asyncio.create_task(_play_kubelet(client))
    watching = {name: asyncio.create_task(following) for name, following in phases.items()}
    await _concurrently(jobs, lambda number: client.create(JOB, _job(number, options.queues), NAMESPACE))
    print(f"{jobs} jobs in {options.queues} queues: created after {time.monotonic() - start:.1f} s", flush=True)
    for name, task in watching.items():
        seconds = await task - start
        print(f"  all {name} after {seconds:.1f} s ({jobs / seconds:.0f}/s)", flush=True)
    if kubelet is not None:
        kubelet.cancel()
    await asyncio.sleep(5)
    print(f"  {(_cpu_seconds(controller) - cpu) / jobs * 1000:.1f} ms of CPU of the controller for each job")
    for (resource, verb), count in sorted((await _calls(client)).items()):
        requests = count - calls.get((resource, verb), 0)
        if (resource, verb) in OURS and requests:
            print(f"  {verb} {resource}: {requests / jobs:.2f} for each job")


async def _concurrently(count: int, action: Callable[[int], Awaitable[Any]], concurrency: int = 32) -> None:
    semaphore = asyncio.Semaphore(concurrency)

    async def one(number: int) -> None:
        async with semaphore:
            await action(number)

    await asyncio.gather(*(one(number) for number in range(count)))


async def _create_queues(client: HttpClient, queues: int, jobs: int) -> None:
    await _ensure(client, resources.NAMESPACE, {"metadata": {"name": NAMESPACE}})
    await _ensure(client, resources.RESOURCE_FLAVOR, {"metadata": {"name": NAMESPACE}})
    for number in range(queues):
        name = f"{NAMESPACE}-{number}"
        quota = [{"name": "cpu", "nominalQuota": str(jobs)}]
        groups = [{"coveredResources": ["cpu"], "flavors": [{"name": NAMESPACE, "resources": quota}]}]
        spec = {"namespaceSelector": {}, "resourceGroups": groups}
        await _ensure(client, resources.CLUSTER_QUEUE, {"metadata": {"name": name}, "spec": spec})
        metadata = {"name": name, "namespace": NAMESPACE}
        await _ensure(client, resources.LOCAL_QUEUE, {"metadata": metadata, "spec": {"clusterQueue": name}})


async def _ensure(client: HttpClient, resource: Resource, obj: Object) -> None:
    try:
        await client.create(resource, obj)
    except ApiError as error:
        if error.code == 404:
            sys.exit("the cluster has no Kueue definitions: pykueue manifests crds | kubectl apply --server-side -f -")
        if error.code != 409:
            raise


async def _until_active(client: HttpClient, queues: int) -> None:
    """Wait until the controller leads: it sets the condition Active of the queues."""
    while True:
        cluster_queues = (await client.list(resources.CLUSTER_QUEUE)).items
        if sum(conditions.is_true(queue, "Active") for queue in cluster_queues) >= queues:
            return
        await asyncio.sleep(0.2)


async def _clean(client: HttpClient, queues: int) -> None:
    """Delete everything while the controller still runs and removes its finalizers."""
    jobs = (await client.list(JOB, NAMESPACE)).items
    background = DeleteOptions(propagation_policy="Background")
    await _concurrently(
        len(jobs), lambda number: client.delete(JOB, jobs[number]["metadata"]["name"], NAMESPACE, background)
    )
    await _until_none(client, resources.WORKLOAD)
    for number in range(queues):
        await client.delete(resources.CLUSTER_QUEUE, f"{NAMESPACE}-{number}")
    await client.delete(resources.NAMESPACE, NAMESPACE)
    await client.delete(resources.RESOURCE_FLAVOR, NAMESPACE)


async def _until_none(client: HttpClient, resource: Resource) -> None:
    while True:
        if not (await client.list(resource, NAMESPACE)).items:
            return
        await asyncio.sleep(0.5)


def _job(number: int, queues: int) -> Object:
    labels = {"kueue.x-k8s.io/queue-name": f"{NAMESPACE}-{number % queues}"}
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 0}}
    return {"metadata": {"generateName": "job-", "labels": labels}, "spec": {"suspend": True, "template": template}}


async def _follow(client: HttpClient, resource: Resource, claim: Callable[[Object], bool], count: int) -> float:
    """The time at which the claim has been true of so many objects.

    It watches, so that waiting costs the API server nothing.
    """
    names: set[str] = set()
    async for obj in _changes(client, resource):
        if claim(obj):
            names.add(obj["metadata"]["name"])
            if len(names) == count:
                break
    return time.monotonic()


async def _changes(client: HttpClient, resource: Resource) -> Any:
    version = (await client.list(resource, NAMESPACE)).resource_version
    while True:
        with contextlib.suppress(OSError):
            async for event in client.watch(resource, NAMESPACE, resource_version=version):
                version = event.object["metadata"]["resourceVersion"]
                if event.type != "BOOKMARK":
                    yield event.object


async def _play_kubelet(client: HttpClient) -> None:
    done = {"status": {"phase": "Succeeded"}}
    async with asyncio.TaskGroup() as group:
        patched: set[str] = set()
        async for pod in _changes(client, resources.POD):
            name = pod["metadata"]["name"]
            if name not in patched and pod["spec"].get("nodeName"):
                patched.add(name)
                group.create_task(client.patch(resources.POD, name, NAMESPACE, done, subresource="status"))


def _is_admitted(workload: Object) -> bool:
    return conditions.is_true(workload, "Admitted")


def _runs(job: Object) -> bool:
    return not job["spec"].get("suspend")


def _is_complete(job: Object) -> bool:
    return conditions.is_true(job, "Complete")


def _cpu_seconds(pid: int) -> float:
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


async def _calls(client: HttpClient) -> dict[tuple[str, str], int]:
    """Requests by resource and verb, as the API server counts them for all its clients.

    The embedded API counts none.
    """
    calls: dict[tuple[str, str], int] = {}
    try:
        page = str(await client.raw("GET", "/metrics"))
    except ApiError:
        return calls
    for line in page.splitlines():
        if line.startswith("apiserver_request_total{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            resource = "/".join(filter(None, (labels.get("resource", ""), labels.get("subresource", ""))))
            key = (resource, labels.get("verb", ""))
            calls[key] = calls.get(key, 0) + int(float(line.rpartition(" ")[2]))
    return calls


if __name__ == "__main__":
    main()
