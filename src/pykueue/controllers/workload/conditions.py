"""Status conditions of any object, as `k8s.io/apimachinery/pkg/api/meta` treats them. Used by every controller."""

from typing import Any

from pykueue.api.scheme import Object
from pykueue.kube.clock import parse_time, show_time

Condition = dict[str, Any]

CONDITION_MESSAGE_BYTES = 32 * 1024
EVENT_MESSAGE_BYTES = 1024


def find(obj: Object, condition_type: str) -> Condition | None:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == condition_type:
            found: Condition = condition
            return found
    return None


def is_true(obj: Object, condition_type: str) -> bool:
    condition = find(obj, condition_type)
    return condition is not None and condition.get("status") == "True"


def is_false_because(obj: Object, condition_type: str, reason: str) -> bool:
    condition = find(obj, condition_type)
    return condition is not None and condition.get("status") == "False" and condition.get("reason") == reason


def since_ns(condition: Condition) -> int:
    return parse_time(condition["lastTransitionTime"])


def put(obj: Object, condition_type: str, *, status: bool, reason: str, message: str, now_ns: int) -> bool:
    """Sets a condition; its transition time moves only when its status does. True if anything changed."""
    wanted = {
        "type": condition_type,
        "status": "True" if status else "False",
        "reason": reason,
        "message": truncate(message, CONDITION_MESSAGE_BYTES),
    }
    generation = obj.get("metadata", {}).get("generation", 0)
    if generation:
        wanted["observedGeneration"] = generation
    old = find(obj, condition_type)
    if old is None:
        conditions = obj.setdefault("status", {}).setdefault("conditions", [])
        conditions.append(wanted | {"lastTransitionTime": show_time(now_ns)})
        return True
    moved = old.get("status") != wanted["status"]
    wanted["lastTransitionTime"] = show_time(now_ns) if moved else old.get("lastTransitionTime", show_time(now_ns))
    changed = old != wanted
    old.clear()
    old.update(wanted)
    return changed


def remove(obj: Object, condition_type: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or []
    kept = [condition for condition in conditions if condition.get("type") != condition_type]
    if len(kept) == len(conditions):
        return False
    obj["status"]["conditions"] = kept
    return True


def truncate(message: str, limit_bytes: int) -> str:
    encoded = message.encode()
    if len(encoded) <= limit_bytes:
        return message
    suffix = " ..."
    return encoded[: limit_bytes - len(suffix)].decode(errors="ignore") + suffix
