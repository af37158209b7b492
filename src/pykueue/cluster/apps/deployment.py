"""One sync of a Deployment: one ReplicaSet a template, the newest scaled up as the others go down."""

import copy
import hashlib
import json
from collections.abc import Sequence
from datetime import datetime

from pykueue.api import conditions as api_conditions
from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.cluster import generated_names, statuses
from pykueue.kube.controller import writes

HASH = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"


def template_hash(template: Object) -> str:
    """A short stable name for a template, in the alphabet of Kubernetes' generated names."""
    digest = int.from_bytes(hashlib.sha256(json.dumps(template, sort_keys=True).encode()).digest()[:8])
    letters = []
    for _ in range(10):
        digest, letter = divmod(digest, len(generated_names.ALPHABET))
        letters.append(generated_names.ALPHABET[letter])
    return "".join(letters)


def sync(deployment: Object, owned: Sequence[Object], now: datetime) -> writes.Sync:
    """`owned` are the ReplicaSets of this Deployment."""
    if objects.is_deleted(deployment):
        return writes.Done()
    wanted = int(deployment["spec"].get("replicas", 1))
    digest = template_hash(deployment["spec"]["template"])
    newest = next((found for found in owned if objects.labels(found).get(HASH) == digest), None)
    others = [found for found in owned if found is not newest]
    errors: list[Exception] = []
    if newest is None:
        first = _bounded(wanted, deployment, others)
        results = yield [
            writes.Create(resource=resources.REPLICA_SET, object=_replica_set(deployment, digest, first, owned))
        ]
        errors += writes.refusals(results)
        if isinstance(results[0], writes.Refused):
            return writes.Done(errors=tuple(errors))
        newest = results[0]
        yield [_scaled(deployment, newest, 0, first)]
    changes = _rollout(deployment, newest, others, wanted)
    for replica_set, target in changes:
        before = int(replica_set["spec"].get("replicas", 0))
        patch = {"spec": {"replicas": target}}
        results = yield [writes.Patch(resource=resources.REPLICA_SET, object=replica_set, patch=patch, guarded=False)]
        errors += writes.refusals(results)
        yield [_scaled(deployment, replica_set, before, target)]
    refused = yield from statuses.write(
        resources.DEPLOYMENT, deployment, _status(deployment, newest, [newest, *others], now)
    )
    return writes.Done(errors=(*errors, *refused))


def _replica_set(deployment: Object, digest: str, replicas: int, owned: Sequence[Object]) -> Object:
    spec = deployment["spec"]
    template = copy.deepcopy(spec["template"])
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = (metadata.get("labels") or {}) | {HASH: digest}
    selector = copy.deepcopy(spec.get("selector") or {})
    selector["matchLabels"] = (selector.get("matchLabels") or {}) | {HASH: digest}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{objects.name(deployment)}-{digest}",
            "namespace": objects.namespace(deployment),
            "labels": metadata["labels"],
            "annotations": {_REVISION: str(len(owned) + 1)},
            "ownerReferences": [objects.controller_reference(deployment)],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def _scaled(deployment: Object, replica_set: Object, before: int, after: int) -> writes.Event:
    direction = "up" if after >= before else "down"
    message = f"Scaled {direction} replica set {objects.name(replica_set)} from {before} to {after}"
    return writes.Event(about=deployment, type="Normal", reason="ScalingReplicaSet", message=message)


def _rollout(deployment: Object, newest: Object, others: Sequence[Object], wanted: int) -> list[tuple[Object, int]]:
    """Which ReplicaSets change size now, within maxSurge and maxUnavailable."""
    changes: list[tuple[Object, int]] = []
    target = _bounded(wanted, deployment, others)
    if int(newest["spec"].get("replicas", 0)) != target:
        changes.append((newest, target))
    strategy = deployment["spec"].get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return changes + [(found, 0) for found in others if found["spec"].get("replicas")]
    ready = sum(_ready(found) for found in (newest, *others))
    spare = ready - (wanted - _share(strategy, "maxUnavailable", wanted, up=False))
    for found in others:
        replicas = int(found["spec"].get("replicas", 0))
        unready = replicas - _ready(found)
        cut = min(replicas, max(0, unready) + max(0, spare))
        if cut > 0:
            changes.append((found, replicas - cut))
            spare -= max(0, cut - unready)
    return changes


def _bounded(wanted: int, deployment: Object, others: Sequence[Object]) -> int:
    """The size that the newest ReplicaSet may have while others still hold pods."""
    held = sum(int((found.get("status") or {}).get("replicas", found["spec"].get("replicas", 0))) for found in others)
    strategy = deployment["spec"].get("strategy") or {}
    if strategy.get("type") == "Recreate":
        leaving = sum(int((found.get("status") or {}).get("terminatingReplicas", 0)) for found in others)
        return wanted if held + leaving == 0 else 0
    return max(0, min(wanted, wanted + _share(strategy, "maxSurge", wanted, up=True) - held))


def _ready(replica_set: Object) -> int:
    return int((replica_set.get("status") or {}).get("availableReplicas", 0))


def _share(strategy: Object, field: str, wanted: int, *, up: bool) -> int:
    value = (strategy.get("rollingUpdate") or {}).get(field, "25%")
    if isinstance(value, int):
        return value
    share = wanted * int(value.rstrip("%"))
    return -(-share // 100) if up else share // 100


def _status(deployment: Object, newest: Object, every: Sequence[Object], now: datetime) -> Object:
    wanted = int(deployment["spec"].get("replicas", 1))
    ready = sum(_ready(found) for found in every)
    counts = {
        "replicas": sum(int((found.get("status") or {}).get("replicas", 0)) for found in every),
        "updatedReplicas": int((newest.get("status") or {}).get("replicas", 0)),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": max(0, wanted - ready),
    }
    strategy = deployment["spec"].get("strategy") or {}
    least = (
        wanted if strategy.get("type") == "Recreate" else wanted - _share(strategy, "maxUnavailable", wanted, up=False)
    )
    is_available = ready >= least
    is_done = counts["updatedReplicas"] == counts["replicas"] == ready == wanted
    conditions = api_conditions.replaced(
        (deployment.get("status") or {}).get("conditions") or (), _available(is_available=is_available), now
    )
    conditions = api_conditions.replaced(conditions, _progressing(newest, is_done=is_done), now)
    shown: Object = {key: value for key, value in counts.items() if value}
    return shown | {"observedGeneration": deployment["metadata"].get("generation", 1), "conditions": conditions}


def _available(*, is_available: bool) -> Object:
    return {
        "type": "Available",
        "status": "True" if is_available else "False",
        "reason": "MinimumReplicasAvailable" if is_available else "MinimumReplicasUnavailable",
        "message": f"Deployment {'has' if is_available else 'does not have'} minimum availability.",
    }


def _progressing(newest: Object, *, is_done: bool) -> Object:
    name = objects.name(newest)
    return {
        "type": "Progressing",
        "status": "True",
        "reason": "NewReplicaSetAvailable" if is_done else "ReplicaSetUpdated",
        "message": f'ReplicaSet "{name}" {"has successfully progressed." if is_done else "is progressing."}',
    }
