"""Hostile users, who send random requests, and a user who just works.

`campaign` returns what they saw. Each of them is a process, because one would keep the other busy:
`attack` sends the requests of `fuzzer`, half of them by HTTP/2, `work` measures how long its own requests take.
"""

import asyncio
import base64
import collections
import contextlib
import itertools
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import yaml
from tests.cost.fuzzer import Fuzzer
from tests.cost.http2_client import Http2Client
from tests.cost.raw_client import RawClient, Server

PLAIN = {"Content-Type": "application/json"}
SILENT_CONNECTIONS = 40
MOST_FAILURES = 20
SLOW_SECONDS = 0.5


@dataclass
class Report:
    codes: Counter = field(default_factory=Counter)
    """Requests by sort and status code. 0: closed without a response, -1: nobody waited for it."""
    failures: list = field(default_factory=list)
    """Requests that got a code of 500 or more, or no response."""
    waits: list = field(default_factory=list)
    """Seconds of each request of the user who just works."""
    delays: list = field(default_factory=list)
    """Seconds of each of these in which the machine had no processor for server or user."""
    work_codes: Counter = field(default_factory=Counter)
    slow: list = field(default_factory=list)
    """What is known of each request that took SLOW_SECONDS or more."""

    def served(self):
        """Seconds of each request of the working user on a machine without other load."""
        return sorted(max(0.0, wait - delay) for wait, delay in zip(self.waits, self.delays, strict=True))

    def __str__(self):
        by_code, by_sort = Counter(), {}
        for (sort, code), count in sorted(self.codes.items()):
            by_code[code] += count
            by_sort.setdefault(sort, {})[code] = count
        return "\n".join(
            [
                f"{self.codes.total()} requests: {dict(sorted(by_code.items()))}",
                *(f"  {sort}: {counts}" for sort, counts in by_sort.items()),
                f"the other user: {len(self.waits)} requests {dict(self.work_codes)}: {_milliseconds(self.waits)}",
                f"  without the time in which the processors were busy: {_milliseconds(self.served())}",
                *(f"  slow: {text}" for text in self.slow),
            ]
        )


def _milliseconds(seconds):
    ordered = sorted(seconds)
    shares = {"median": 0.5, "99 %": 0.99, "99.9 %": 0.999, "longest": 1.0}
    return ", ".join(
        f"{name} {ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000:.0f} ms"
        for name, share in shares.items()
    )


async def campaign(users, *, server_pid, seed, numbers, connections=8):
    """Send the requests of these numbers. The last of the users works, the others are hostile.

    A user is a pair of kubeconfig and namespace.
    """
    *hostile, worker = [[str(kubeconfig), namespace] for kubeconfig, namespace in users]
    work = _start("work", {"user": worker, "server_pid": server_pid})
    attack = _start(
        "attack",
        {
            "users": hostile,
            "seed": seed,
            "first": numbers.start,
            "end": numbers.stop,
            "connections": connections,
        },
    )
    report = Report()
    try:
        output, _ = await asyncio.to_thread(attack.communicate)
    finally:
        attack.kill()
        work_output, _ = await asyncio.to_thread(work.communicate)
    answers = json.loads(output)
    report.codes = Counter({(sort, code): count for sort, code, count in answers["codes"]})
    report.failures = answers["failures"]
    for code, seconds, delay, method, ended, loop_seconds, thread_seconds in json.loads(work_output):
        if seconds >= SLOW_SECONDS:
            clock = time.strftime("%H:%M:%S", time.localtime(ended))
            computed = (
                f"the server's event loop computed for {loop_seconds:.2f} s, its threads for {thread_seconds:.2f} s"
            )
            report.slow.append(f"{clock} {method} {seconds:.2f} s, no processor for {delay:.2f} s; {computed}")
        report.work_codes[code] += 1
        report.waits.append(seconds)
        report.delays.append(delay)
    return report


def _start(mode, options):
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.cost.flood", mode, json.dumps(options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )


# The hostile users


