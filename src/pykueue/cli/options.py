"""Options that several commands share."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pykueue.app import process

Command = Callable[..., Any]

EXISTING_FILE = click.Path(path_type=Path, exists=True)


class QuantityOption(click.ParamType[str]):
    """An amount of a resource, as Kubernetes writes it."""

    name = "QUANTITY"

    def __init__(self, example: str) -> None:
        self._example = example

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if text and not is_amount(text):
            self.fail(f"{text!r} is not an amount; write for example {self._example}", param, ctx)
        return text


class DurationOption(click.ParamType[int]):
    """A duration such as 90s, 30m or 1h30m, in seconds or another unit. A number is seconds."""

    name = "DURATION"

    def __init__(self, units_per_second: int = 1) -> None:
        self._units_per_second = units_per_second

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _DURATION.fullmatch(str(value))
        parts = [int(part or 0) for part in match.groups()] if match else []
        seconds = sum(part * unit for part, unit in zip(parts, _UNIT_SECONDS, strict=True)) if parts else 0
        if not 0 < seconds <= _LONGEST_SECONDS:
            self.fail(f"{value!r} is not a duration; write for example 90s, 30m, 1h30m or 2d", param, ctx)
        return seconds * self._units_per_second


_DURATION = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s?)?")
_UNIT_SECONDS = (86400, 3600, 60, 1)
_LONGEST_SECONDS = 2**31 - 3600


def is_amount(text: str) -> bool:
    """Whether the text is a quantity that is not negative."""
    from pykueue.api import quantity

    try:
        return quantity.parse(text).nano >= 0
    except quantity.QuantityError:
        return False


def with_config(default: str) -> Callable[[Command], Command]:
    """Add `--config`, the Kueue Configuration."""
    text = f"A file with the Kueue Configuration, a ConfigMap with it, or Helm values. Default: {default}."
    return click.option("--config", type=EXISTING_FILE, help=text)


def with_log_level(default: str) -> Callable[[Command], Command]:
    levels = click.Choice(process.LOG_LEVELS)
    return click.option("--log-level", type=levels, default=default, show_default=True, help="What to log.")


def with_dry_run(command: Command) -> Command:
    """Add kubectl's `--dry-run` to a command that writes."""
    return click.option(
        "--dry-run",
        type=click.Choice(["none", "client", "server"]),
        default="none",
        show_default=True,
        help="Write nothing: only print (client), or let the API server check the write (server).",
    )(command)


def with_selectors(command: Command) -> Command:
    """Add kubectl's `--selector` and `--field-selector` to a command that lists objects."""
    label = click.option("--selector", "-l", default="", help="List only objects that match this label selector.")
    field = click.option("--field-selector", default="", help="List only objects that match this field selector.")
    return label(field(command))


def with_all_namespaces(command: Command) -> Command:
    return click.option("--all-namespaces", "-A", is_flag=True, help="List objects of all namespaces.")(command)
