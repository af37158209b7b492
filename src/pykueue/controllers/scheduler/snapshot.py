"""A cluster's queues read once: its objects as an engine that can be asked, and never writes.

For commands that explain or compare; controllers keep an engine in step with `engine_feed` instead.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from pykueue.api import limit_range, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.controllers.settings import Configuration
from pykueue.engine import events, values
from pykueue.engine.engine import Engine
from pykueue.kube.client import Client
from pykueue.translate import nodes, policy, queues, requests, workload

_KINDS = (
    resources.NAMESPACE,
    resources.LIMIT_RANGE,
    resources.RUNTIME_CLASS,
    resources.TOPOLOGY,
    resources.RESOURCE_FLAVOR,
    resources.ADMISSION_CHECK,
    resources.COHORT,
    resources.CLUSTER_QUEUE,
    resources.LOCAL_QUEUE,
    resources.WORKLOAD,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    engine: Engine
    workloads: dict[values.WorkloadKey, Object]


async def observe(client: Client, configuration: Configuration, *, now_ns: int) -> QueueSnapshot:
    found = dict(zip(_KINDS, await asyncio.gather(*(_listed(client, kind) for kind in _KINDS)), strict=True))
    if any((flavor.get("spec") or {}).get("topologyName") for flavor in found[resources.RESOURCE_FLAVOR]):
        found[resources.NODE], found[resources.POD] = await asyncio.gather(
            _listed(client, resources.NODE), _listed(client, resources.POD)
        )
    engine = Engine(policy.engine_policy(configuration))
    for event in _events(found, configuration, now_ns):
        engine.handle(event)
    return QueueSnapshot(engine=engine, workloads={workload.key(obj): obj for obj in found[resources.WORKLOAD]})


async def _listed(client: Client, kind: Resource) -> list[Object]:
    """None of a kind that the server does not know."""
    try:
        return (await client.list(kind)).items
    except ApiError as error:
        if error.code == 404:
            return []
        raise


def _events(
    found: dict[Resource, list[Object]], configuration: Configuration, at_ns: int
) -> Iterator[events.EngineEvent]:
    for obj in found[resources.NAMESPACE]:
        labels = obj["metadata"].get("labels") or {}
        yield events.NamespaceChanged(at_ns=at_ns, name=obj["metadata"]["name"], labels=labels)
    yield from _places(found, at_ns)
    for obj in found[resources.RESOURCE_FLAVOR]:
        yield events.FlavorChanged(at_ns=at_ns, flavor=queues.resource_flavor(obj))
    for obj in found[resources.ADMISSION_CHECK]:
        yield events.AdmissionCheckChanged(at_ns=at_ns, check=queues.admission_check(obj))
    for obj in found[resources.COHORT]:
        yield events.CohortChanged(at_ns=at_ns, cohort=queues.cohort(obj))
    for obj in found[resources.CLUSTER_QUEUE]:
        yield events.ClusterQueueChanged(at_ns=at_ns, cluster_queue=queues.cluster_queue(obj))
    for obj in found[resources.LOCAL_QUEUE]:
        yield events.LocalQueueChanged(at_ns=at_ns, local_queue=queues.local_queue(obj))
    for value in _workloads(found, configuration):
        yield events.WorkloadArrived(at_ns=at_ns, workload=value)


def _places(found: dict[Resource, list[Object]], at_ns: int) -> Iterator[events.EngineEvent]:
    """Topologies, nodes that take pods, and pods that take room without having been placed by us."""
    for obj in found[resources.TOPOLOGY]:
        yield events.TopologyChanged(at_ns=at_ns, name=obj["metadata"]["name"], levels=nodes.levels(obj))
    for obj in found.get(resources.NODE, ()):
        if (node := nodes.node(obj)) is not None:
            yield events.NodeChanged(at_ns=at_ns, node=node)
    for obj in found.get(resources.POD, ()):
        if nodes.uses_node(obj) and not nodes.is_topology_aware(obj):
            key, asked = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}", nodes.pod_requests(obj["spec"])
            yield events.PodBound(at_ns=at_ns, key=key, node=obj["spec"]["nodeName"], requests=asked)


def _workloads(found: dict[Resource, list[Object]], configuration: Configuration) -> Iterator[values.Workload]:
    options = policy.workload_options(configuration)
    runtime_classes = {obj["metadata"]["name"]: obj for obj in found[resources.RUNTIME_CLASS]}
    by_namespace: dict[str, list[Object]] = {}
    for obj in found[resources.LIMIT_RANGE]:
        by_namespace.setdefault(obj["metadata"]["namespace"], []).append(obj)
    for obj in found[resources.WORKLOAD]:
        limit_ranges = by_namespace.get(obj["metadata"].get("namespace", ""), [])
        adjusted = requests.adjusted(obj, runtime_classes=runtime_classes, limit_ranges=limit_ranges)
        yield workload.workload(adjusted, options, limit_range.summarize(limit_ranges))
