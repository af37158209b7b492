"""Status conditions of any object, as `k8s.io/apimachinery/pkg/api/meta` treats them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pykueue.api import times
from pykueue.api.scheme import Object

Condition = dict[str, Any]

CONDITION_MESSAGE_BYTES = 32 * 1024
EVENT_MESSAGE_BYTES = 1024


def find(obj: Object, condition_type: str) -> Condition | None:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == condition_type:
            return condition  # type: ignore[no-any-return]
    return None


def by_type(obj: Object) -> dict[str, Condition]:
    return {condition["type"]: condition for condition in (obj.get("status") or {}).get("conditions") or ()}


def is_true(obj: Object, condition_type: str) -> bool:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == condition_type:
            return condition.get("status") == "True"  # type: ignore[no-any-return]
    return False


def true_types(obj: Object) -> set[str]:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return {condition["type"] for condition in conditions if condition.get("status") == "True"}


def has_status_true(condition: Condition | None) -> bool:
    return condition is not None and condition.get("status") == "True"


def is_false_because(obj: Object, condition_type: str, reason: str) -> bool:
    condition = find(obj, condition_type)
    return condition is not None and condition.get("status") == "False" and condition.get("reason") == reason


def transition_ns(condition: Condition | None) -> int | None:
    """When the status of the condition last changed; None if that is not known."""
    stamp = condition and condition.get("lastTransitionTime")
    return times.to_ns(stamp) if stamp else None


def since_ns(condition: Condition) -> int:
    return times.to_ns(condition["lastTransitionTime"])


def put(obj: Object, condition_type: str, *, status: bool, reason: str, message: str, now_ns: int) -> bool:
    """Set a condition in place; return whether anything changed.

    The transition time changes only with the status.
    """
    condition = {
        "type": condition_type,
        "status": "True" if status else "False",
        "reason": reason,
        "message": truncate(message, CONDITION_MESSAGE_BYTES),
    }
    generation = obj.get("metadata", {}).get("generation", 0)
    if generation:
        condition["observedGeneration"] = generation
    old = find(obj, condition_type)
    if old is None:
        conditions = obj.setdefault("status", {}).setdefault("conditions", [])
        conditions.append(condition | {"lastTransitionTime": times.from_ns(now_ns)})
        return True
    now = times.from_ns(now_ns)
    has_new_status = old.get("status") != condition["status"]
    condition["lastTransitionTime"] = now if has_new_status else old.get("lastTransitionTime", now)
    has_changed = old != condition
    old.clear()
    old.update(condition)
    return has_changed


def replaced(conditions: Sequence[Condition], condition: Condition, now: datetime) -> list[Condition]:
    """A copy of `conditions` in which `condition` replaces the one of its type, or is appended."""
    stamp = times.to_text(now)
    result: list[Condition] = []
    is_present = False
    for old in conditions:
        if old["type"] != condition["type"]:
            result.append(old)
            continue
        is_present = True
        since = old.get("lastTransitionTime", stamp) if old.get("status") == condition["status"] else stamp
        result.append({"lastTransitionTime": since} | condition)
    return result if is_present else [*result, {"lastTransitionTime": stamp} | condition]


def remove(obj: Object, condition_type: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or []
    others = [condition for condition in conditions if condition.get("type") != condition_type]
    if len(others) == len(conditions):
        return False
    obj["status"]["conditions"] = others
    return True


def truncate(message: str, limit_bytes: int) -> str:
    encoded = message.encode()
    if len(encoded) <= limit_bytes:
        return message
    suffix = " ..."
    return encoded[: limit_bytes - len(suffix)].decode(errors="ignore") + suffix
