"""A queue of short jobs: jobs a second, and the CPU and the writes of pykueue for each.

python benchmarks/jobs.py [COUNT]
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pykueue.api import labels, resources
from pykueue.cluster.job_controller import job_view
from pykueue.kube import access
from pykueue.kube.client import ListOptions
from pykueue.kube.http_client import HttpClient

QUEUE = [
    {"kind": "ResourceFlavor", "metadata": {"name": "default"}},
    {
        "kind": "ClusterQueue",
        "metadata": {"name": "shared"},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "8"}]}],
                }
            ],
        },
    },
    {"kind": "LocalQueue", "metadata": {"name": "queue", "namespace": "default"}, "spec": {"clusterQueue": "shared"}},
]
COUNT = 2000
SMALL = {"COUNT": 150}
MACHINE = """
apiVersion: v1
kind: Node
metadata: {name: machine}
status: {capacity: {cpu: "8", memory: 16Gi, pods: "1000"}}
"""


def job(name: str) -> dict[str, Any]:
    """A suspended Job with one short pod, as `pykueue submit` creates it."""
    container = {
        "name": "main",
        "image": "local",
        "command": ["sleep", "0"],
        "resources": {"requests": {"cpu": "1"}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {labels.QUEUE_NAME: "queue"}},
        "spec": {
            "suspend": True,
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 0,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def start(directory: Path, runtime: str) -> subprocess.Popen[str]:
    nodes = directory / "nodes.yaml"
    nodes.write_text(MACHINE)
    command = [sys.executable, "-m", "pykueue", "up", "--bare", "--runtime", runtime, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, "--data-dir", str(directory / "data"), "--nodes", str(nodes)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


async def drain(kubeconfig: Path, count: int) -> tuple[float, float, int]:
    """Seconds to submit all jobs and until the last has completed, and the writes of any object."""
    from pykueue.api import registry

    client = HttpClient(await access.from_kubeconfig(kubeconfig))
    scheme = registry.scheme()
    for obj in QUEUE:
        kind = scheme.for_kind("kueue.x-k8s.io/v1beta2", obj["kind"])
        assert kind is not None
        body = obj | {"apiVersion": kind.api_version}
        await client.create(kind.resource, body, "default" if kind.namespaced else "")
    left = {f"job-{number}" for number in range(count)}
    begun, first = time.perf_counter(), await _revision(client)
    gate = asyncio.Semaphore(32)

    async def create(name: str) -> None:
        async with gate:
            await client.create(resources.JOB, job(name), "default")

    watching = asyncio.create_task(_watch(client, left))
    await asyncio.gather(*map(create, sorted(left)))
    submitted = time.perf_counter() - begun
    await watching
    finished = time.perf_counter() - begun
    writes = await _revision(client) - first
    await client.close()
    return submitted, finished, writes


async def _revision(client: HttpClient) -> int:
    """The newest revision of the store: each write of any object raises it by one."""
    return int((await client.list(resources.JOB, "default", ListOptions(limit=1))).resource_version)


async def _watch(client: HttpClient, left: set[str]) -> None:
    while left:  # a watch ends after some minutes
        async for event in client.watch(resources.JOB, "default"):
            if event.type != "BOOKMARK" and job_view.finished_condition(event.object):
                left.discard(event.object["metadata"]["name"])
            if not left:
                return


def measure(count: int, runtime: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        process = start(Path(directory), runtime)
        try:
            submitted, finished, writes = asyncio.run(drain(Path(directory) / "data" / "kubeconfig", count))
            ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            spent = (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
    print(
        f"{count} jobs, {runtime} runtime: submitted in {submitted:.1f} s, drained in {finished:.1f} s "
        f"({count / finished:.0f} jobs/s), {spent / count * 1000:.1f} ms of CPU and {writes / count:.1f} writes "
        "of pykueue for each job"
    )


def main() -> None:
    for runtime in ("process", "simulated"):
        measure(int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdecimal() else COUNT, runtime)


if __name__ == "__main__":
    main()
