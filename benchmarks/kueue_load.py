"""The loads of Kueue's performance tests over the API of any cluster, and what they cost.

    python benchmarks/kueue_load.py baseline --scale 0.1
    python benchmarks/kueue_load.py large-scale --kubeconfig FILE --pid kueue=1234 --json out.json

Without a kubeconfig it starts `pykueue up` for the run. With one it loads that cluster, on which
Kueue or pykueue runs, and removes what it created. It creates the Workloads of every queue at
their intervals, and then does the part of the jobs: it sets Finished when an admitted Workload has
run its time, and releases the quota of an evicted one. A process of its own reads a ClusterQueue
ten times a second.

On a busy machine trust the CPU seconds and the writes; the wall time depends on what else runs.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import loads
import uvloop

from pykueue.api import conditions, resources, times
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.kube import access
from pykueue.kube.client import DeleteOptions, ListOptions, PatchType, WriteOptions
from pykueue.kube.http_client import HttpClient

TICKS = os.sysconf("SC_CLK_TCK")
SOURCE = Path(__file__).parents[1] / "src"
REQUESTS_A_SECOND = 1000
BURST = 2000
IN_FLIGHT = 64
REST_SECONDS = 3.0
RETRIED = (409, 429, 500, 503, 504)
PROBE_SECONDS = 0.1
ATTEMPTS = 5
RUNS = (("baseline", 1.0, 5), ("large-scale", 1.0, 10), ("tas", 1.0, 5))
"""A load, its scale and the number of cohorts."""
SMALL = {"RUNS": (("baseline", 0.06, 5), ("large-scale", 0.1, 1), ("tas", 0.01, 2))}

Json = dict[str, Any]


class RateLimit:
    """So many requests a second, with a burst, as the client of Kueue's runner has it."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = burst
        self._at = time.monotonic()

    async def take(self) -> None:
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
        self._at = now
        self._tokens -= 1
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / self._per_second)


