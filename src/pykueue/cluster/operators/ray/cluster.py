"""One sync of a RayCluster: the head pod, the worker pods, the head Service, and the status."""

from collections.abc import Sequence
from datetime import datetime

from pykueue.api import conditions, objects, resource_lists, resources, times
from pykueue.api.quantity import Quantity
from pykueue.api.scheme import Object
from pykueue.cluster import pod_control, pods, statuses
from pykueue.cluster.operators.ray import commands, names
from pykueue.cluster.operators.ray import pods as ray_pods
from pykueue.kube.controller import writes

_UNBOUNDED = 2**31 - 1
_HEAD_POD_READY = "HeadPodReady"


def sync(cluster: Object, owned: Sequence[Object], now: datetime) -> writes.Sync:
    if objects.is_deleted(cluster):
        return writes.Done()
    current = [child for child in owned if child["kind"] == "Pod"]
    if cluster["spec"].get("suspend"):
        changes = _removal(cluster, [pod for pod in current if not objects.is_deleted(pod)], "suspended")
    else:
        changes = [*_service(cluster, owned), *_head(cluster, current), *_workers(cluster, current)]
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
            current = [*current, results[0]]
    new_status = _status(cluster, current, now)
    if event := _missing_ray(cluster, new_status):
        yield [event]
    errors += yield from statuses.write(resources.RAY_CLUSTER, cluster, new_status)
    return writes.Done(errors=errors)


def _missing_ray(cluster: Object, new_status: Object) -> writes.Event | None:
    """An event if the head has just failed for want of Ray."""
    before = conditions.find(cluster, _HEAD_POD_READY)
    after = conditions.find({"status": new_status}, _HEAD_POD_READY)
    if after is None or after["message"] != commands.NO_RAY or (before and before["message"] == commands.NO_RAY):
        return None
    return writes.Event(about=cluster, type="Warning", reason=after["reason"], message=commands.NO_RAY)


def _service(cluster: Object, owned: Sequence[Object]) -> list[writes.Action]:
    if any(child["kind"] == "Service" for child in owned):
        return []
    labels = {names.CLUSTER: names.label(objects.name(cluster)), names.NODE_TYPE: "head"}
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


def _head(cluster: Object, owned: Sequence[Object]) -> list[writes.Action]:
    heads = [pod for pod in owned if objects.labels(pod).get(names.NODE_TYPE) == "head" and not objects.is_deleted(pod)]
    finished = [pod for pod in heads if pods.is_finished(pod)]
    changes: list[writes.Action] = list(_removal(cluster, finished, "finished"))
    if not heads:
        changes.append(writes.Create(resource=resources.POD, object=ray_pods.head(cluster)))
    return changes


def _workers(cluster: Object, owned: Sequence[Object]) -> list[writes.Action]:
    changes: list[writes.Action] = []
    for group in cluster["spec"].get("workerGroupSpecs") or ():
        group_pods = [
            pod
            for pod in owned
            if objects.labels(pod).get(names.GROUP) == names.label(group["groupName"])
            and objects.labels(pod).get(names.GROUP) != names.HEAD_GROUP
            and not objects.is_deleted(pod)
        ]
        to_delete = set(objects.nested_list(group, "scaleStrategy", "workersToDelete"))
        unwanted = [pod for pod in group_pods if pods.is_finished(pod) or objects.name(pod) in to_delete]
        remaining = sorted((pod for pod in group_pods if pod not in unwanted), key=pods.removal_order)
        desired = _desired_workers(group)
        unwanted += remaining[: max(0, len(remaining) - desired)]
        changes += _removal(cluster, unwanted, "not needed")
        missing = range(desired - len(remaining))
        changes += [
            writes.Create(resource=resources.POD, object=ray_pods.worker(cluster, group))
            for _ in pod_control.batch(missing, pod_control.waiting(owned) + len(changes))[: pod_control.MOST_AT_ONCE]
        ]
    return changes


