"""The option `--array 0-99%10` of `pykueue submit`: which tasks, and how many at a time."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import click

LARGEST = 100_000
"""How many tasks an Indexed Job can have."""
LARGEST_ITEMS_BYTES = 512 * 1024
"""The items of a list are in the environment of every task."""
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskArray:
    indexes: tuple[int, ...]
    parallelism: int

    @property
    def starts_at_zero(self) -> bool:
        """Whether the index of a task is the completion index of its pod."""
        return self.indexes == tuple(range(len(self.indexes)))

    @classmethod
    def of_completions(cls, completions: int | None, parallelism: int) -> Self:
        return cls(indexes=tuple(range(completions or parallelism)), parallelism=parallelism)

    @classmethod
    def parse(cls, text: str) -> Self:
        """For example 0-99, 1-10%2 (two at a time), 0-20:5 or 1,3,7; ValueError if it is none."""
        ranges, percent, limit = text.partition("%")
        indexes = [index for part in ranges.split(",") for index in _range(part.strip())]
        if len(set(indexes)) != len(indexes):
            raise ValueError("an index occurs twice")
        if len(indexes) > LARGEST:
            raise ValueError(f"it has {len(indexes)} tasks, the largest array {LARGEST}")
        if percent and not (limit.isdecimal() and int(limit) > 0):
            raise ValueError("after % stands how many tasks run at a time")
        return cls(indexes=tuple(sorted(indexes)), parallelism=min(int(limit or len(indexes)), len(indexes)))


def _range(text: str) -> range:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is neither an index nor a range")
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if last < first or not step:
        raise ValueError(f"{text!r} has no index")
    if (last - first) // step >= LARGEST:
        raise ValueError(f"the largest array has {LARGEST} tasks")
    return range(first, last + 1, step)


def read_items(path: Path) -> list[str]:
    """The items of a JSON list, each as JSON."""
    try:
        items = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{path}: {error}", param_hint="--from-json") from None
    if not isinstance(items, list) or not items:
        raise click.BadParameter(f"{path} is not a JSON list with items", param_hint="--from-json")
    texts = [json.dumps(item, separators=(",", ":"), ensure_ascii=False) for item in items]
    size = sum(len(text.encode()) for text in texts)
    if size > LARGEST_ITEMS_BYTES:
        raise click.BadParameter(
            f"{path} has {size} bytes, and {LARGEST_ITEMS_BYTES} fit into a Job; let the items name files",
            param_hint="--from-json",
        )
    return texts


class ArrayOption(click.ParamType[TaskArray]):
    name = "RANGE[%LIMIT]"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> TaskArray:
        if isinstance(value, TaskArray):
            return value
        try:
            return TaskArray.parse(str(value))
        except ValueError as error:
            self.fail(f"{value!r}: {error}; write for example 0-99, 1-10%2 or 1,3,7", param, ctx)
