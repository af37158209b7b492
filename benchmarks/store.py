"""The embedded API in process: durable creates and status patches, watch fan-out, a large list.

python benchmarks/store.py [--workloads 10000] [--clients 16]
"""

import argparse
import asyncio
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pykueue.api import registry
from pykueue.apiserver.calls import ListCall, ResourceTarget, WatchCall
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.sqlite import SqliteLog
from pykueue.apiserver.store.store import Store
from pykueue.kube.client import Client

COUNT = 10_000
SMALL = {"COUNT": 1_500}
SCHEME = registry.scheme()
NAMESPACES = SCHEME.for_path("", "v1", "namespaces").resource  # type: ignore[union-attr]
WORKLOADS = SCHEME.for_path("kueue.x-k8s.io", "v1beta2", "workloads")
assert WORKLOADS is not None


def workload(name: str) -> dict[str, Any]:
    container = {
        "name": "worker",
        "image": "registry.example/team/train:1",
        "command": ["python", "train.py"],
        "env": [{"name": f"SETTING_{number}", "value": "x" * 20} for number in range(10)],
        "resources": {"requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}},
    }
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "metadata": {"name": name, "namespace": "team", "labels": {"team": "a", "kueue.x-k8s.io/job-uid": name}},
        "spec": {
            "queueName": "queue",
            "priority": 100,
            "podSets": [{"name": f"set-{number}", "count": 2, "template": template} for number in range(2)],
        },
    }


def status(number: int) -> dict[str, Any]:
    condition = {
        "type": "QuotaReserved",
        "status": "False",
        "reason": "Pending",
        "message": f"couldn't assign flavors to pod set set-0: insufficient unused quota, try {number}",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {"status": {"conditions": [condition]}}


async def timed(count: int, clients: int, work: Callable[[int], Awaitable[Any]]) -> tuple[float, list[float]]:
    """Operations a second, and each one's duration in milliseconds."""
    numbers = iter(range(count))
    durations: list[float] = []

    async def client() -> None:
        for number in numbers:
            start = time.perf_counter()
            await work(number)
            durations.append((time.perf_counter() - start) * 1000)

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return count / (time.perf_counter() - start), durations


def show(what: str, rate: float, durations: list[float]) -> None:
    ordered = sorted(durations)
    p99 = ordered[int(len(ordered) * 0.99)]
    print(f"{what:42} {rate:10,.0f} /s   p50 {statistics.median(ordered):.1f} ms   p99 {p99:.1f} ms")


class Counter:
    """A watcher that takes the framed line, as a connection would, and counts."""

    received = 0

    def send_first(self, frames: Iterator[Any]) -> None:
        """Nothing was written since the revision at which it begins."""
        assert not any(frames)

    def send(self, frame: Any) -> None:
        Counter.received += len(frame.line) > 0

    def close(self) -> None:
        """Never called here."""


async def fan_out(core: Core, client: Client, watchers: int, events: int) -> None:
    assert WORKLOADS is not None
    target = ResourceTarget(kind=WORKLOADS, namespace="team")
    version = str(core.store.revision)
    for _ in range(watchers):
        await core.watch(target, WatchCall(resource_version=version), Counter())
    start = time.perf_counter()
    for number in range(events):
        await client.patch(WORKLOADS.resource, "w-0", "team", status(1_000_000 + number), subresource="status")
    seconds = time.perf_counter() - start
    print(f"{f'fan-out to {watchers:,} watchers':42} {Counter.received / seconds:10,.0f} events/s")


async def listing(core: Core, repeats: int = 5) -> None:
    assert WORKLOADS is not None
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        data = (await core.list(ResourceTarget(kind=WORKLOADS), ListCall())).encode()
        times.append(time.perf_counter() - start)
    count = len(core.store.select("kueue.x-k8s.io", "workloads"))
    what = f"list of {count:,} workloads"
    print(f"{what:42} {min(times) * 1000:10,.1f} ms   {len(data) / 2**20:.1f} MiB")


async def run(workloads: int, clients: int, directory: Path) -> None:
    assert WORKLOADS is not None
    core = Core(Store(SqliteLog(directory)), registry.scheme())
    await core.start()
    client = LocalClient(core, core.scheme)
    await client.create(NAMESPACES, {"metadata": {"name": "team"}})
    first = await client.create(WORKLOADS.resource, workload("first"))
    print(f"one workload: {len(str(first)):,} characters; {clients} clients")
    rate, durations = await timed(
        workloads, clients, lambda number: client.create(WORKLOADS.resource, workload(f"w-{number}"))
    )
    show("durable creates", rate, durations)
    rate, durations = await timed(
        workloads,
        clients,
        lambda number: client.patch(
            WORKLOADS.resource, f"w-{number % 1000}", "team", status(number), subresource="status"
        ),
    )
    show("durable status patches", rate, durations)
    rate, durations = await timed(
        workloads, clients, lambda number: client.get(WORKLOADS.resource, f"w-{number}", "team")
    )
    show("gets", rate, durations)
    await listing(core)
    await fan_out(core, client, 1000, 100)
    await core.stop()
    start = time.perf_counter()
    Store(log := SqliteLog(directory))
    print(f"{'start on these data':42} {(time.perf_counter() - start) * 1000:10,.0f} ms")
    log.close()
    print(f"{'largest memory':42} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:10,.0f} MiB")


def main(words: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, default=COUNT)
    parser.add_argument("--clients", type=int, default=16)
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(run(arguments.workloads, arguments.clients, Path(directory)))


if __name__ == "__main__":
    main(sys.argv[1:])
