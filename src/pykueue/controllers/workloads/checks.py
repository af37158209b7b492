"""Admission checks on a Workload: which apply, and what their states amount to."""

from collections.abc import Iterable

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, from_ns, to_ns
from pykueue.controllers.workloads import predicates


def required(workload: Object, cluster_queue: Object) -> set[str]:
    """Before a reservation: the checks that apply whatever
    the flavor; after it: those of the assigned flavors.
    """
    admission = objects.status(workload).get("admission")
    flavors = _assigned_flavors(admission) if admission else _all_flavors(cluster_queue)
    names = set()
    strategy = cluster_queue["spec"].get("admissionChecksStrategy") or {}
    for rule in strategy.get("admissionChecks") or ():
        on_flavors = set(rule.get("onFlavors") or _all_flavors(cluster_queue))
        applies = bool(flavors & on_flavors) if admission else flavors <= on_flavors
        if applies:
            names.add(rule["name"])
    return names


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
    """Missing checks are added as Pending, others dropped; sorted by name."""
    wanted = set(names)
    old = predicates.checks(workload)
    kept = [check for check in old if check["name"] in wanted]
    present = {check["name"] for check in kept}
    added = [
        {"name": name, "state": "Pending", "message": "", "lastTransitionTime": from_ns(now_ns)}
        for name in wanted - present
    ]
    if not added and len(kept) == len(old):
        return False
    status = workload.setdefault("status", {})
    if wanted:
        status["admissionChecks"] = sorted(kept + added, key=lambda check: str(check["name"]))
    else:
        status.pop("admissionChecks", None)
    return True


def summary(checks: list[Object], state: str) -> str:
    """`AdmissionCheck in Retry state: "name" (message)`."""
    parts = [
        f'"{check["name"]}" ({check["message"]})' if check.get("message") else f'"{check["name"]}"'
        for check in sorted(checks, key=lambda check: str(check["name"]))
    ]
    noun = "AdmissionCheck" if len(checks) == 1 else "AdmissionChecks"
    return f"{noun} in {state} state: {'; '.join(parts)}"


def retry_at_ns(workload: Object) -> int:
    """The latest moment that a check in Retry asks to wait for; 0 if none does."""
    return max(
        (
            to_ns(check["lastTransitionTime"]) + check["requeueAfterSeconds"] * SECOND_NS
            for check in predicates.checks_in(workload, "Retry")
            if check.get("requeueAfterSeconds") is not None and check.get("lastTransitionTime")
        ),
        default=0,
    )