class Process:
    """CPU and memory of a process, from /proc."""

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self._directory = Path(f"/proc/{pid}")
        self._start = self._cpu_seconds()

    def _cpu_seconds(self) -> float:
        fields = (self._directory / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def figures(self) -> Json:
        status = (self._directory / "status").read_text()
        memory = {name: int(status.partition(f"{name}:")[2].split()[0]) // 1024 for name in ("VmRSS", "VmHWM")}
        cpu = round(self._cpu_seconds() - self._start, 2)
        return {"cpu_seconds": cpu, "rss_mb": memory["VmRSS"], "peak_rss_mb": memory["VmHWM"]}


@dataclass(slots=True, kw_only=True)
class WorkloadTimes:
    workload_class: loads.WorkloadClass
    first: float
    admitted: float = 0.0
    """When the Workload was admitted last; 0 while it is not admitted."""
    to_admission: float = 0.0
    evictions: int = 0
    is_finished: bool = False


@dataclass(slots=True, kw_only=True)
class Recorder:
    """Follows the Workloads: when each is admitted, evicted and finished."""

    load: loads.Load
    workloads: dict[str, WorkloadTimes] = field(default_factory=dict)
    used_milli_seconds: float = 0.0
    admissions: int = 0
    finished: int = 0
    last_finished: float = 0.0
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def observe(self, workload: Object) -> WorkloadTimes:
        now = time.monotonic()
        metadata = workload["metadata"]
        uid = metadata["uid"]
        entry = self.workloads.get(uid)
        if entry is None:
            name = metadata["labels"][loads.CLASS]
            workload_class = next(item for item in self.load.classes if item.name == name)
            entry = self.workloads[uid] = WorkloadTimes(workload_class=workload_class, first=now)
        is_admitted = conditions.is_true(workload, "Admitted")
        is_finished = conditions.is_true(workload, "Finished")
        if entry.admitted and (not is_admitted or is_finished) and not entry.is_finished:
            self.used_milli_seconds += entry.workload_class.total_cpu_milli * (now - entry.admitted)
            if not is_admitted:
                entry.evictions += 1
                entry.admitted = 0.0
        elif is_admitted and not entry.admitted:
            entry.admitted = now
            entry.to_admission = now - entry.first
            self.admissions += 1
        if is_finished and not entry.is_finished:
            entry.is_finished = True
            self.finished += 1
            self.last_finished = now
            if self.finished == self.load.workloads:
                self.done.set()
        return entry

    def by_class(self) -> Json:
        entries = defaultdict(list)
        for entry in self.workloads.values():
            entries[entry.workload_class.name].append(entry)
        return {
            name: {
                "count": len(of_class),
                "average_seconds_to_admission": round(statistics.fmean(entry.to_admission for entry in of_class), 2),
                "evictions": sum(entry.evictions for entry in of_class),
            }
            for name, of_class in sorted(entries.items())
        }


class Runner:
    """Creates the objects of a load, and stands in for the jobs of its Workloads."""

    def __init__(self, client: HttpClient, load: loads.Load) -> None:
        self._client = client
        self._load = load
        self._limits = {"create": RateLimit(REQUESTS_A_SECOND, BURST), "jobs": RateLimit(REQUESTS_A_SECOND, BURST)}
        self._in_flight = asyncio.Semaphore(IN_FLIGHT)
        self._latest: dict[str, Object] = {}
        self._versions: dict[str, int] = {}
        """The newest version of each Workload, from the watch or from the answer to a write."""
        self._busy: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.recorder = Recorder(load=load)
        self.created_after = 0.0

    async def prepare(self) -> None:
        """Create flavors, nodes, namespaces and queues."""
        await self._create_cluster()
        for name, cohort in loads.queue_names(self._load):
            await self._create(resources.CLUSTER_QUEUE, loads.cluster_queue(self._load, name, cohort))
            await self._create(resources.NAMESPACE, loads.namespace(name))
            await self._create(resources.LOCAL_QUEUE, loads.local_queue(name), name)

    async def run(self, timeout_seconds: float) -> None:
        """Create the Workloads and return when the last one has finished."""
        listed = await self._client.list(resources.WORKLOAD, options=ListOptions(limit=1))
        async with asyncio.timeout(timeout_seconds), asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch(listed.resource_version))
            group.create_task(self._create_all([name for name, _ in loads.queue_names(self._load)]))
            await self.recorder.done.wait()
            watching.cancel()
        for task in self._tasks:
            task.cancel()

    async def _create_cluster(self) -> None:
        if self._load.has_topology:
            for node in loads.nodes():
                await self._create(resources.NODE, node)
                with contextlib.suppress(ApiError):
                    await self._client.patch(
                        resources.NODE, node["metadata"]["name"], "", {"status": node["status"]}, subresource="status"
                    )
            await self._create(resources.TOPOLOGY, loads.topology())
        await self._create(resources.RESOURCE_FLAVOR, loads.flavor(self._load))

    async def _create(self, resource: Any, obj: Json, namespace: str = "") -> None:
        await self._limits["create"].take()
        async with self._in_flight:
            await self._client.create(resource, obj, namespace)

    async def _create_all(self, queues: list[str]) -> None:
        start = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for queue in queues:
                for number, workload_class in enumerate(self._load.classes):
                    group.create_task(self._create_class(workload_class, number, queue))
        self.created_after = time.monotonic() - start

    async def _create_class(self, workload_class: loads.WorkloadClass, set_number: int, queue: str) -> None:
        for number in range(workload_class.count):
            await asyncio.sleep(workload_class.interval_ms / 1000)
            await self._create(resources.WORKLOAD, loads.workload(workload_class, set_number, number, queue), queue)

    # The jobs

    async def _watch(self, version: str) -> None:
        while True:
            async for event in self._client.watch(resources.WORKLOAD, resource_version=version):
                version = event.object["metadata"]["resourceVersion"]
                if event.type != "BOOKMARK":
                    self.observe(event.object)

    async def idle(self) -> None:
        """Wait until no job has anything to do."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def observe(self, workload: Object) -> None:
        """Take note of a version of a Workload; older ones than the newest are ignored."""
        uid, version = workload["metadata"]["uid"], int(workload["metadata"]["resourceVersion"])
        if version <= self._versions.get(uid, 0):
            return
        self._versions[uid] = version
        entry = self.recorder.observe(workload)
        self._latest[uid] = workload
        if entry.is_finished or not entry.admitted:
            self._latest.pop(uid, None)
        elif uid not in self._busy:
            self._start(self._run_job(uid))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_job(self, uid: str) -> None:
        """Wait until the Workload has run its time or is evicted, and write the result."""
        self._busy.add(uid)
        try:
            while (workload := self._latest.get(uid)) is not None:
                entry = self.recorder.workloads[uid]
                left = entry.workload_class.running_ms / 1000 - (time.monotonic() - entry.admitted)
                if conditions.is_true(workload, "Evicted"):
                    if await self._write(workload, _released):
                        return
                elif left > 0:
                    await asyncio.sleep(left)
                elif await self._finish(workload):
                    return
        finally:
            self._busy.discard(uid)
            if uid in self._latest and not conditions.is_true(self._latest[uid], "Finished"):
                self._start(self._look_again(uid))

    async def _look_again(self, uid: str) -> None:
        await asyncio.sleep(1)
        if uid in self._latest and uid not in self._busy:
            await self._run_job(uid)

    async def _finish(self, workload: Object) -> bool:
        """Set Finished by server-side apply, as the job controller of Kueue's runner does."""
        metadata = workload["metadata"]
        finished = {
            "type": "Finished",
            "status": "True",
            "reason": "ByTest",
            "message": "By test runner",
            "lastTransitionTime": times.from_ns(time.time_ns()),
            "observedGeneration": metadata.get("generation", 1),
        }
        body = {
            "apiVersion": loads.KUEUE,
            "kind": "Workload",
            "metadata": {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion")},
            "status": {"conditions": [finished]},
        }
        return await self._patch(workload, body, PatchType.APPLY, "kueue-job-controller-Finished")

    async def _write(self, workload: Object, change: Any) -> bool:
        body = change(workload)
        body["metadata"] = {"resourceVersion": workload["metadata"]["resourceVersion"]}
        return await self._patch(workload, body, PatchType.MERGE, "benchmark")

    async def _patch(self, workload: Object, body: Json, patch_type: PatchType, manager: str) -> bool:
        """Patch the status; False after a conflict, or if the API did not answer in time.

        The answer is observed like an event of the watch: a watch that is behind would make the
        job write the same again, which is a conflict.
        """
        metadata = workload["metadata"]
        await self._limits["jobs"].take()
        try:
            async with self._in_flight:
                written = await self._client.patch(
                    resources.WORKLOAD,
                    metadata["name"],
                    metadata["namespace"],
                    body,
                    patch_type=patch_type,
                    subresource="status",
                    options=WriteOptions(field_manager=manager, force=patch_type is PatchType.APPLY),
                )
        except ApiError as error:
            if error.code not in RETRIED:
                raise
            await asyncio.sleep(0.02 if error.code == 409 else 1)
            return False
        except OSError:
            await asyncio.sleep(1)
            return False
        self.observe(written)
        return True


def _released(workload: Object) -> Json:
    now = times.from_ns(time.time_ns())
    changed = {
        "QuotaReserved": ("Pending", "Evicted by the test runner"),
        "Admitted": ("NoReservation", "The workload has no reservation"),
    }
    new = [dict(condition) for condition in workload["status"]["conditions"]]
    for condition in new:
        if condition["type"] in changed and condition["status"] == "True":
            reason, message = changed[condition["type"]]
            condition.update(status="False", reason=reason, message=message, lastTransitionTime=now)
    return {"status": {"admission": None, "conditions": new}}


async def store_revision(client: HttpClient) -> int:
    """The newest revision of the store: each write of any object raises it by one."""
    return int((await client.list(resources.WORKLOAD, options=ListOptions(limit=1))).resource_version)


async def clean_up(client: HttpClient) -> None:
    for resource in (
        resources.NAMESPACE,
        resources.CLUSTER_QUEUE,
        resources.RESOURCE_FLAVOR,
        resources.TOPOLOGY,
        resources.NODE,
    ):
        for obj in (await client.list(resource, options=ListOptions(label_selector=loads.CLEANUP))).items:
            with contextlib.suppress(ApiError):
                await client.delete(resource, obj["metadata"]["name"], "", DeleteOptions())


# The probe


async def probe(kubeconfig: Path) -> None:
    """Read a ClusterQueue ten times a second until standard input ends; print the latencies."""
    client = HttpClient(await access.from_kubeconfig(kubeconfig))
    milliseconds: list[float] = []
    reader = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    while not reader.done():
        began = time.perf_counter()
        try:
            await client.get(resources.RESOURCE_FLAVOR, "rf")
        except ApiError as error:
            if error.code != 404:
                raise
        milliseconds.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(max(0.0, PROBE_SECONDS - milliseconds[-1] / 1000))
    await client.close()
    print(json.dumps(milliseconds))


def start_probe(kubeconfig: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, "probe", "--kubeconfig", str(kubeconfig)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(SOURCE), os.environ.get("PYTHONPATH", "")))},
    )


