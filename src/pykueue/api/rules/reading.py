"""Reads any JSON without trusting its types: a value of the wrong type reads as absent.

Defaulters run before the schema is checked, and `pykueue validate` runs all rules even on an
invalid object, so that a rule may meet any JSON; the schema reports wrong types. For well-formed
objects, such as those that are stored, use `api.objects`.
"""

from typing import Any

from pykueue.api import quantity
from pykueue.api.scheme import Object

_QUANTITY_TYPES = (str, int, float)


def mapping(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def mappings(value: Any) -> list[Object]:
    return [item if isinstance(item, dict) else {} for item in value] if isinstance(value, list) else []


def at(value: Any, *keys: str) -> Any:
    """The value below `keys`, or None."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def has_changed(obj: Object, old: Object | None, key: str) -> bool:
    """Whether the value below `key` is new or changed.

    Rules skip what was valid when it was stored.
    """
    return old is None or obj.get(key) != old.get(key)


def ensure_mapping(obj: Object, key: str) -> Object:
    """The object below `key`, created if absent.

    If a value of another type is there, the result is not part of `obj`.
    """
    return mapping(obj.setdefault(key, {}))


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def texts(value: Any) -> list[str]:
    return [item for item in sequence(value) if isinstance(item, str)]


def text_map(value: Any) -> dict[str, str]:
    if not value or not isinstance(value, dict):
        return {}
    return {key: item for key, item in value.items() if isinstance(key, str) and isinstance(item, str)}


def integer(value: Any, default: int = 0) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def amount(value: Any) -> quantity.Quantity | None:
    if not isinstance(value, _QUANTITY_TYPES) or isinstance(value, bool):
        return None
    try:
        return quantity.parse(value)
    except quantity.QuantityError:
        return None


def amounts(value: Any) -> dict[str, quantity.Quantity]:
    if not value or not isinstance(value, dict):
        return {}
    parsed = [(name, amount(item)) for name, item in value.items()]
    return {name: item for name, item in parsed if item is not None}


def labels(obj: Object) -> dict[str, str]:
    return text_map(at(obj, "metadata", "labels"))


def annotations(obj: Object) -> dict[str, str]:
    return text_map(at(obj, "metadata", "annotations"))


def label(obj: Object, key: str) -> str | None:
    """One label: cheaper than `labels`, which copies all of them."""
    return _text_in_metadata(obj, "labels", key)


def annotation(obj: Object, key: str) -> str | None:
    return _text_in_metadata(obj, "annotations", key)


def _text_in_metadata(obj: Object, field: str, key: str) -> str | None:
    metadata = obj.get("metadata")
    texts_by_key = metadata.get(field) if isinstance(metadata, dict) else None
    if not texts_by_key or not isinstance(texts_by_key, dict):
        return None
    value = texts_by_key.get(key)
    return value if isinstance(value, str) else None


def namespace(obj: Object) -> str:
    return text(at(obj, "metadata", "namespace"))


def is_condition_true(obj: Object, condition_type: str) -> bool:
    conditions = mappings(at(obj, "status", "conditions"))
    return any(c.get("type") == condition_type and c.get("status") == "True" for c in conditions)
