"""A long run: jobs come and go while many Workloads are at rest.

python benchmarks/soak.py [MINUTES]

Prints the memory of `pykueue up` over time, the growth after the first third, and the turns of the
event loop that took longer than 100 ms. A turn with little CPU waited for the machine.
"""

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import jobs
import kueue_load
import memory

from pykueue.api import registry, resources
from pykueue.api.scheme import Object
from pykueue.cluster.job_controller import job_view
from pykueue.kube import access, informer
from pykueue.kube.client import DeleteOptions
from pykueue.kube.http_client import HttpClient

MINUTES = 30.0
AT_REST = 5000
JOBS_A_SECOND = 5.0
SMALL = {"MINUTES": 0.3, "AT_REST": 200}
SAMPLES = 30
MOST_LEFT = 50
"""Jobs that may exist at the end; others are finished and deleted by then."""
TURN = re.compile(r"one turn of the event loop took (\d+) ms \((\d+) ms of CPU\)")


def start(directory: Path, log: Path) -> subprocess.Popen[bytes]:
    nodes = directory / "nodes.yaml"
    nodes.write_text(jobs.MACHINE)
    command = [sys.executable, "-m", "pykueue", "up", "--runtime", "simulated", "--listen", "127.0.0.1:0"]
    options = ["--data-dir", str(directory / "data"), "--nodes", str(nodes), "--log-level", "info"]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=output)
    assert process.stdout is not None
    process.stdout.readline()
    return process


async def come_and_go(client: HttpClient, seconds: float) -> int:
    """Create jobs at a steady rate, and delete each when it has finished; returns how many."""
    deleting = asyncio.create_task(_delete_finished(client))
    number, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        await client.create(resources.JOB, jobs.job(f"job-{number}"), "default")
        number += 1
        await asyncio.sleep(1 / JOBS_A_SECOND)
    deleting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await deleting
    return number


async def _delete_finished(client: HttpClient) -> None:
    finished: asyncio.Queue[str] = asyncio.Queue()
    added: set[str] = set()

    def add(job: Object) -> None:
        metadata = job["metadata"]
        is_due = job_view.finished_condition(job) and not metadata.get("deletionTimestamp")
        if is_due and metadata["name"] not in added:
            added.add(metadata["name"])
            finished.put_nowait(metadata["name"])

    def on_list(items: list[Object], _version: str) -> None:
        for job in items:
            add(job)

    def on_event(_event_type: str, job: Object) -> None:
        add(job)

    async def delete() -> None:
        while True:
            options = DeleteOptions(propagation_policy="Background")
            await client.delete(resources.JOB, await finished.get(), "default", options)

    reflector = informer.Reflector(client, resources.JOB, on_list=on_list, on_event=on_event, namespace="default")
    await asyncio.gather(reflector.run(), delete())


async def sample(process: kueue_load.Process, seconds: float) -> list[tuple[float, int]]:
    """(seconds since the start, MB) at even distances."""
    samples = []
    for number in range(SAMPLES):
        await asyncio.sleep(seconds / SAMPLES)
        samples.append(((number + 1) * seconds / SAMPLES, process.figures()["rss_mb"]))
    return samples


async def soak(directory: Path, process: kueue_load.Process, minutes: float) -> tuple[int, list[tuple[float, int]]]:
    kubeconfig = directory / "data" / "kubeconfig"
    await memory.fill(kubeconfig, AT_REST)
    client = HttpClient(await access.from_kubeconfig(kubeconfig))
    scheme = registry.scheme()
    for obj in jobs.QUEUE:
        kind = scheme.for_kind("kueue.x-k8s.io/v1beta2", obj["kind"])
        assert kind is not None
        body = obj | {"apiVersion": kind.api_version}
        await client.create(kind.resource, body, "default" if kind.namespaced else "")
    seconds = minutes * 60
    count, samples = await asyncio.gather(come_and_go(client, seconds), sample(process, seconds))
    left = len((await client.list(resources.JOB, "default")).items)
    await client.close()
    assert left <= MOST_LEFT, f"{left} jobs were not deleted: memory grows with them"
    return count, samples


def main() -> None:
    is_set = len(sys.argv) > 1 and re.fullmatch(r"[\d.]+", sys.argv[1])
    minutes = float(sys.argv[1]) if is_set else MINUTES
    with tempfile.TemporaryDirectory() as name:
        directory, log = Path(name), Path(name) / "log"
        server = start(directory, log)
        try:
            count, samples = asyncio.run(soak(directory, kueue_load.Process("pykueue", server.pid), minutes))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
        turns = [(int(milliseconds), int(cpu)) for milliseconds, cpu in TURN.findall(log.read_text())]
    settled = samples[SAMPLES // 3 - 1][1]
    print(f"   {count} jobs in {minutes:g} minutes, {AT_REST} Workloads at rest")
    print("   MB: " + " ".join(str(megabytes) for _, megabytes in samples))
    print(f"   growth after the first third: {100 * (samples[-1][1] / settled - 1):+.1f} %")
    busy = [cpu for _, cpu in turns if cpu >= 100]
    print(
        f"   turns over 100 ms: {len(turns)}, of them with 100 ms of CPU: {len(busy)}, most CPU: {max(busy, default=0)} ms"
    )


if __name__ == "__main__":
    main()
