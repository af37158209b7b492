"""The status of a RayCluster: workers wanted and there, totals of resources, state, conditions."""

from collections.abc import Sequence
from datetime import datetime

from pykueue.api import conditions, objects, resource_lists, times
from pykueue.api.quantity import Quantity
from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.operators.ray import names

_UNBOUNDED = 2**31 - 1


def desired_workers(group: Object) -> int:
    """Pods of a worker group: replicas within their bounds, times hosts."""
    if group.get("suspend"):
        return 0
    least = int(group.get("minReplicas") or 0)
    most = int(group.get("maxReplicas") or _UNBOUNDED)
    return max(least, min(most, int(group.get("replicas") or 0))) * hosts(group)


def hosts(group: Object) -> int:
    return int(group.get("numOfHosts") or 1)


def status(cluster: Object, owned: Sequence[Object], now: datetime) -> Object:
    stored = cluster.get("status") or {}
    groups = cluster["spec"].get("workerGroupSpecs") or ()
    workers = [pod for pod in owned if objects.labels(pod).get("ray.io/node-type") == "worker"]
    head = next((pod for pod in owned if objects.labels(pod).get("ray.io/node-type") == "head"), None)
    running = [pod for pod in workers if pods.phase(pod) == "Running" and not objects.is_deleted(pod)]
    counts = {
        "desiredWorkerReplicas": sum(map(desired_workers, groups)),
        "availableWorkerReplicas": len(running),
        "readyWorkerReplicas": sum(map(pods.is_ready, running)),
        "minWorkerReplicas": sum(int(group.get("minReplicas") or 0) * hosts(group) for group in groups),
        "maxWorkerReplicas": sum(int(group.get("maxReplicas") or 0) * hosts(group) for group in groups),
    }
    state = _state(cluster, owned, head, counts)
    transitions = stored.get("stateTransitionTimes") or {}
    if state and state != stored.get("state"):
        transitions = transitions | {state: times.to_text(now)}
    shown: Object = {key: value for key, value in counts.items() if value}
    shown |= _totals(cluster)
    shown |= {
        "head": _head(cluster, head),
        "endpoints": {"client": "10001", "dashboard": "8265", "gcs-server": "6379", "metrics": "8080"},
        "observedGeneration": cluster["metadata"].get("generation", 1),
        "conditions": _conditions(cluster, owned, state, now),
        "stateTransitionTimes": transitions,
    }
    if state:
        shown["state"] = state
    is_news = shown != {key: value for key, value in stored.items() if key != "lastUpdateTime"}
    return shown | {"lastUpdateTime": times.to_text(now) if is_news else stored["lastUpdateTime"]}


def _state(cluster: Object, owned: Sequence[Object], head: Object | None, counts: dict[str, int]) -> str:
    if cluster["spec"].get("suspend"):
        return "suspended" if not owned else str((cluster.get("status") or {}).get("state", ""))
    if head is not None and pods.is_ready(head) and counts["readyWorkerReplicas"] >= counts["desiredWorkerReplicas"]:
        return "ready"
    stored = str((cluster.get("status") or {}).get("state", ""))
    return stored if stored == "ready" and head is not None else ""


def _totals(cluster: Object) -> dict[str, str]:
    """What the whole cluster asks for; a limit counts where there is no request."""
    summed: list[dict[str, Quantity]] = []
    spec = cluster["spec"]
    groups = [(spec["headGroupSpec"], 1)]
    groups += [
        (group, 0 if group.get("suspend") else int(group.get("replicas") or 0) * hosts(group))
        for group in spec.get("workerGroupSpecs") or ()
    ]
    for group, count in groups:
        for container in group["template"]["spec"].get("containers") or ():
            resources = container.get("resources") or {}
            wanted = resource_lists.parse(resource_lists.keep_first(resources.get("requests"), resources.get("limits")))
            summed += [wanted] * count
    total = resource_lists.total(summed)
    gpus = [value for name, value in total.items() if name.endswith("gpu")]
    return {
        "desiredCPU": str(total.get("cpu", Quantity(0))),
        "desiredMemory": str(total.get("memory", Quantity(0))),
        "desiredGPU": str(gpus[0] if gpus else Quantity(0)),
        "desiredTPU": str(total.get("google.com/tpu", Quantity(0))),
    }


def _head(cluster: Object, head: Object | None) -> Object:
    shown: Object = {"serviceName": names.head_service(objects.name(cluster))}
    if head is not None:
        shown["podName"] = objects.name(head)
        if address := head.get("status", {}).get("podIP"):
            shown |= {"podIP": address, "serviceIP": address}
    return shown


def _conditions(cluster: Object, owned: Sequence[Object], state: str, now: datetime) -> list[Object]:
    head = next((pod for pod in owned if objects.labels(pod).get("ray.io/node-type") == "head"), None)
    is_head_ready = head is not None and pods.is_ready(head)
    is_suspending = bool(cluster["spec"].get("suspend")) and bool(owned)
    stored = (cluster.get("status") or {}).get("conditions") or []
    was_provisioned = conditions.is_true(cluster, "RayClusterProvisioned")
    is_provisioned = state == "ready" or (was_provisioned and not cluster["spec"].get("suspend"))
    told = [
        _condition("HeadPodReady", is_head_ready, "HeadPodRunningAndReady", "HeadPodNotFound"),
        _condition(
            "RayClusterProvisioned", is_provisioned, "AllPodRunningAndReadyFirstTime", "RayClusterPodsProvisioning"
        ),
        _condition("RayClusterSuspended", state == "suspended", "RayClusterSuspended", "RayClusterSuspended"),
        _condition("RayClusterSuspending", is_suspending, "RayClusterSuspending", "RayClusterSuspending"),
    ]
    for condition in told:
        stored = conditions.replaced(stored, condition, now)
    return stored


def _condition(type_: str, is_true: bool, reason: str, otherwise: str) -> Object:  # noqa: FBT001 - it is the condition
    messages = {
        "AllPodRunningAndReadyFirstTime": "All Ray Pods are ready for the first time",
        "RayClusterPodsProvisioning": "RayCluster Pods are being provisioned for first time",
        "HeadPodNotFound": "Head Pod not found",
    }
    chosen = reason if is_true else otherwise
    return {
        "type": type_,
        "status": "True" if is_true else "False",
        "reason": chosen,
        "message": messages.get(chosen, ""),
    }