def _removal(cluster: Object, unwanted: Sequence[Object], reason: str) -> list[writes.Action]:
    changes: list[writes.Action] = []
    for pod in unwanted:
        message = f"Deleted {objects.labels(pod).get(names.NODE_TYPE, 'ray')} Pod {objects.namespace(pod)}/{objects.name(pod)}; {reason}"
        changes += [
            writes.Delete(resource=resources.POD, object=pod),
            writes.Event(about=cluster, type="Normal", reason="DeletedPod", message=message),
        ]
    return changes


def _created(cluster: Object, pod: Object) -> writes.Event:
    role = objects.labels(pod)[names.NODE_TYPE]
    return writes.Event(
        about=cluster,
        type="Normal",
        reason="CreatedHeadPod" if role == "head" else "CreatedWorkerPod",
        message=f"Created {role} Pod {objects.namespace(pod)}/{objects.name(pod)}",
    )


def _desired_workers(group: Object) -> int:
    """The pods of a worker group: replicas within minReplicas and maxReplicas, times hosts."""
    if group.get("suspend"):
        return 0
    minimum = int(group.get("minReplicas") or 0)
    maximum = int(group.get("maxReplicas") or _UNBOUNDED)
    return max(minimum, min(maximum, int(group.get("replicas") or 0))) * _hosts(group)


def _hosts(group: Object) -> int:
    return int(group.get("numOfHosts") or 1)


def _status(cluster: Object, owned: Sequence[Object], now: datetime) -> Object:
    stored = objects.status(cluster)
    groups = cluster["spec"].get("workerGroupSpecs") or ()
    workers = [pod for pod in owned if objects.labels(pod).get(names.NODE_TYPE) == "worker"]
    head = _head_pod(owned)
    running = [pod for pod in workers if pods.phase(pod) == "Running" and not objects.is_deleted(pod)]
    counts = {
        "desiredWorkerReplicas": sum(map(_desired_workers, groups)),
        "availableWorkerReplicas": len(running),
        "readyWorkerReplicas": sum(map(pods.is_ready, running)),
        "minWorkerReplicas": sum(int(group.get("minReplicas") or 0) * _hosts(group) for group in groups),
        "maxWorkerReplicas": sum(int(group.get("maxReplicas") or 0) * _hosts(group) for group in groups),
    }
    state = _state(cluster, owned, head, counts)
    transitions = stored.get("stateTransitionTimes") or {}
    if state and state != stored.get("state"):
        transitions = transitions | {state: times.to_text(now)}
    status: Object = {key: value for key, value in counts.items() if value}
    status |= _totals(cluster)
    status |= {
        "head": _head_status(cluster, head),
        "endpoints": {"client": "10001", "dashboard": "8265", "gcs-server": "6379", "metrics": "8080"},
        "observedGeneration": cluster["metadata"].get("generation", 1),
        "conditions": _conditions(cluster, owned, state, now),
        "stateTransitionTimes": transitions,
    }
    if state:
        status["state"] = state
    has_changed = status != {key: value for key, value in stored.items() if key != "lastUpdateTime"}
    return status | {"lastUpdateTime": times.to_text(now) if has_changed else stored["lastUpdateTime"]}


def _head_pod(owned: Sequence[Object]) -> Object | None:
    return next((pod for pod in owned if objects.labels(pod).get(names.NODE_TYPE) == "head"), None)


def _state(cluster: Object, owned: Sequence[Object], head: Object | None, counts: dict[str, int]) -> str:
    if cluster["spec"].get("suspend"):
        return "suspended" if not owned else str(objects.status(cluster).get("state", ""))
    if head is not None and pods.is_ready(head) and counts["readyWorkerReplicas"] >= counts["desiredWorkerReplicas"]:
        return "ready"
    stored = str(objects.status(cluster).get("state", ""))
    return stored if stored == "ready" and head is not None and not _has_crashed(head) else ""


def _exit_codes(pod: Object) -> list[int]:
    """Exit codes of the containers that have ended or wait for a restart."""
    states = [
        objects.nested(status, "state", "terminated") or objects.nested(status, "lastState", "terminated")
        for status in pods.container_statuses(pod)
        if "running" not in objects.nested(status, "state")
    ]
    return [int(state.get("exitCode", 0)) for state in states if state]


