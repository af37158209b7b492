"""One sync of a RayCluster: a head, its workers, and a status that says how far it is."""

from collections.abc import Sequence
from datetime import datetime

from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.cluster import pods, statuses
from pykueue.cluster.operators.ray import cluster_status, names
from pykueue.cluster.operators.ray import pods as ray_pods
from pykueue.cluster.operators.ray.pods import HEAD_GROUP
from pykueue.kube.controller import writes


def sync(cluster: Object, owned: Sequence[Object], now: datetime) -> writes.Sync:
    if objects.is_deleted(cluster):
        return writes.Done()
    found = [child for child in owned if child["kind"] == "Pod"]
    if cluster["spec"].get("suspend"):
        changes = _removal(cluster, [pod for pod in found if not objects.is_deleted(pod)], "suspended")
    else:
        changes = [*_service(cluster, owned), *_head(cluster, found), *_workers(cluster, found)]
    errors: tuple[Exception, ...] = ()
    for write in changes:
        results = yield [write]
        errors += writes.refusals(results)
        if (
            isinstance(write, writes.Create)
            and write.resource == resources.POD
            and not isinstance(results[0], writes.Refused)
        ):
            yield [_created(cluster, results[0])]
            found = [*found, results[0]]
    errors += yield from statuses.write(resources.RAY_CLUSTER, cluster, cluster_status.status(cluster, found, now))
    return writes.Done(errors=errors)


def _service(cluster: Object, owned: Sequence[Object]) -> list[writes.Write]:
    if any(child["kind"] == "Service" for child in owned):
        return []
    labels = {"ray.io/cluster": names.label(objects.name(cluster)), "ray.io/node-type": "head"}
    ports = [
        {"name": "gcs-server", "port": 6379},
        {"name": "dashboard", "port": 8265},
        {"name": "client", "port": 10001},
    ]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.head_service(objects.name(cluster)),
            "namespace": objects.namespace(cluster),
            "labels": labels,
            "ownerReferences": [objects.controller_reference(cluster)],
        },
        "spec": {"clusterIP": "None", "selector": labels, "ports": ports},
    }
    return [writes.Create(resource=resources.SERVICE, object=service)]


def _head(cluster: Object, owned: Sequence[Object]) -> list[writes.Write]:
    heads = [
        pod for pod in owned if objects.labels(pod).get("ray.io/node-type") == "head" and not objects.is_deleted(pod)
    ]
    over = [pod for pod in heads if pods.is_finished(pod)]
    changes: list[writes.Write] = list(_removal(cluster, over, "finished"))
    if not heads:
        changes.append(writes.Create(resource=resources.POD, object=ray_pods.head(cluster)))
    return changes


def _workers(cluster: Object, owned: Sequence[Object]) -> list[writes.Write]:
    changes: list[writes.Write] = []
    for group in cluster["spec"].get("workerGroupSpecs") or ():
        mine = [
            pod
            for pod in owned
            if objects.labels(pod).get("ray.io/group") == names.label(group["groupName"])
            and objects.labels(pod).get("ray.io/group") != HEAD_GROUP
            and not objects.is_deleted(pod)
        ]
        chosen = set((group.get("scaleStrategy") or {}).get("workersToDelete") or ())
        leaving = [pod for pod in mine if pods.is_finished(pod) or objects.name(pod) in chosen]
        staying = sorted((pod for pod in mine if pod not in leaving), key=pods.removal_order)
        wanted = cluster_status.desired_workers(group)
        leaving += staying[: max(0, len(staying) - wanted)]
        changes += _removal(cluster, leaving, "not needed")
        missing = max(0, wanted - len(staying))
        changes += [
            writes.Create(resource=resources.POD, object=ray_pods.worker(cluster, group)) for _ in range(missing)
        ]
    return changes


def _removal(cluster: Object, some: Sequence[Object], why: str) -> list[writes.Write]:
    changes: list[writes.Write] = []
    for pod in some:
        message = f"Deleted {objects.labels(pod).get('ray.io/node-type', 'ray')} Pod {objects.namespace(pod)}/{objects.name(pod)}; {why}"
        changes += [
            writes.Delete(resource=resources.POD, object=pod),
            writes.Event(about=cluster, type="Normal", reason="DeletedPod", message=message),
        ]
    return changes


def _created(cluster: Object, pod: Object) -> writes.Event:
    role = objects.labels(pod)["ray.io/node-type"]
    return writes.Event(
        about=cluster,
        type="Normal",
        reason="CreatedHeadPod" if role == "head" else "CreatedWorkerPod",
        message=f"Created {role} Pod {objects.namespace(pod)}/{objects.name(pod)}",
    )
