"""CEL rules on a whole Workload: what may no longer change once quota is reserved."""

from typing import Any

from pykueue.api.cel.rules import Rule
from pykueue.api.scheme import Object

_RESERVED = (
    "(has({0}.status) && has({0}.status.conditions) && "
    "{0}.status.conditions.exists(c, c.type == '{1}' && c.status == 'True'))"
)
OLD_RESERVED = _RESERVED.format("oldSelf", "QuotaReserved")
_BOTH_HAVE_REF = "has(oldSelf.spec.priorityClassRef) && has(self.spec.priorityClassRef)"


def holds(workload: Object, condition_type: str) -> bool:
    conditions = workload.get("status", {}).get("conditions", ())
    return any(item["type"] == condition_type and item["status"] == "True" for item in conditions)


def spec_of(workload: Object) -> dict[str, Any]:
    spec: dict[str, Any] = workload["spec"]
    return spec


def every_pod_set_is_assigned(workload: Object, _: object) -> bool:
    admission = workload.get("status", {}).get("admission")
    if admission is None or not holds(workload, "QuotaReserved"):
        return True
    return len(spec_of(workload)["podSets"]) == len(admission["podSetAssignments"])


def _keeps_reference(new: Object, old: Object) -> bool:
    if not holds(old, "QuotaReserved"):
        return True
    return ("priorityClassRef" in spec_of(old)) == ("priorityClassRef" in spec_of(new))


def _keeps_part(part: str) -> Any:
    def keeps(new: Object, old: Object) -> bool:
        references = _references(new, old)
        return references is None or references[0][part] == references[1][part]

    return keeps


def _keeps_priority_class(new: Object, old: Object) -> bool:
    references = _references(new, old)
    if references is None:
        return True
    after, before = references
    if (after["group"], after["kind"]) != ("scheduling.k8s.io", "PriorityClass"):
        return True
    return bool(after["name"] == before["name"])


def _references(new: Object, old: Object) -> tuple[dict[str, str], dict[str, str]] | None:
    """Both priority class references, if quota was reserved and both are set."""
    if not holds(old, "QuotaReserved"):
        return None
    after, before = spec_of(new).get("priorityClassRef"), spec_of(old).get("priorityClassRef")
    return None if after is None or before is None else (after, before)


def keeps_queue(new: Object, old: Object) -> bool:
    if not (holds(old, "QuotaReserved") and holds(new, "QuotaReserved")):
        return True
    return bool(spec_of(new).get("queueName") == spec_of(old).get("queueName"))


def keeps_execution_time(new: Object, old: Object) -> bool:
    if not (holds(old, "Admitted") and holds(new, "Admitted")):
        return True
    field = "maximumExecutionTimeSeconds"
    return bool(spec_of(new).get(field, 0) == spec_of(old).get(field, 0))


PODSETS_ASSIGNED = Rule(
    cel=(
        _RESERVED.format("self", "QuotaReserved") + " && has(self.status.admission) ? "
        "size(self.spec.podSets) == size(self.status.admission.podSetAssignments) : true"
    ),
    message="podSetAssignments must have the same number of podSets as the spec",
    check=every_pod_set_is_assigned,
)
QUEUE_IMMUTABLE = Rule(
    cel=(
        f"({OLD_RESERVED} && {_RESERVED.format('self', 'QuotaReserved')}) ? "
        "((has(oldSelf.spec.queueName) == has(self.spec.queueName)) && "
        "(!has(oldSelf.spec.queueName) || oldSelf.spec.queueName == self.spec.queueName)) : true"
    ),
    message="queueName is immutable while workload quota reserved",
    check=keeps_queue,
)
EXECUTION_TIME_IMMUTABLE = Rule(
    cel=(
        f"({_RESERVED.format('oldSelf', 'Admitted')} && {_RESERVED.format('self', 'Admitted')}) ? "
        "((has(oldSelf.spec.maximumExecutionTimeSeconds) ? oldSelf.spec.maximumExecutionTimeSeconds : 0) == "
        "(has(self.spec.maximumExecutionTimeSeconds) ? self.spec.maximumExecutionTimeSeconds : 0)) : true"
    ),
    message="maximumExecutionTimeSeconds is immutable while workload quota reserved",
    check=keeps_execution_time,
)
RULES = (
    PODSETS_ASSIGNED,
    Rule(
        cel=f"{OLD_RESERVED} ? has(oldSelf.spec.priorityClassRef) == has(self.spec.priorityClassRef) : true",
        message="priorityClassRef is immutable while workload quota reserved",
        check=_keeps_reference,
    ),
    Rule(
        cel=(
            f"({OLD_RESERVED} && {_BOTH_HAVE_REF}) ? "
            "oldSelf.spec.priorityClassRef.group == self.spec.priorityClassRef.group : true"
        ),
        message="priorityClassRef.group is immutable while workload quota reserved",
        check=_keeps_part("group"),
    ),
    Rule(
        cel=(
            f"({OLD_RESERVED} && {_BOTH_HAVE_REF}) ? "
            "oldSelf.spec.priorityClassRef.kind == self.spec.priorityClassRef.kind : true"
        ),
        message="priorityClassRef.kind is immutable while workload quota reserved",
        check=_keeps_part("kind"),
    ),
    Rule(
        cel=(
            f"({OLD_RESERVED} && {_BOTH_HAVE_REF} && self.spec.priorityClassRef.group == 'scheduling.k8s.io' && "
            "self.spec.priorityClassRef.kind == 'PriorityClass') ? "
            "oldSelf.spec.priorityClassRef.name == self.spec.priorityClassRef.name : true"
        ),
        message=(
            "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved"
        ),
        check=_keeps_priority_class,
    ),
    QUEUE_IMMUTABLE,
    EXECUTION_TIME_IMMUTABLE,
)