def latency(milliseconds: list[float]) -> Json:
    ordered = sorted(milliseconds)

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 1)

    return {"count": len(ordered), "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1.0)}


# One run


async def measure(kubeconfig: Path, load: loads.Load, processes: list[Process], timeout_seconds: float) -> Json:
    client = HttpClient(await access.from_kubeconfig(kubeconfig))
    probing = start_probe(kubeconfig)
    runner = Runner(client, load)
    await runner.prepare()
    began, first = time.monotonic(), await store_revision(client)
    failure = ""
    try:
        await runner.run(timeout_seconds)
    except TimeoutError:
        failure = f"not done after {timeout_seconds:.0f} s"
    recorder = runner.recorder
    wall = (recorder.last_finished or time.monotonic()) - began
    await asyncio.sleep(REST_SECONDS)
    figures = {process.name: process.figures() for process in processes}
    writes = await store_revision(client) - first
    milliseconds = json.loads(probing.communicate("")[0] or "[]")
    quota_seconds = loads.NOMINAL_CPU * 1000 * load.queues * wall
    result = {
        "load": load.name,
        "workloads": load.workloads,
        "queues": load.queues,
        "finished": recorder.finished,
        "wall_seconds": round(wall, 1),
        "creation_seconds": round(runner.created_after, 1),
        "shortest_seconds": round(load.shortest_seconds, 1),
        "admissions": recorder.admissions,
        "admissions_a_second": round(recorder.admissions / wall, 1),
        "average_usage_percent": round(100 * recorder.used_milli_seconds / quota_seconds, 1),
        "writes": writes,
        "writes_a_workload": round(writes / max(1, recorder.finished), 2),
        "classes": recorder.by_class(),
        "processes": figures,
        "get": latency(milliseconds or [0.0]),
    }
    if failure:
        result["failure"] = failure
    await client.close()
    return result


@contextlib.contextmanager
def embedded(directory: Path) -> Iterator[tuple[Path, list[Process]]]:
    """`pykueue up` in a process of its own; the jobs are the benchmark's."""
    nodes = directory / "nodes.yaml"
    nodes.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: machine}\nstatus: {capacity: {cpu: '1'}}\n")
    data = directory / "data"
    command = [sys.executable, "-m", "pykueue", "up", "--runtime", "none", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, "--data-dir", str(data), "--nodes", str(nodes)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(SOURCE), os.environ.get("PYTHONPATH", "")))},
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield data / "kubeconfig", [Process("pykueue", process.pid)]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def run_embedded(load: loads.Load, timeout_seconds: float) -> Json:
    with tempfile.TemporaryDirectory() as directory, embedded(Path(directory)) as (kubeconfig, processes):
        return uvloop.run(measure(kubeconfig, load, processes, timeout_seconds))


