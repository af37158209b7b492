"""Hostile users: random requests with texts that once were expensive, and a user who just works.

`campaign` returns what the working user saw. The seed gives the same requests again.
"""

import asyncio
import base64
import itertools
import json
import os
import random
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
from tests.cost.entries import FIELD_SELECTORS, HEADERS, JSON_TEXTS, LABEL_SELECTORS, PROTOBUF_BODIES, YAML_TEXTS

RESOURCES = (
    "api/v1 pods configmaps services secrets serviceaccounts events persistentvolumeclaims",
    "apis/batch/v1 jobs cronjobs",
    "apis/apps/v1 deployments statefulsets",
    "apis/kueue.x-k8s.io/v1beta2 localqueues workloads",
    "apis/kueue.x-k8s.io/v1beta1 workloads",
    "apis/rbac.authorization.k8s.io/v1 roles rolebindings",
    "apis/kubeflow.org/v1 pytorchjobs",
    "apis/jobset.x-k8s.io/v1alpha2 jobsets",
)
REVIEWS = ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews", "localsubjectaccessreviews")
SUBRESOURCES = ("", "", "", "/status", "/scale", "/log", "/binding", "/exec", "/eviction", "/token", "/finalize")
METHODS = ("GET", "GET", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE")
MEDIA = {
    "application/json": JSON_TEXTS,
    "application/yaml": YAML_TEXTS,
    "application/vnd.kubernetes.protobuf": PROTOBUF_BODIES,
    "application/merge-patch+json": JSON_TEXTS,
    "application/json-patch+json": JSON_TEXTS,
    "application/strategic-merge-patch+json": JSON_TEXTS,
    "application/apply-patch+yaml": YAML_TEXTS,
}
PARAMETERS = [
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "continue",
    "timeoutSeconds",
    "fieldManager",
    "dryRun",
    "force",
    "pretty",
    "tailLines",
    "limitBytes",
    "gracePeriodSeconds",
    "propagationPolicy",
    "fieldValidation",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "container",
]
PLAIN = {"Content-Type": "application/json"}
VALUES = ("", "1", "-1", "x", "true", "All", "Exact", "NotOlderThan", "Strict", "9" * 5000, "é\x00", "Foreground")
SCALARS = (None, True, 0, -1, 2**31, 2**63, 10**4000, 1.5, 1e300, "", "a", "1Gi", "-1", "\x1b]0;x\x07", "x" * 3000)
FIELDS = [
    "metadata",
    "name",
    "namespace",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "managedFields",
    "generateName",
    "uid",
    "spec",
    "status",
    "template",
    "containers",
    "image",
    "env",
    "resources",
    "requests",
    "limits",
    "cpu",
    "replicas",
    "parallelism",
    "completions",
    "suspend",
    "queueName",
    "podSets",
    "count",
    "rules",
    "verbs",
    "roleRef",
    "subjects",
    "data",
    "type",
    "ports",
    "port",
    "selector",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "kind",
    "apiVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "creationTimestamp",
    "priority",
    "overhead",
    "tolerations",
    "schedulingGates",
    "volumes",
    "active",
    "conditions",
    "fieldsV1",
    "manager",
    "operation",
    "time",
    "$patch",
    "$retainKeys",
    "restartPolicy",
]


class Fuzzer:
    def __init__(self, seed, namespace):
        self.random = random.Random(seed)
        self.namespace = namespace

    def value(self, depth=0):
        choose = self.random.random()
        if depth > 6 or choose < 0.4:
            return self.random.choice(SCALARS)
        if choose < 0.6:
            return [self.value(depth + 1) for _ in range(self.random.randint(0, 3))]
        return {self.random.choice(FIELDS): self.value(depth + 1) for _ in range(self.random.randint(0, 5))}

    def object(self):
        obj = {"metadata": {"name": f"n{self.random.randint(0, 20)}"}, "spec": self.value(), "status": self.value()}
        obj |= {self.random.choice(FIELDS): self.value() for _ in range(self.random.randint(0, 2))}
        if isinstance(obj["metadata"], dict):
            obj["metadata"] |= {self.random.choice(FIELDS): self.value() for _ in range(self.random.randint(0, 2))}
        return obj

    def operations(self):
        names = ["", "/metadata", "/spec", "/metadata/labels", "/status", "/spec/a", "/metadata/x/0", "/-"]
        operations = ("add", "copy", "move", "remove", "test", "replace", "x")
        return [
            {
                "op": self.random.choice(operations),
                "path": self.random.choice(names) + self.random.choice(["", "/x", f"/y{index}"]),
                "from": self.random.choice(names),
                "value": self.value(4),
            }
            for index in range(self.random.randint(0, 30))
        ]

    def body(self):
        media = self.random.choice(list(MEDIA))
        if self.random.random() < 0.6 and "protobuf" not in media:
            value = self.operations() if "json-patch" in media else self.object()
            return media, json.dumps(value).encode()
        build = self.random.choice(list(MEDIA[media].values()))
        text = build(self.random.choice((1, 50, 300, 3000)))
        return media, text if isinstance(text, bytes) else text.encode()

    def query(self):
        parameters = {name: self.random.choice(VALUES) for name in self.random.sample(PARAMETERS, 2)}
        if self.random.random() < 0.3:
            build = self.random.choice(list(LABEL_SELECTORS.values()))
            parameters["labelSelector"] = build(self.random.choice((1, 20, 2000)))
        if self.random.random() < 0.2:
            build = self.random.choice(list(FIELD_SELECTORS.values()))
            parameters["fieldSelector"] = build(self.random.choice((1, 20, 2000)))
        if self.random.random() < 0.1:
            parameters["continue"] = base64.b64encode(json.dumps(self.value()).encode()).decode()[:3000]
        return parameters

    def path(self):
        if self.random.random() < 0.15:
            return f"/apis/authorization.k8s.io/v1/{self.random.choice(REVIEWS)}"
        group, *plurals = self.random.choice(RESOURCES).split()
        namespace = self.random.choice((*[self.namespace] * 20, "default", "é%00"))
        name = self.random.choice(("", "", f"/n{self.random.randint(0, 20)}"))
        subresource = self.random.choice(SUBRESOURCES) if name else ""
        return f"/{group}/namespaces/{namespace}/{self.random.choice(plurals)}{name}{subresource}"

    def request(self):
        media, data = self.body()
        headers = {"Content-Type": media}
        if self.random.random() < 0.1:
            headers["Accept"] = self.random.choice(list(HEADERS.values()))(self.random.choice((1, 500)))
        method, path = self.random.choice(METHODS), self.path()
        if "authorization.k8s.io/v1/" in path and "rbac" not in path:
            method = self.random.choice(("POST", "POST", "POST", method))
        if "rolebindings" in path and method != "POST":
            method = "GET"  # the users keep their rights
        return method, path, self.query(), headers, data if method != "GET" else None


@dataclass
class Report:
    codes: Counter = field(default_factory=Counter)
    failures: list = field(default_factory=list)
    """Requests that got a code of 500 or more, or no answer."""
    waits: list = field(default_factory=list)
    """Seconds of each request of the user who just works."""
    work_codes: Counter = field(default_factory=Counter)

    def __str__(self):
        waits = sorted(self.waits)
        middle, high = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
        return (
            f"{self.codes.total()} requests: {dict(sorted(self.codes.items()))}; the other user: {len(waits)} requests "
            f"{dict(self.work_codes)}, median {middle * 1000:.0f} ms, 99 % {high * 1000:.0f} ms, "
            f"longest {waits[-1] * 1000:.0f} ms"
        )


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


async def _attack(session, fuzzer, report, numbers):
    for number in numbers:
        method, path, query, headers, data = fuzzer.request()
        try:
            async with session.request(method, path, params=query, headers=headers, data=data) as answer:
                code, text = answer.status, await answer.read()
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            code, text = -1, repr(error).encode()
        except (TimeoutError, aiohttp.ClientError, ValueError) as error:
            code, text = -2, repr(error).encode()
        report.codes[code] += 1
        # 504 is Kubernetes' answer to a resource version of the future.
        if code >= 500 and not (code == 504 and b"Too large resource version" in text):
            report.failures.append((number, method, path, query, headers, (data or b"")[:300], code, text[:300]))


async def _work(kubeconfig, namespace, is_stopping):
    """Create, list and delete until told to stop; returns (code, seconds) of each request."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    requests = []
    session = session_of(kubeconfig, 4)
    for number in itertools.count():
        if is_stopping():
            break
        body = json.dumps({"metadata": {"name": f"w{number}"}, "data": {"a": "b"}}).encode()
        for method, url, data in (("POST", path, body), ("GET", path, None), ("DELETE", f"{path}/w{number}", None)):
            began = time.monotonic()
            async with session.request(method, url, data=data, headers=PLAIN) as answer:
                await answer.read()
            requests.append((answer.status, time.monotonic() - began))
        await asyncio.sleep(0.02)
    await session.close()
    return requests


async def campaign(attackers, worker, *, seed, count, connections=8):
    """`attackers` and `worker` are (kubeconfig, namespace).

    The worker is another process, because the attackers keep this one busy.
    """
    report = Report()
    numbers = iter(range(count))
    sessions = [session_of(kubeconfig, connections) for kubeconfig, _ in attackers]
    command = [sys.executable, "-m", "tests.cost.flood", str(worker[0]), worker[1]]
    work = await asyncio.to_thread(
        subprocess.Popen, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment()
    )
    try:
        await asyncio.gather(
            *(
                _attack(session, Fuzzer(f"{seed}-{user}-{lane}", attackers[user][1]), report, numbers)
                for user, session in enumerate(sessions)
                for lane in range(connections)
            )
        )
    finally:
        output, _ = await asyncio.to_thread(work.communicate)
        for session in sessions:
            await session.close()
    for code, seconds in json.loads(output):
        report.work_codes[code] += 1
        report.waits.append(seconds)
    return report


def _environment():
    root = Path(__file__).parents[2]
    return {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}


def main():
    """Work until the standard input is closed."""
    stopping = threading.Event()

    def wait_for_the_end():
        sys.stdin.read()
        stopping.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    requests = asyncio.run(_work(Path(sys.argv[1]), sys.argv[2], stopping.is_set))
    sys.stdout.write(json.dumps(requests))


if __name__ == "__main__":
    main()
