"""Variables and the fields and indexes after them: `object.spec.containers[0].?image`.

The first entries of a frame are the cost so far and its limit; variables have the places after
them. A variable costs 1, and so does each field or index that is there.
"""

from collections.abc import Callable
from typing import Any, Final

from pykueue.api.cel import values
from pykueue.api.cel.errors import CelError
from pykueue.api.cel.values import ABSENT, NONE, Fields, Optional

Frame = list[Any]
Run = Callable[[Frame], Any]
COST, LIMIT, FIRST_SLOT = 0, 1, 2
MISSING: Final = values.TypeValue("missing")
"""Stands in a frame for a variable that has no value."""


class Qualifier:
    """A field or an index. `key` is its name or value, unless `run` computes it."""

    __slots__ = ("is_optional", "key", "run")

    def __init__(self, key: Any, run: Run | None = None, *, is_optional: bool = False) -> None:
        self.key = key
        self.run = run
        self.is_optional = is_optional


def lookup(value: Any, key: Any) -> Any:
    """The field or item, or ABSENT."""
    if isinstance(value, dict):
        return values.find(value, key)
    if isinstance(value, list):
        index = _index(key)
        return value[index] if 0 <= index < len(value) else ABSENT
    if isinstance(value, Fields):
        return value.find(key) if isinstance(key, str) else ABSENT
    return ABSENT


def _index(key: Any) -> int:
    if isinstance(key, bool) or not isinstance(key, int | float):
        raise CelError(f"unsupported index type '{values.type_name(key)}' in list")
    if isinstance(key, float) and not key.is_integer():
        raise CelError(f"unsupported index value {key} in list")
    return int(key)


def _missing(value: Any, key: Any) -> CelError:
    text = key if isinstance(key, str) else _key_text(key)
    return CelError(f"index out of bounds: {text}" if isinstance(value, list) else f"no such key: {text}")


def _key_text(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def missing_variable(name: str) -> CelError:
    return CelError(f"no such attribute(s): {name}")


def apply(frame: Frame, value: Any, qualifiers: tuple[Qualifier, ...]) -> Any:
    """The value after the qualifiers, as an optional if one of them is."""
    is_optional = isinstance(value, Optional)
    if is_optional:
        if value is NONE:
            return value
        value = value.value
    for qualifier in qualifiers:
        is_optional = is_optional or qualifier.is_optional
        key = qualifier.key if qualifier.run is None else qualifier.run(frame)
        item = lookup(value, key)
        if item is ABSENT and is_optional:
            return NONE
        frame[COST] += 1
        if item is ABSENT:
            raise _missing(value, key)
        value = item
    return Optional(value) if is_optional else value


def fields_of_variable(name: str, slot: int, qualifiers: tuple[Qualifier, ...], base_cost: int) -> Run:
    """Read fields of maps; this is what most expressions do most."""
    names = tuple(qualifier.key for qualifier in qualifiers)
    total = base_cost + len(names)

    def run(frame: Frame) -> Any:
        value = frame[slot]
        for field in names:
            if type(value) is not dict or (value := value.get(field, ABSENT)) is ABSENT:
                break
        else:
            frame[COST] += total
            return value
        frame[COST] += base_cost
        if frame[slot] is MISSING:
            raise missing_variable(name)
        return apply(frame, frame[slot], qualifiers)

    return run


def variable(name: str, slot: int, base_cost: int) -> Run:
    def run(frame: Frame) -> Any:
        frame[COST] += base_cost
        value = frame[slot]
        if value is MISSING:
            raise missing_variable(name)
        return value

    return run


def qualified(base: Run, qualifiers: tuple[Qualifier, ...], base_cost: int) -> Run:
    def run(frame: Frame) -> Any:
        value = base(frame)
        frame[COST] += base_cost
        return apply(frame, value, qualifiers)

    return run


def presence(base: Run, qualifiers: tuple[Qualifier, ...], field: str) -> Run:
    """`has(…)`: the last field may be missing, those before it may not."""

    def run(frame: Frame) -> bool:
        value = apply(frame, base(frame), qualifiers) if qualifiers else base(frame)
        if isinstance(value, Optional):
            if value is NONE:
                return False
            value = value.value
        frame[COST] += 1
        return lookup(value, field) is not ABSENT

    return run
