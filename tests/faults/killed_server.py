"""A server that is killed and started again, and a client that remembers what was acknowledged."""

import asyncio
import collections
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
from tests.cost.flood import session_of
from tests.e2e.controller_process import environment

ROOT = Path(__file__).parents[2]
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
LANES = 6
NAMES_PER_LANE = 4
DEADLINE_SECONDS = 60
CONNECTION_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)
QUOTA_CPU = 5
OBJECTS = (
    (f"{KUEUE}/resourceflavors", {"metadata": {"name": "f"}}),
    (
        f"{KUEUE}/clusterqueues",
        {
            "metadata": {"name": "cq"},
            "spec": {
                "namespaceSelector": {},
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu"],
                        "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": str(QUOTA_CPU)}]}],
                    }
                ],
            },
        },
    ),
    (f"{KUEUE}/namespaces/default/localqueues", {"metadata": {"name": "lq"}, "spec": {"clusterQueue": "cq"}}),
)


class KilledServer:
    def __init__(self):
        variables = {**environment(), "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        self._zygote = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=variables,
        )
        os.set_blocking(self._zygote.stderr.fileno(), False)
        assert self._zygote.stdout.readline() == "prepared\n"
        self._pid = 0

    def begin(self, directory, *options):
        """Fork a server, which is not ready yet."""
        arguments = ["--runtime", "none", "--data-dir", str(directory), "--listen", "127.0.0.1:0", *options]
        self._zygote.stdin.write(json.dumps(arguments) + "\n")
        self._zygote.stdin.flush()
        self._pid = json.loads(self._zygote.stdout.readline())["pid"]

    def wait_until_ready(self):
        line = self._zygote.stdout.readline()
        while "is ready at" not in line:
            assert "ended" not in line, f"the server did not start: {self._zygote.stderr.read()}"
            line = self._zygote.stdout.readline()

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        line = ""
        while not line.startswith('{"ended"'):
            line = self._zygote.stdout.readline()
        return json.loads(line)["ended"]

    def close(self):
        self._zygote.stdin.close()
        self._zygote.wait(timeout=30)
        self._zygote.stdout.close()
        errors = self._zygote.stderr.read() or ""
        self._zygote.stderr.close()
        return errors


class Memory:
    """What clients were told, and what they had asked for when the server was killed."""

    def __init__(self):
        self.values = {}
        """The last acknowledged value by name; None if the deletion was acknowledged."""
        self.asked = {}
        """The value of a request that got no answer."""
        self.revisions = {}
        """Who was given a revision. Nobody else may be."""
        self.newest = 0
        self.acknowledged = collections.Counter()
        self._waiting = None

    async def more(self, count):
        """Return when so many more writes are acknowledged."""
        self._waiting = (self.acknowledged.total() + count, asyncio.Event())
        await self._waiting[1].wait()

    def acknowledge(self, verb, name, value, answer):
        self.values[name] = value
        self.asked.pop(name, None)
        self.acknowledged[verb] += 1
        if self._waiting is not None and self.acknowledged.total() >= self._waiting[0]:
            self._waiting[1].set()
        revision = int(answer.get("metadata", {}).get("resourceVersion") or 0)
        if revision and verb != "delete":
            assert self.revisions.setdefault(revision, (name, value)) == (name, value), "a revision was given twice"
            self.newest = max(self.newest, revision)

    def check(self, items, revision):
        stored = {item["metadata"]["name"]: item["data"]["value"] for item in items if "value" in item.get("data", {})}
        faults = []
        for name, value in self.values.items():
            allowed = {value, self.asked[name]} if name in self.asked else {value}
            if stored.get(name) not in allowed:
                faults.append(f"{name}: acknowledged {value}, stored {stored.get(name)}, asked {allowed}")
            self.values[name] = stored.get(name)
        for name in set(stored) - set(self.values):
            if self.asked.get(name) != stored[name]:
                faults.append(f"{name}: stored {stored[name]}, never asked for")
            self.values[name] = stored[name]
        self.asked.clear()
        if revision < self.newest:
            faults.append(f"the revision went back from {self.newest} to {revision}")
        return faults


