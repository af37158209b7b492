"""One sync of a ReplicaSet or ReplicationController: keeps `spec.replicas` pods, counts them."""

from collections.abc import Sequence
from datetime import datetime

from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.cluster import pod_control, pods, statuses
from pykueue.kube.controller import writes

_RESOURCES = {resource.kind: resource for resource in (resources.REPLICA_SET, resources.REPLICATION_CONTROLLER)}


def sync(replica_set: Object, owned: Sequence[Object], _now: datetime) -> writes.Sync:
    replicas = int(replica_set["spec"].get("replicas", 1))
    active = sorted(filter(pods.is_active, owned), key=pods.removal_order)
    terminating = sum(map(pods.is_terminating, owned))
    errors: list[Exception] = []
    if not objects.is_deleted(replica_set):
        count = len(pod_control.batch(range(replicas - len(active)), pod_control.waiting(active)))
        missing = [pods.from_template(replica_set["spec"]["template"], replica_set)] * count
        created = yield from pod_control.create(replica_set, missing)
        removed = yield from pod_control.delete(replica_set, active[: max(0, len(active) - replicas)])
        removed_uids = {objects.uid(pod) for pod in removed.pods}
        active = [pod for pod in [*active, *created.pods] if objects.uid(pod) not in removed_uids]
        terminating += len(removed.pods)
        errors = [*created.errors, *removed.errors]
    resource = _RESOURCES[replica_set["kind"]]
    refused = yield from statuses.write(resource, replica_set, _status(replica_set, active, terminating))
    return writes.Done(errors=(*errors, *refused))


def _status(replica_set: Object, active: Sequence[Object], terminating: int) -> Object:
    ready = sum(map(pods.is_ready, active))
    status = {
        "replicas": len(active),
        "fullyLabeledReplicas": len(active),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "terminatingReplicas": terminating if replica_set["kind"] == "ReplicaSet" else 0,
        "observedGeneration": replica_set["metadata"].get("generation", 1),
    }
    return {key: value for key, value in status.items() if value or key == "replicas"}
