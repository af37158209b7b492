"""The loops of macros. What a step costs is what the operators cost that cel-go expands it to."""

from collections.abc import Iterable
from typing import Any

from pykueue.api.cel import cost, lists, values
from pykueue.api.cel.attributes import COST, LIMIT, Frame, Run
from pykueue.api.cel.errors import CelError, CostLimitError

_ALL_STEP, _ALL_END = 3, 2
_EXISTS_STEP, _EXISTS_END = 4, 3
_COUNT = 2
_APPEND = 2
_INSERT_KEY, _INSERT_ENTRIES = 3, 2


def _values(items: Any, slots: tuple[int, ...]) -> Iterable[Any]:
    """What the variables are in each step: an item, or a pair of index or key and item."""
    if isinstance(items, list):
        return enumerate(items) if len(slots) == 2 else items
    if isinstance(items, dict):
        return values.items(items) if len(slots) == 2 else values.keys(items)
    raise CelError(f"got '{values.type_name(items)}', expected iterable type")


def _bind(frame: Frame, slots: tuple[int, ...], value: Any) -> None:
    if len(slots) == 2:
        frame[slots[0]], frame[slots[1]] = value
    else:
        frame[slots[0]] = value


def quantifier(over: Run, slots: tuple[int, ...], body: Run, *, decisive: bool) -> Run:
    """`all` is decided by a false, `exists` by a true, even if another item has an error."""
    step, end = (_EXISTS_STEP, _EXISTS_END) if decisive else (_ALL_STEP, _ALL_END)

    def run(frame: Frame) -> Any:
        items = over(frame)
        error: CelError | None = None
        for count, value in enumerate(_values(items, slots), 1):
            frame[COST] += step
            if frame[COST] > frame[LIMIT]:
                raise CostLimitError
            _bind(frame, slots, value)
            try:
                verdict = body(frame)
            except CelError as fault:
                error = error or fault
                frame[COST] += cost.ABSORBED_ERROR
                continue
            if verdict is decisive:
                frame[COST] += (end if count < len(items) else 0) + cost.IDENT
                return decisive
            if not isinstance(verdict, bool):
                error = error or CelError("no such overload")
        frame[COST] += cost.IDENT
        if error is not None:
            raise error
        return not decisive

    return run


def _holds(condition: Run, frame: Frame) -> bool:
    verdict = condition(frame)
    if not isinstance(verdict, bool):
        raise CelError("no such overload")
    return verdict


def exists_one(over: Run, slots: tuple[int, ...], body: Run) -> Run:
    def run(frame: Frame) -> bool:
        count = 0
        for value in _values(over(frame), slots):
            _bind(frame, slots, value)
            if _holds(body, frame):
                count += 1
                frame[COST] += _COUNT
            if frame[COST] > frame[LIMIT]:
                raise CostLimitError
        frame[COST] += _COUNT
        return count == 1

    return run


def transform_list(over: Run, slots: tuple[int, ...], condition: Run | None, body: Run, *, is_constant: bool) -> Run:
    """`map`, `filter` and `transformList`."""
    step = _APPEND if is_constant else _APPEND + cost.LIST

    def run(frame: Frame) -> list[Any]:
        result: list[Any] = []
        for value in _values(over(frame), slots):
            _bind(frame, slots, value)
            if condition is None or _holds(condition, frame):
                frame[COST] += step
                result.append(body(frame))
            if frame[COST] > frame[LIMIT]:
                raise CostLimitError
        frame[COST] += cost.IDENT
        return result

    return run


def transform_map(over: Run, slots: tuple[int, ...], condition: Run | None, body: Run) -> Run:
    def run(frame: Frame) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for value in _values(over(frame), slots):
            _bind(frame, slots, value)
            if condition is None or _holds(condition, frame):
                frame[COST] += _INSERT_KEY
                lists.map_insert(result, frame[slots[0]], body(frame))
            if frame[COST] > frame[LIMIT]:
                raise CostLimitError
        frame[COST] += cost.IDENT
        return result

    return run


def transform_map_entry(over: Run, slots: tuple[int, ...], condition: Run | None, body: Run) -> Run:
    def run(frame: Frame) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for value in _values(over(frame), slots):
            _bind(frame, slots, value)
            if condition is None or _holds(condition, frame):
                entries = body(frame)
                if not isinstance(entries, dict):
                    raise CelError("no such overload")
                frame[COST] += _INSERT_ENTRIES + len(entries) // 10
                for key, item in values.items(entries):
                    lists.map_insert(result, key, item)
            if frame[COST] > frame[LIMIT]:
                raise CostLimitError
        frame[COST] += cost.IDENT
        return result

    return run
