"""`kubectl top`: the group `metrics.k8s.io` of the embedded API, measured on the processes of pods. Registered by `app.local_cluster`."""

import asyncio
import time
from datetime import UTC, datetime

from pykueue.api import errors, resources, selectors
from pykueue.api.scheme import Object
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.http.hooks import ExtraGroup, ExtraResource
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.cluster.runtimes import linux_processes
from pykueue.cluster.runtimes.linux_processes import Owner, ProcessUsage
from pykueue.kube.client import Client

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
_WINDOW_SECONDS = 0.5
_RESOURCES = (
    ExtraResource(name="nodes", kind="NodeMetrics", namespaced=False, verbs=("get", "list")),
    ExtraResource(name="pods", kind="PodMetrics", namespaced=True, verbs=("get", "list")),
)

Usage = dict[Owner, tuple[int, int]]
"""Billionths of a CPU, and bytes."""


def register(api: EmbeddedApi) -> None:
    client = api.client()

    async def handler(call: HttpRequest) -> HttpResponse:
        route = call.route
        items = [
            item
            for item in await _measured(client, route.plural, route.namespace)
            if route.name in ("", item["metadata"]["name"]) and _is_selected(item, call.query.get("labelSelector", ""))
        ]
        if route.name and not items:
            raise errors.not_found(GROUP, route.plural, route.name)
        kind = "NodeMetrics" if route.plural == "nodes" else "PodMetrics"
        typed: Object = {"apiVersion": f"{GROUP}/{VERSION}"}
        if route.name:
            return HttpResponse(body=typed | {"kind": kind, **items[0]})
        return HttpResponse(body=typed | {"kind": f"{kind}List", "metadata": {}, "items": items})

    api.hooks.add_group(ExtraGroup(group=GROUP, version=VERSION, resources=_RESOURCES, handler=handler))


def _is_selected(item: Object, selector: str) -> bool:
    return selectors.matches(selectors.parse_labels(selector), item["metadata"].get("labels"))


async def _measured(client: Client, plural: str, namespace: str) -> list[Object]:
    usage = await _usage()
    if plural == "pods":
        pods = (await client.list(resources.POD, namespace)).items
        return [_pod(pod, usage) for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
    pods = (await client.list(resources.POD)).items
    return [_node(node, pods, usage) for node in (await client.list(resources.NODE)).items]


async def _usage() -> Usage:
    """Over a short while, for a rate."""
    before, begun = await asyncio.to_thread(linux_processes.measure_usage), time.monotonic_ns()
    await asyncio.sleep(_WINDOW_SECONDS)
    after = await asyncio.to_thread(linux_processes.measure_usage)
    elapsed_ns = time.monotonic_ns() - begun
    return {owner: _rates(before.get(owner), found, elapsed_ns) for owner, found in after.items()}


def _rates(before: ProcessUsage | None, after: ProcessUsage, elapsed_ns: int) -> tuple[int, int]:
    return linux_processes.cpu_rate_nano(before, after, elapsed_ns), after.memory_bytes


def _pod(pod: Object, usage: Usage) -> Object:
    uid, metadata = pod["metadata"]["uid"], pod["metadata"]
    containers = [
        {"name": each["name"], "usage": _shown([usage.get((uid, each["name"]), (0, 0))])}
        for each in pod["spec"]["containers"]
    ]
    shown = {"name": metadata["name"], "namespace": metadata["namespace"], "labels": metadata.get("labels") or {}}
    return {"metadata": shown, **_moment(), "containers": containers}


def _node(node: Object, pods: list[Object], usage: Usage) -> Object:
    name = node["metadata"]["name"]
    here = {pod["metadata"]["uid"] for pod in pods if pod["spec"].get("nodeName") == name}
    used = [amounts for (uid, _), amounts in usage.items() if uid in here]
    shown = {"name": name, "labels": node["metadata"].get("labels") or {}}
    return {"metadata": shown, **_moment(), "usage": _shown(used)}


def _shown(used: list[tuple[int, int]]) -> dict[str, str]:
    cpu, memory = sum(each[0] for each in used), sum(each[1] for each in used)
    return {"cpu": f"{cpu}n", "memory": f"{memory // 1024}Ki"}


def _moment() -> Object:
    return {"timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "window": "500ms"}
