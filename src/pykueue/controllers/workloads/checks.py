"""The admission checks of a Workload: which ones are required, and texts for their states."""

from collections.abc import Iterable

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, from_ns, to_ns
from pykueue.controllers.workloads import predicates


def required(workload: Object, cluster_queue: Object) -> set[str]:
    """The checks of the assigned flavors, or before a reservation those of all flavors."""
    admission = objects.status(workload).get("admission")
    flavors = _assigned_flavors(admission) if admission else _all_flavors(cluster_queue)
    required_names = set()
    for rule in objects.nested_list(cluster_queue, "spec", "admissionChecksStrategy", "admissionChecks"):
        on_flavors = set(rule.get("onFlavors") or _all_flavors(cluster_queue))
        applies = bool(flavors & on_flavors) if admission else flavors <= on_flavors
        if applies:
            required_names.add(rule["name"])
    return required_names


def _all_flavors(cluster_queue: Object) -> set[str]:
    return {
        flavor["name"] for group in cluster_queue["spec"].get("resourceGroups") or () for flavor in group["flavors"]
    }


def _assigned_flavors(admission: Object) -> set[str]:
    return {
        flavor
        for assignment in admission.get("podSetAssignments") or ()
        for flavor in (assignment.get("flavors") or {}).values()
    }


def sync(workload: Object, names: Iterable[str], now_ns: int) -> bool:
    """Adds missing checks as Pending and removes others; True if anything changed."""
    required_names = set(names)
    old = predicates.checks(workload)
    present = [check for check in old if check["name"] in required_names]
    present_names = {check["name"] for check in present}
    added = [
        {"name": name, "state": "Pending", "message": "", "lastTransitionTime": from_ns(now_ns)}
        for name in required_names - present_names
    ]
    if not added and len(present) == len(old):
        return False
    status = workload.setdefault("status", {})
    if required_names:
        status["admissionChecks"] = sorted(present + added, key=lambda check: str(check["name"]))
    else:
        status.pop("admissionChecks", None)
    return True


def summary(checks: list[Object], state: str) -> str:
    """A text such as `AdmissionCheck in Retry state: "name" (message)`."""
    parts = [
        f'"{check["name"]}" ({check["message"]})' if check.get("message") else f'"{check["name"]}"'
        for check in sorted(checks, key=lambda check: str(check["name"]))
    ]
    noun = "AdmissionCheck" if len(checks) == 1 else "AdmissionChecks"
    return f"{noun} in {state} state: {'; '.join(parts)}"


def retry_at_ns(workload: Object) -> int:
    """The latest time until which a check in state Retry asks to wait; 0 if none does."""
    return max(
        (
            to_ns(check["lastTransitionTime"]) + check["requeueAfterSeconds"] * SECOND_NS
            for check in predicates.checks_in(workload, "Retry")
            if check.get("requeueAfterSeconds") is not None and check.get("lastTransitionTime")
        ),
        default=0,
    )
