"""The embedded API over HTTPS: time until ready, memory, durable writes a second, watch fan-out.

With PYKUEUE_BENCH_KUBECONFIG the same client measures another API server, such as a real one with
etcd. On a busy machine trust the CPU of the server for each request; requests a second depend on
what else runs.
"""

import asyncio
import json
import os
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

CLIENTS = 16
WRITES = 4_000
WATCHERS = 1_000
EVENTS = 20
CLAIMS = 200
STARTS = 5
SMALL = {"WRITES": 800, "WATCHERS": 200, "STARTS": 2}
TICKS = os.sysconf("SC_CLK_TCK")
SOURCE = Path(__file__).parents[1] / "src"

Json = dict[str, Any]


class Server:
    """`pykueue up` in a process of its own, with no jobs for its controllers."""

    def __init__(self, directory: Path) -> None:
        command = [sys.executable, "-m", "pykueue", "up", "--runtime", "none", "--data-dir", str(directory)]
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self.ready_seconds = time.perf_counter() - began
        self.ready_cpu_seconds = self.cpu_seconds()
        self.kubeconfig = directory / "kubeconfig"

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_mb(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) // 1024

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()


class Client:
    """One session with as many connections as it needs; bodies are encoded in advance."""

    def __init__(self, kubeconfig: Path) -> None:
        import yaml

        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._url = cluster["server"]
        context = _trust(cluster, kubeconfig.parent)
        headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        if "client-certificate" in user:
            context.load_cert_chain(user["client-certificate"], user["client-key"])
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, headers=headers)

    async def send(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> bytes:
        async with self._session.request(
            method, self._url + path, data=body or None, headers={"Content-Type": media}
        ) as answer:
            data = await answer.read()
            assert answer.status < 300, (answer.status, data[:300])
            return data

    async def follow(self, path: str, until: Callable[[bytes], bool]) -> int:
        """Read a watch until a line satisfies; returns how many lines there were."""
        count = 0
        async with self._session.get(self._url + path, timeout=aiohttp.ClientTimeout(total=None)) as answer:
            async for line in answer.content:
                count += 1
                if until(line):
                    break
        return count

    async def close(self) -> None:
        await self._session.close()


def _trust(cluster: Json, folder: Path) -> ssl.SSLContext:
    import base64

    if "certificate-authority-data" in cluster:
        return ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    if "certificate-authority" in cluster:
        return ssl.create_default_context(cafile=folder / cluster["certificate-authority"])
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def share(work: Callable[[int], Awaitable[object]], count: int) -> float:
    """Do `count` pieces of work by 16 clients; returns how long it took."""
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            await work(number)

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return time.perf_counter() - began


def config_map(number: int) -> bytes:
    return json.dumps({"metadata": {"name": f"bench-{number}"}, "data": {"text": "x" * 1000}}).encode()


def claim(number: int) -> bytes:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return json.dumps({"metadata": {"name": f"bench-{number}"}, "spec": spec}).encode()


def job(number: int) -> bytes:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    spec = {"suspend": True, "parallelism": 2, "completions": 2, "template": {"spec": pod}}
    return json.dumps({"metadata": {"name": f"bench-{number}"}, "spec": spec}).encode()


async def measure(client: Client, server: Server | None) -> None:
    await client.send("POST", "/api/v1/namespaces", b'{"metadata":{"name":"bench"}}')
    maps, jobs = "/api/v1/namespaces/bench/configmaps", "/apis/batch/v1/namespaces/bench/jobs"
    merge = "application/merge-patch+json"

    async def report(name: str, count: int, work: Callable[[int], Awaitable[object]]) -> None:
        cpu = server.cpu_seconds() if server else 0.0
        seconds = await share(work, count)
        spent = f", server CPU {(server.cpu_seconds() - cpu) / count * 1e6:.0f} µs each" if server else ""
        print(f"   {name}: {count / seconds:.0f}/s with {CLIENTS} clients{spent}")

    claims = "/api/v1/namespaces/bench/persistentvolumeclaims"
    await share(lambda number: client.send("POST", claims, claim(number)), CLAIMS)

    def patch(number: int) -> Awaitable[bytes]:
        body = json.dumps({"status": {"capacity": {"storage": f"{number}Gi"}}}).encode()
        return client.send("PATCH", f"{claims}/bench-{number % CLAIMS}/status", body, merge)

    def create_job(number: int) -> Awaitable[bytes]:
        return client.send("POST", jobs, job(number))

    await report("durable creates of ConfigMaps", WRITES, lambda number: client.send("POST", maps, config_map(number)))
    await report("durable status patches", WRITES, patch)
    await report("durable creates of Jobs, controllers at work", WRITES // 4, create_job)
    await report("gets", WRITES, lambda number: client.send("GET", f"{maps}/bench-{number}"))
    began = time.perf_counter()
    data = await client.send("GET", maps)
    print(f"   list of {WRITES} ConfigMaps: {(time.perf_counter() - began) * 1000:.0f} ms, {len(data) / 1e6:.1f} MB")
    await fan_out(client, maps, server)
    await client.send("DELETE", "/api/v1/namespaces/bench")


async def fan_out(client: Client, maps: str, server: Server | None) -> None:
    path = f"{maps}?watch=1&resourceVersion={json.loads(await client.send('GET', maps + '?limit=1'))['metadata']['resourceVersion']}"
    last = f'"fan-{EVENTS - 1}"'.encode()
    watchers = [asyncio.create_task(client.follow(path, lambda line: last in line)) for _ in range(WATCHERS)]
    await asyncio.sleep(3)
    cpu = server.cpu_seconds() if server else 0.0
    began = time.perf_counter()
    for number in range(EVENTS):
        body = json.dumps({"metadata": {"name": f"fan-{number}"}, "data": {"text": "x" * 3000}}).encode()
        await client.send("POST", maps, body)
    counts = await asyncio.gather(*watchers)
    seconds = time.perf_counter() - began
    spent = f", server CPU {(server.cpu_seconds() - cpu) / sum(counts) * 1e6:.0f} µs each" if server else ""
    print(f"   fan-out to {WATCHERS} watchers: {sum(counts) / seconds:.0f} events/s{spent}")


async def run(kubeconfig: Path, server: Server | None) -> None:
    client = Client(kubeconfig)
    try:
        await measure(client, server)
    finally:
        await client.close()


def main() -> None:
    if other := os.environ.get("PYKUEUE_BENCH_KUBECONFIG"):
        asyncio.run(run(Path(other), None))
        return
    with tempfile.TemporaryDirectory() as folder:
        starts = []
        for number in range(STARTS):
            server = Server(Path(folder) / "data")
            starts.append((server.ready_seconds, server.ready_cpu_seconds))
            if number < STARTS - 1:
                server.stop()
        first, later = starts[0], starts[1:]
        print(f"   ready: first start {first[0]:.2f} s (CPU {first[1]:.2f} s), later {_median(later)}")
        print(f"   idle memory: {server.resident_mb()} MB")
        try:
            asyncio.run(run(server.kubeconfig, server))
            print(f"   memory afterwards: {server.resident_mb()} MB")
        finally:
            server.stop()


def _median(starts: list[tuple[float, float]]) -> str:
    wall, cpu = (statistics.median(column) for column in zip(*starts, strict=True))
    return f"{wall:.2f} s (CPU {cpu:.2f} s)"


if __name__ == "__main__":
    main()
