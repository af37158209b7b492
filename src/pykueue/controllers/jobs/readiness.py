"""Pods of a running job, as its Workload tells of them: PodsReady and reclaimablePods."""

from pykueue.api import conditions
from pykueue.api.scheme import Object
from pykueue.controllers.workloads import predicates

NOT_READY = "Not all pods are ready or succeeded"
RECOVERING = "At least one pod has failed, waiting for recovery"
READY = "All pods reached readiness and the workload is running"


def set_pods_ready(workload: Object, *, is_ready: bool, now_ns: int) -> bool:
    """True if the condition's status or reason changed."""
    old = conditions.find(workload, "PodsReady")
    status, reason, message = _pods_ready(workload, old, is_ready=is_ready)
    if old is not None and (old["status"] == "True") == status and old["reason"] == reason:
        return False
    return conditions.put(workload, "PodsReady", status=status, reason=reason, message=message, now_ns=now_ns)


def _pods_ready(workload: Object, old: Object | None, *, is_ready: bool) -> tuple[bool, str, str]:
    if not predicates.is_admitted(workload):
        return False, "WaitForStart", NOT_READY
    if is_ready:
        recovered = old is not None and old["reason"] in ("WaitForRecovery", "Recovered")
        return True, "Recovered" if recovered else "Started", READY
    if old is not None and (old["status"] == "True" or old["reason"] == "WaitForRecovery"):
        return False, "WaitForRecovery", RECOVERING
    return False, "WaitForStart", NOT_READY


def set_reclaimable(workload: Object, reclaimable: list[Object]) -> bool:
    """Never more than a pod set has; True if changed."""
    sizes = {pod_set["name"]: int(pod_set.get("count", 1)) for pod_set in workload["spec"]["podSets"]}
    bounded = {item["name"]: min(int(item["count"]), sizes.get(item["name"], 0)) for item in reclaimable}
    status = workload.setdefault("status", {})
    present = {item["name"]: item["count"] for item in status.get("reclaimablePods") or ()}
    if bounded == present:
        return False
    status["reclaimablePods"] = [{"name": name, "count": count} for name, count in bounded.items()]
    return True
