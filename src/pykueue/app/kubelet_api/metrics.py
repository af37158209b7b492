"""`kubectl top`: the API group `metrics.k8s.io` of `pykueue up`, for pods that are processes."""

import asyncio
import time
from datetime import UTC, datetime

from pykueue.api import errors, objects, resources, selectors, times
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
"""By container: CPU in billionths of a core, and memory in bytes."""


def register(api: EmbeddedApi) -> None:
    client = api.client()

    async def handler(call: HttpRequest) -> HttpResponse:
        route = call.route
        items = [
            item
            for item in await _measure(client, route.plural, route.namespace)
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
    return selectors.matches(selectors.parse_labels(selector), objects.labels(item))


async def _measure(client: Client, plural: str, namespace: str) -> list[Object]:
    usage = await _usage()
    if plural == "pods":
        pods = (await client.list(resources.POD, namespace)).items
        return [_pod(pod, usage) for pod in pods if objects.status(pod).get("phase") == "Running"]
    pods = (await client.list(resources.POD)).items
    return [_node(node, pods, usage) for node in (await client.list(resources.NODE)).items]


async def _usage() -> Usage:
    """Measure twice, half a second apart: CPU usage is a rate."""
    before, begun = await asyncio.to_thread(linux_processes.measure_usage), time.monotonic_ns()
    await asyncio.sleep(_WINDOW_SECONDS)
    after = await asyncio.to_thread(linux_processes.measure_usage)
    elapsed_ns = time.monotonic_ns() - begun
    return {owner: _rates(before.get(owner), consumed, elapsed_ns) for owner, consumed in after.items()}


def _rates(before: ProcessUsage | None, after: ProcessUsage, elapsed_ns: int) -> tuple[int, int]:
    return linux_processes.cpu_rate_nano(before, after, elapsed_ns), after.memory_bytes


def _pod(pod: Object, usage: Usage) -> Object:
    containers = [
        {"name": container["name"], "usage": _total([usage.get((objects.uid(pod), container["name"]), (0, 0))])}
        for container in pod["spec"]["containers"]
    ]
    metadata = {"name": objects.name(pod), "namespace": objects.namespace(pod), "labels": objects.labels(pod)}
    return {"metadata": metadata, **_window(), "containers": containers}


def _node(node: Object, pods: list[Object], usage: Usage) -> Object:
    name = objects.name(node)
    uids = {objects.uid(pod) for pod in pods if pod["spec"].get("nodeName") == name}
    amounts = [amount for (uid, _), amount in usage.items() if uid in uids]
    return {"metadata": {"name": name, "labels": objects.labels(node)}, **_window(), "usage": _total(amounts)}


def _total(amounts: list[tuple[int, int]]) -> dict[str, str]:
    cpu, memory = sum(amount[0] for amount in amounts), sum(amount[1] for amount in amounts)
    return {"cpu": f"{cpu}n", "memory": f"{memory // 1024}Ki"}


def _window() -> Object:
    return {"timestamp": times.to_text(datetime.now(UTC)), "window": "500ms"}
