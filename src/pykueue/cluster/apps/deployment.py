"""One sync of a Deployment: one ReplicaSet for each template.

The newest is scaled up, the others down.
"""

import copy
import hashlib
import json
from collections.abc import Sequence
from datetime import datetime

from pykueue.api import conditions as api_conditions
from pykueue.api import generated_names, objects, resources
from pykueue.api.scheme import Object
from pykueue.cluster import statuses
from pykueue.kube.controller import writes

HASH = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"


def template_hash(template: Object) -> str:
    """A short stable hash of a template, in the alphabet of Kubernetes' generated names."""
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
    replicas = int(deployment["spec"].get("replicas", 1))
    digest = template_hash(deployment["spec"]["template"])
    newest = next((replica_set for replica_set in owned if objects.labels(replica_set).get(HASH) == digest), None)
    others = [replica_set for replica_set in owned if replica_set is not newest]
    errors: list[Exception] = []
    if newest is None:
        first = _newest_size(replicas, deployment, others)
        results = yield [
            writes.Create(resource=resources.REPLICA_SET, object=_replica_set(deployment, digest, first, owned))
        ]
        errors += writes.refusals(results)
        if isinstance(results[0], writes.Refused):
            return writes.Done(errors=tuple(errors))
        newest = results[0]
        yield [_scaled(deployment, newest, 0, first)]
    changes = _rollout(deployment, newest, others, replicas)
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


def _rollout(deployment: Object, newest: Object, others: Sequence[Object], desired: int) -> list[tuple[Object, int]]:
    """The ReplicaSets to scale now and their new sizes, within maxSurge and maxUnavailable."""
    changes: list[tuple[Object, int]] = []
    target = _newest_size(desired, deployment, others)
    if int(newest["spec"].get("replicas", 0)) != target:
        changes.append((newest, target))
    strategy = objects.nested(deployment, "spec", "strategy")
    if strategy.get("type") == "Recreate":
        return changes + [(replica_set, 0) for replica_set in others if replica_set["spec"].get("replicas")]
    ready = sum(_ready(replica_set) for replica_set in (newest, *others))
    spare = ready - (desired - _rolling_update_limit(strategy, "maxUnavailable", desired, round_up=False))
    for replica_set in others:
        replicas = int(replica_set["spec"].get("replicas", 0))
        unready = replicas - _ready(replica_set)
        cut = min(replicas, max(0, unready) + max(0, spare))
        if cut > 0:
            changes.append((replica_set, replicas - cut))
            spare -= max(0, cut - unready)
    return changes


def _newest_size(desired: int, deployment: Object, others: Sequence[Object]) -> int:
    """The size that the newest ReplicaSet may have while older ones still have pods."""
    existing = sum(
        int(objects.status(replica_set).get("replicas", replica_set["spec"].get("replicas", 0)))
        for replica_set in others
    )
    strategy = objects.nested(deployment, "spec", "strategy")
    if strategy.get("type") == "Recreate":
        terminating = sum(int(objects.status(replica_set).get("terminatingReplicas", 0)) for replica_set in others)
        return desired if existing + terminating == 0 else 0
    return max(
        0, min(desired, desired + _rolling_update_limit(strategy, "maxSurge", desired, round_up=True) - existing)
    )


def _ready(replica_set: Object) -> int:
    return int(objects.status(replica_set).get("availableReplicas", 0))


def _rolling_update_limit(strategy: Object, field: str, desired: int, *, round_up: bool) -> int:
    value = objects.nested(strategy, "rollingUpdate").get(field, "25%")
    if isinstance(value, int):
        return value
    hundredths = desired * int(value.rstrip("%"))
    return -(-hundredths // 100) if round_up else hundredths // 100


def _status(deployment: Object, newest: Object, replica_sets: Sequence[Object], now: datetime) -> Object:
    desired = int(deployment["spec"].get("replicas", 1))
    ready = sum(_ready(replica_set) for replica_set in replica_sets)
    counts = {
        "replicas": sum(int(objects.status(replica_set).get("replicas", 0)) for replica_set in replica_sets),
        "updatedReplicas": int(objects.status(newest).get("replicas", 0)),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": max(0, desired - ready),
    }
    strategy = objects.nested(deployment, "spec", "strategy")
    minimum = (
        desired
        if strategy.get("type") == "Recreate"
        else desired - _rolling_update_limit(strategy, "maxUnavailable", desired, round_up=False)
    )
    is_available = ready >= minimum
    is_done = counts["updatedReplicas"] == counts["replicas"] == ready == desired
    conditions = api_conditions.replaced(
        objects.nested_list(deployment, "status", "conditions"), _available(is_available=is_available), now
    )
    conditions = api_conditions.replaced(conditions, _progressing(newest, is_done=is_done), now)
    nonzero_counts: Object = {key: value for key, value in counts.items() if value}
    return nonzero_counts | {
        "observedGeneration": deployment["metadata"].get("generation", 1),
        "conditions": conditions,
    }


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
