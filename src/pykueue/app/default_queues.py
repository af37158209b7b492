"""The queue of a new `pykueue up`: a flavor, a ClusterQueue and a LocalQueue named `default`.

Their quota is what the nodes of this machine have, so that the first job needs no manifest.
`pykueue up --bare` creates none of them. They are created once: what an administrator changes or
deletes afterwards stays so.
"""

from pykueue.api import objects, quantity
from pykueue.api.errors import ApiError
from pykueue.api.gpu_resources import is_gpu
from pykueue.api.reserved_keys import DEFAULT_QUEUES
from pykueue.api.resources import CLUSTER_QUEUE, LOCAL_QUEUE, NAMESPACE, NODE, RESOURCE_FLAVOR
from pykueue.api.scheme import Object, Resource
from pykueue.kube.client import Client

NAME = "default"
_COVERED = ("cpu", "memory")
_CONFLICT = 409


class DefaultQueues:
    """A component of `pykueue up` that only has a start."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def start(self) -> None:
        await ensure(self._client)

    async def stop(self) -> None:
        pass


async def ensure(client: Client) -> None:
    """Create the queue in a cluster that has neither queues nor flavors and never had it."""
    namespace = await client.get(NAMESPACE, NAME)
    if DEFAULT_QUEUES in objects.annotations(namespace):
        return
    if not (await client.list(CLUSTER_QUEUE)).items and not (await client.list(RESOURCE_FLAVOR)).items:
        quota = _quota((await client.list(NODE)).items)
        await _create(client, RESOURCE_FLAVOR, {})
        await _create(client, CLUSTER_QUEUE, _cluster_queue(quota))
        await _create(client, LOCAL_QUEUE, {"spec": {"clusterQueue": NAME}}, NAME)
    note = {"metadata": {"annotations": {DEFAULT_QUEUES: "true"}}}
    await client.patch(NAMESPACE, NAME, "", note)


def _quota(nodes: list[Object]) -> dict[str, str]:
    """What all nodes have together, of the resources that jobs ask for."""
    totals: dict[str, quantity.Quantity] = {}
    for node in nodes:
        for resource, amount in objects.nested(node, "status", "allocatable").items():
            totals[resource] = totals.get(resource, quantity.parse("0")) + quantity.parse(amount)
    return {resource: str(totals[resource]) for resource in totals if resource in _COVERED or is_gpu(resource)}


def _cluster_queue(quota: dict[str, str]) -> Object:
    resources = [{"name": resource, "nominalQuota": amount} for resource, amount in quota.items()]
    group = {"coveredResources": list(quota), "flavors": [{"name": NAME, "resources": resources}]}
    return {
        "spec": {
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [group],
        }
    }


async def _create(client: Client, resource: Resource, content: Object, namespace: str = "") -> None:
    """Create an object named `default`, unless a start that was interrupted created it."""
    obj = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": NAME} | ({"namespace": namespace} if namespace else {}),
        **content,
    }
    try:
        await client.create(resource, obj, namespace)
    except ApiError as error:
        if error.code != _CONFLICT:
            raise