def _has_crashed(pod: Object) -> bool:
    return not pods.is_ready(pod) and any(_exit_codes(pod))


def _totals(cluster: Object) -> dict[str, str]:
    """The requests of the whole cluster. A limit counts where there is no request."""
    request_lists: list[dict[str, Quantity]] = []
    spec = cluster["spec"]
    groups = [(objects.nested(spec, "headGroupSpec"), 1)]
    groups += [
        (group, 0 if group.get("suspend") else int(group.get("replicas") or 0) * _hosts(group))
        for group in spec.get("workerGroupSpecs") or ()
    ]
    for group, count in groups:
        for container in objects.nested_list(group, "template", "spec", "containers"):
            container_resources = objects.nested(container, "resources")
            requests = resource_lists.parse(
                resource_lists.keep_first(container_resources.get("requests"), container_resources.get("limits"))
            )
            request_lists.append(
                {name: Quantity(amount.nano * count, amount.format) for name, amount in requests.items()}
            )
    total = resource_lists.total(request_lists)
    gpus = [value for name, value in total.items() if name.endswith("gpu")]
    return {
        "desiredCPU": str(total.get("cpu", Quantity(0))),
        "desiredMemory": str(total.get("memory", Quantity(0))),
        "desiredGPU": str(gpus[0] if gpus else Quantity(0)),
        "desiredTPU": str(total.get("google.com/tpu", Quantity(0))),
    }


def _head_status(cluster: Object, head: Object | None) -> Object:
    status: Object = {"serviceName": names.head_service(objects.name(cluster))}
    if head is not None:
        status["podName"] = objects.name(head)
        if address := objects.status(head).get("podIP"):
            status |= {"podIP": address, "serviceIP": address}
    return status


def _conditions(cluster: Object, owned: Sequence[Object], state: str, now: datetime) -> list[Object]:
    head = _head_pod(owned)
    is_head_ready = head is not None and pods.is_ready(head)
    is_suspending = bool(cluster["spec"].get("suspend")) and bool(owned)
    stored = objects.nested_list(cluster, "status", "conditions")
    was_provisioned = conditions.is_true(cluster, "RayClusterProvisioned")
    is_provisioned = state == "ready" or (was_provisioned and not cluster["spec"].get("suspend"))
    updates = [
        _condition(_HEAD_POD_READY, "HeadPodRunningAndReady", _unready_reason(head), is_true=is_head_ready),
        _condition(
            "RayClusterProvisioned",
            "AllPodRunningAndReadyFirstTime",
            "RayClusterPodsProvisioning",
            is_true=is_provisioned,
        ),
        _condition("RayClusterSuspended", "RayClusterSuspended", "RayClusterSuspended", is_true=state == "suspended"),
        _condition("RayClusterSuspending", "RayClusterSuspending", "RayClusterSuspending", is_true=is_suspending),
    ]
    for condition in updates:
        stored = conditions.replaced(stored, condition, now)
    return stored


def _unready_reason(head: Object | None) -> str:
    if head is None:
        return "HeadPodNotFound"
    return "RayNotFound" if commands.NOT_FOUND_EXIT_CODE in _exit_codes(head) else "ContainersNotReady"


def _condition(type_: str, reason_if_true: str, reason_if_false: str, *, is_true: bool) -> Object:
    messages = {
        "AllPodRunningAndReadyFirstTime": "All Ray Pods are ready for the first time",
        "RayClusterPodsProvisioning": "RayCluster Pods are being provisioned for first time",
        "HeadPodNotFound": "Head Pod not found",
        "ContainersNotReady": "Head Pod is not ready",
        "RayNotFound": commands.NO_RAY,
    }
    reason = reason_if_true if is_true else reason_if_false
    return {
        "type": type_,
        "status": "True" if is_true else "False",
        "reason": reason,
        "message": messages.get(reason, ""),
    }
