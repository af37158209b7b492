"""Decides which terminating pods are deleted by force. Pure.

A pod must allow it by an annotation. Its grace period and one minute more must be over, and its
node must be unreachable.
"""

from pykueue.api import conditions, objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import SAFE_TO_FORCEFULLY_DELETE
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, to_ns
from pykueue.kube.controller.writes import Delete, Event, Plan, Update
from pykueue.translate import nodes

UNREACHABLE = "node.kubernetes.io/unreachable"
CONDITION_TYPE = "KueueFailureRecovery"
REASON = "KueueForcefullyDeleted"
GRACE_SECONDS = 60


def is_eligible(pod: Object) -> bool:
    return objects.annotations(pod).get(SAFE_TO_FORCEFULLY_DELETE) == "true" and objects.is_deleted(pod)


def is_unreachable(node: Object) -> bool:
    return any(taint["key"] == UNREACHABLE for taint in objects.spec(node).get("taints") or ())


def plan(pod: Object, node: Object | None, now_ns: int) -> Plan:
    if not is_eligible(pod):
        return Plan()
    remaining_ns = to_ns(pod["metadata"]["deletionTimestamp"]) + GRACE_SECONDS * SECOND_NS - now_ns
    if remaining_ns > 0:
        return Plan(requeue_after_ns=remaining_ns)
    if node is None or not is_unreachable(node):
        return Plan()
    seconds = int(pod["metadata"].get("deletionGracePeriodSeconds") or 0) + GRACE_SECONDS
    message = (
        f"Pod forcefully terminated after {_duration(seconds)} grace period due to unreachable node"
        f" `{objects.name(node)}` (triggered by `{SAFE_TO_FORCEFULLY_DELETE}` annotation)"
    )
    failed = {**pod, "status": copied(objects.status(pod))}
    if not nodes.is_terminated(pod):
        failed["status"]["phase"] = "Failed"
    conditions.put(failed, CONDITION_TYPE, status=True, reason=REASON, message=message, now_ns=now_ns)
    return Plan(
        actions=(
            Update(resource=resources.POD, old=pod, new=failed, status=True),
            Event(about=pod, type="Warning", reason=REASON, message=message),
            Delete(resource=resources.POD, object=pod, grace_period_seconds=0),
        )
    )


def _duration(seconds: int) -> str:
    """A duration in Go's notation, such as 1m30s."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s"