async def attack(options):
    codes, failures = Counter(), []
    numbers = iter(range(options["first"], options["end"]))
    servers = [Server.of(Path(kubeconfig)) for kubeconfig, _ in options["users"]]
    tokens = [(server.token, namespace) for server, (_, namespace) in zip(servers, options["users"], strict=True)]
    abandoned = collections.deque()
    http2 = [Http2Client(server) for server in servers]

    async def lane(server):
        http1 = RawClient(server, abandoned)
        for number in numbers:
            request = Fuzzer(options["seed"], number, tokens[number % len(tokens)]).request()
            client = http2[number % len(http2)] if request.parts and number % 2 else http1
            try:
                code, body = await client.send(request)
            except (TimeoutError, OSError, ValueError, asyncio.LimitOverrunError) as error:
                code, body = -2, repr(error).encode()
            codes[request.sort, code] += 1
            if _is_failure(request, code, body) and len(failures) < MOST_FAILURES:
                failures.append([number, code, request.data[:3000].decode("latin-1"), body[:1000].decode("latin-1")])
            while len(abandoned) > SILENT_CONNECTIONS:
                abandoned.popleft().transport.abort()
        http1.close()

    await asyncio.gather(*(lane(servers[0]) for _ in range(options["connections"] * len(servers))))
    for client in http2:
        client.close()
    return {"codes": [[*key, count] for key, count in codes.items()], "failures": failures}


def _is_failure(request, code, body):
    if code == 504 and b"Too large resource version" in body:
        return False  # Kubernetes' answer to a resource version of the future
    return code >= 500 or code == -2 or (code == 0 and request.is_answered)


# The user who works


def session_of(kubeconfig, connections):
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    trusted = base64.b64decode(cluster["certificate-authority-data"]).decode()
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=trusted), limit=connections)
    return aiohttp.ClientSession(
        cluster["server"],
        connector=connector,
        headers={"Authorization": f"Bearer {user['token']}"},
        timeout=aiohttp.ClientTimeout(total=60),
        max_line_size=1 << 20,
        max_field_size=1 << 20,
    )


async def work(options, is_stopping):
    """Create, list and delete until told to stop.

    Returns code, seconds, delay, method and end of each request, and for how long the event loop
    and the other threads of the server computed meanwhile.
    """
    kubeconfig, namespace = options["user"]
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    requests = []
    session = session_of(Path(kubeconfig), 4)
    server_pid = options["server_pid"]
    for number in itertools.count():
        if is_stopping():
            break
        body = json.dumps({"metadata": {"name": f"w{number}"}, "data": {"a": "b"}}).encode()
        for method, url, data in (("POST", path, body), ("GET", path, None), ("DELETE", f"{path}/w{number}", None)):
            before, began = _processor_times(server_pid), time.monotonic()
            async with session.request(method, url, data=data, headers=PLAIN) as answer:
                await answer.read()
            seconds = time.monotonic() - began
            delay, *computed = (now - then for now, then in zip(_processor_times(server_pid), before, strict=True))
            requests.append((answer.status, seconds, delay, method, time.time(), *computed))
        await asyncio.sleep(0.02)
    await session.close()
    return requests


def _processor_times(server_pid):
    """What the machine gave to the server and to this process, in seconds.

    For how long their threads were ready, but had no processor; for how long the main thread of the
    server computed, which is its event loop; and for how long its other threads did. A write waits
    for the thread of the store, too.
    """
    own, server = _thread_times(os.getpid()), _thread_times(server_pid)
    loop = server.pop(server_pid, (0, 0))
    delay = own.get(os.getpid(), (0, 0))[1] + loop[1] + sum(each[1] for each in server.values())
    return delay / 1e9, loop[0] / 1e9, sum(each[0] for each in server.values()) / 1e9


def _thread_times(pid):
    """Nanoseconds for which each thread of a process computed, and for which it waited to."""
    times = {}
    for directory in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError, ValueError):  # the thread has ended
            computed, waited, _ = (directory / "schedstat").read_text().split()
            times[int(directory.name)] = int(computed), int(waited)
    return times


def main():
    """`attack` ends when all requests are sent, `work` when the standard input is closed."""
    options = json.loads(sys.argv[2])
    if sys.argv[1] == "attack":
        import uvloop

        sys.stdout.write(json.dumps(uvloop.run(attack(options))))
        return
    stopping = threading.Event()

    def wait_for_the_end():
        sys.stdin.read()
        stopping.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    sys.stdout.write(json.dumps(asyncio.run(work(options, stopping.is_set))))


if __name__ == "__main__":
    main()
