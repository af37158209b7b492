"""Reading the conditions of an object's status. Called by the other modules of `translate`; controllers write conditions."""

from pykueue.api.scheme import Object
from pykueue.translate import times


def find(obj: Object, kind: str) -> Object | None:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == kind), None)


def is_true(obj: Object, kind: str) -> bool:
    condition = find(obj, kind)
    return condition is not None and condition["status"] == "True"


def transition_ns(condition: Object | None) -> int | None:
    stamp = condition and condition.get("lastTransitionTime")
    return times.to_ns(stamp) if stamp else None
