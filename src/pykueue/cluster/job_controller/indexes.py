"""Sets of completion indexes and their compressed text, such as `1,3-5,7`.

The Job status has this text in completedIndexes and failedIndexes.
"""

from collections.abc import Iterable, Iterator

Indexes = frozenset[int]
NONE: Indexes = frozenset()


def parse(text: str, completions: int) -> Indexes:
    """The indexes below `completions`. An interval that is not valid is skipped."""
    parsed: set[int] = set()
    for interval in text.split(",") if text else ():
        first, _, last = interval.partition("-")
        if first.isdecimal() and (not last or last.isdecimal()):
            parsed.update(range(int(first), min(int(last or first) + 1, completions)))
    return frozenset(parsed)


def text(indexes: Iterable[int]) -> str:
    return ",".join(_interval_text(first, last) for first, last in _intervals(sorted(indexes)))


def _interval_text(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def _intervals(ordered: list[int]) -> Iterator[tuple[int, int]]:
    if not ordered:
        return
    first = last = ordered[0]
    for index in ordered[1:]:
        if index > last + 1:
            yield first, last
            first = index
        last = index
    yield first, last


def first_missing(used: Indexes, completions: int, count: int) -> list[int]:
    """The lowest `count` indexes below `completions` that are not in `used`."""
    missing: list[int] = []
    for index in range(completions):
        if len(missing) >= count:
            break
        if index not in used:
            missing.append(index)
    return missing
