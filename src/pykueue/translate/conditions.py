"""Reading the conditions of an object's status. Called by the other modules of `translate`; controllers write conditions."""

from pykueue.api.scheme import Object
from pykueue.translate import times


def find(obj: Object, kind: str) -> Object | None:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == kind), None)


def by_type(obj: Object) -> dict[str, Object]:
    """All conditions at once, for who asks for many."""
    return {condition["type"]: condition for condition in (obj.get("status") or {}).get("conditions") or ()}


def is_true(obj: Object, kind: str) -> bool:
    return holds(find(obj, kind))


def holds(condition: Object | None) -> bool:
    return condition is not None and condition["status"] == "True"


def transition_ns(condition: Object | None) -> int | None:
    stamp = condition and condition.get("lastTransitionTime")
    return times.to_ns(stamp) if stamp else None