def summary(result: Json) -> str:
    """The result in a few lines."""
    first = (
        f"   {result['load']}: {result['finished']} of {result['workloads']} workloads, {result['queues']} queues: "
        f"{result['wall_seconds']} s (at best {result['shortest_seconds']} s), "
        f"{result['admissions_a_second']} admissions/s, usage {result['average_usage_percent']} %, "
        f"{result['writes_a_workload']} writes a workload"
    )
    lines = [first]
    for name, figures in result["processes"].items():
        milliseconds = figures["cpu_seconds"] / max(1, result["finished"]) * 1000
        lines.append(
            f"      {name}: CPU {figures['cpu_seconds']} s ({milliseconds:.1f} ms a workload), peak {figures['peak_rss_mb']} MB"
        )
    get = result["get"]
    lines.append(f"      GET meanwhile: p50 {get['p50_ms']} ms, p99 {get['p99_ms']} ms, longest {get['max_ms']} ms")
    for name, of_class in result["classes"].items():
        lines.append(f"      {name}: admitted after {of_class['average_seconds_to_admission']} s on average")
    if "failure" in result:
        lines.append(f"      FAILED: {result['failure']}")
    return "\n".join(lines)


def main() -> None:
    """All loads on the embedded API."""
    for name, scale, cohorts in RUNS:
        print(summary(run_embedded(loads.LOADS[name].scaled(scale, cohorts), 1800)), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("load", choices=[*loads.LOADS, "probe"])
    parser.add_argument("--kubeconfig", type=Path, help="the cluster; by default a new embedded one")
    parser.add_argument("--scale", type=float, default=1.0, help="Workloads in each queue, 1 for all")
    parser.add_argument("--cohorts", type=int, help="the number of cohorts, by default that of the load")
    parser.add_argument("--pid", action="append", default=[], metavar="NAME=PID", help="a process to measure")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds after which the run has failed")
    parser.add_argument("--system", default="pykueue", help="the name of what is measured, for the result")
    parser.add_argument("--json", type=Path, help="write the result to this file, too")
    return parser.parse_args()


def command_line() -> None:
    arguments = _arguments()
    if arguments.load == "probe":
        asyncio.run(probe(arguments.kubeconfig))
        return
    load = loads.LOADS[arguments.load].scaled(arguments.scale, arguments.cohorts)
    if arguments.kubeconfig is None:
        result = run_embedded(load, arguments.timeout)
    else:
        processes = [Process(name, int(pid)) for name, _, pid in (text.partition("=") for text in arguments.pid)]
        result = uvloop.run(_on_cluster(arguments.kubeconfig, load, processes, arguments.timeout))
    result = {"system": arguments.system} | result
    print(summary(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


async def _on_cluster(kubeconfig: Path, load: loads.Load, processes: list[Process], timeout_seconds: float) -> Json:
    try:
        return await measure(kubeconfig, load, processes, timeout_seconds)
    finally:
        client = HttpClient(await access.from_kubeconfig(kubeconfig))
        await clean_up(client)
        await client.close()


if __name__ == "__main__":
    command_line()