async def write_until_killed(session, memory, lane, choice):
    """Create, patch, replace and delete objects of this lane, one after another."""
    with contextlib.suppress(*CONNECTION_ERRORS):
        while True:
            name = f"n{lane}-{choice.randrange(NAMES_PER_LANE)}"
            value = f"{choice.random()}"
            padding = "x" * choice.choice((0, 100, 5000, 100_000))
            obj = {"metadata": {"name": name}, "data": {"value": value, "padding": padding}}
            if memory.values.get(name) is None:
                verb, method, url = "create", "POST", CONFIG_MAPS
            else:
                verb, method = choice.choice(
                    (("patch", "PATCH"), ("patch", "PATCH"), ("update", "PUT"), ("delete", "DELETE"))
                )
                url = f"{CONFIG_MAPS}/{name}"
            media = "application/merge-patch+json" if verb == "patch" else "application/json"
            memory.asked[name] = None if verb == "delete" else value
            data = None if verb == "delete" else json.dumps(obj)
            async with session.request(method, url, data=data, headers={"Content-Type": media}) as answer:
                body = await answer.json()
            assert answer.status in (200, 201), body
            memory.acknowledge(verb, name, None if verb == "delete" else value, body)


async def queue_jobs_until_killed(session, choice):
    """Jobs that need quota; some are deleted, so that others are admitted."""
    with contextlib.suppress(*CONNECTION_ERRORS):
        while True:
            name = f"j{choice.randrange(12)}"
            template = {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
                }
            }
            job = {
                "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
                "spec": {"parallelism": choice.randint(1, 3), "suspend": True, "template": template},
            }
            requests = (("POST", JOBS, job), ("DELETE", f"{JOBS}/{name}?propagationPolicy=Background", None))
            method, url, body = choice.choice(requests)
            async with session.request(method, url, json=body) as answer:
                await answer.read()
            assert answer.status in (200, 201, 404, 409), answer.status


async def watch_until_killed(session, seen):
    """The highest revision that a watch has shown."""
    with contextlib.suppress(*CONNECTION_ERRORS):
        async with session.get(CONFIG_MAPS, params={"watch": "1", "allowWatchBookmarks": "true"}) as answer:
            async for line in answer.content:
                seen.append(int(json.loads(line)["object"]["metadata"]["resourceVersion"]))


async def load(directory, memory, seed):
    """Write until the server is killed; returns the revisions that a watch has shown."""
    session = session_of(directory / "kubeconfig", LANES + 4)
    seen = []
    async with session:
        await asyncio.gather(
            *(write_until_killed(session, memory, lane, random.Random(f"{seed}-{lane}")) for lane in range(LANES)),
            queue_jobs_until_killed(session, random.Random(f"{seed}-jobs")),
            watch_until_killed(session, seen),
        )
    return seen


async def prepare(directory):
    async with session_of(directory / "kubeconfig", 1) as session:
        for url, obj in OBJECTS:
            async with session.post(url, json=obj) as answer:
                assert answer.status in (201, 409), await answer.text()


async def stored(directory):
    async with session_of(directory / "kubeconfig", 1) as session, session.get(CONFIG_MAPS) as answer:
        body = await answer.json()
        assert answer.status == 200, body
        return body["items"], int(body["metadata"]["resourceVersion"])


async def quota_faults(directory):
    """Usage is the sum of the admissions, and not above the quota, when the controllers have caught up."""
    async with session_of(directory / "kubeconfig", 1) as session:
        deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
        while True:
            admitted = await _admitted_cpu(session)
            if admitted > QUOTA_CPU:
                return [f"{admitted} cpu are admitted"]
            async with session.get(f"{KUEUE}/clusterqueues/cq") as answer:
                status = (await answer.json()).get("status", {})
            usage = [entry["resources"][0]["total"] for entry in status.get("flavorsReservation", ())]
            if usage == [str(admitted)] and await _admitted_cpu(session) == admitted:
                return []
            if asyncio.get_running_loop().time() > deadline:
                return [f"{admitted} cpu are admitted, {usage} are used"]
            await asyncio.sleep(0.02)


async def _admitted_cpu(session):
    async with session.get(f"{KUEUE}/namespaces/default/workloads") as answer:
        workloads = (await answer.json())["items"]
    return sum(
        int(assignment["resourceUsage"]["cpu"])
        for workload in workloads
        for assignment in workload.get("status", {}).get("admission", {}).get("podSetAssignments", ())
        if _holds_quota(workload)
    )


def _holds_quota(workload):
    conditions = {entry["type"]: entry["status"] for entry in workload.get("status", {}).get("conditions", ())}
    return conditions.get("QuotaReserved") == "True" and conditions.get("Finished") != "True"
