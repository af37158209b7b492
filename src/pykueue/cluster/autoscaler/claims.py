"""NodeClaims: one for each node of a pool, as Karpenter keeps them; pure functions.

The claim owns its node, so `kubectl delete nodeclaim` removes the node as well.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from pykueue.api import conditions, objects, resources
from pykueue.api.scheme import Object
from pykueue.cluster.autoscaler.pool import POOL
from pykueue.kube.controller import writes

_CONDITIONS = ("Launched", "Registered", "Initialized", "Ready")


def claim_of(node: Object, template: Object) -> Object:
    """The claim of a node that is created, with the node's name; `template` is the pool's."""
    spec = objects.spec(template)
    return {
        "apiVersion": resources.NODE_CLAIM.api_version,
        "kind": resources.NODE_CLAIM.kind,
        "metadata": {"name": objects.name(node), "labels": dict(objects.labels(node))},
        "spec": {name: spec[name] for name in ("requirements", "taints", "nodeClassRef") if name in spec},
    }


def owned(node: Object, claim: Object) -> Object:
    owner = {
        "apiVersion": resources.NODE_CLAIM.api_version,
        "kind": resources.NODE_CLAIM.kind,
        "name": objects.name(claim),
        "uid": objects.uid(claim),
        "blockOwnerDeletion": True,
    }
    return node | {"metadata": node["metadata"] | {"ownerReferences": [owner]}}


def ready(claim: Object, node: Object, now: datetime) -> writes.Patch:
    """The status of a claim whose node is there."""
    reported: list[Object] = []
    for name in _CONDITIONS:
        reported = conditions.replaced(reported, {"type": name, "status": "True", "reason": name, "message": ""}, now)
    capacity = objects.status(node).get("capacity") or {}
    status = {
        "nodeName": objects.name(node),
        "capacity": capacity,
        "allocatable": objects.status(node).get("allocatable") or capacity,
        "conditions": reported,
    }
    return writes.Patch(
        resource=resources.NODE_CLAIM, object=claim, patch={"status": status}, subresource="status", guarded=False
    )


def without_node(claims: Iterable[Object], nodes: Iterable[str]) -> Iterator[Object]:
    """Claims of pools whose node somebody deleted."""
    present = set(nodes)
    for claim in claims:
        is_of_pool = POOL in objects.labels(claim)
        if is_of_pool and objects.name(claim) not in present and not objects.is_deleted(claim):
            yield claim
