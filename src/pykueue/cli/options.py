"""Options that several commands share."""

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from pykueue.app import process

Command = Callable[..., Any]

EXISTING_FILE = click.Path(path_type=Path, exists=True)


class QuantityOption(click.ParamType[str]):
    """An amount of a resource, as Kubernetes writes it."""

    name = "QUANTITY"

    def __init__(self, example: str, *, least_number: int = 0) -> None:
        """A number below `least_number` lacks its unit."""
        self._example = example
        self._least_number = least_number

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if text and not is_amount(text):
            self.fail(f"{text!r} is not an amount; write for example {self._example}", param, ctx)
        if text.isdecimal() and int(text) < self._least_number:
            self.fail(f"{text} needs a unit; write for example {self._example}", param, ctx)
        return text


class GpusOption(click.ParamType[dict[str, str]]):
    """A number of GPUs, or of parts of GPUs, as resources of a pod."""

    name = "GPUS"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        if isinstance(value, dict):
            return value
        match = _GPUS.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is no number of GPUs; write for example 2, shared, or mig-1g.5gb:2", param, ctx)
        kind, count = match[1], int(match[2] or match[3] or 1)
        resource = {None: "gpu", "shared": "gpu.shared"}.get(kind, kind)
        return {f"nvidia.com/{resource}": str(count)} if count else {}


_GPUS = re.compile(r"(?:(shared|mig-[0-9a-z.]{1,40})(?::([1-9]\d{0,3}))?|(\d{1,4}))", re.ASCII)


class DurationOption(click.ParamType[int]):
    """A duration such as 90s, 30m or 1h30m, in seconds or another unit.

    A number without a unit is seconds, or refused if `needs_unit`.
    """

    name = "DURATION"

    def __init__(self, *, units_per_second: int = 1, may_be_zero: bool = False, needs_unit: bool = False) -> None:
        self._units_per_second = units_per_second
        self._least = 0 if may_be_zero else 1
        self._needs_unit = needs_unit

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if self._needs_unit and str(value).isdecimal():
            self.fail(f"{value!r} has no unit; write {value}s, {value}m or {value}h", param, ctx)
        match = _DURATION.fullmatch(str(value))
        parts = [int(part or 0) for part in match.groups()] if match else []
        seconds = sum(part * unit for part, unit in zip(parts, _UNIT_SECONDS, strict=True)) if parts else 0
        if match is None or not str(value) or not self._least <= seconds <= _LONGEST_SECONDS:
            self.fail(f"{value!r} is not a duration; write for example 90s, 30m, 1h30m or 2d", param, ctx)
        return seconds * self._units_per_second


class SecondsOption(click.ParamType[float]):
    """A number of seconds, or a duration such as 30m."""

    name = "SECONDS"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        return float(text) if _SECONDS.fullmatch(text) else DurationOption().convert(text, param, ctx)


_SECONDS = re.compile(r"\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}")
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


def with_log_options(default: str) -> Callable[[Command], Command]:
    """Add `--log-level` and `--log-format`; the command receives them as `log`."""

    def decorate(command: Command) -> Command:
        @click.option(
            "--log-level",
            type=click.Choice(process.LOG_LEVELS),
            default=default,
            show_default=True,
            help="What to log; info has a line for each decision.",
        )
        @click.option(
            "--log-format",
            type=click.Choice(("text", "json")),
            default="text",
            show_default=True,
            help="How to log: lines of text, or a JSON object a line.",
        )
        @functools.wraps(command)
        def wrapped(*, log_level: str, log_format: str, **values: Any) -> Any:
            return command(log=process.LogOptions(log_level, log_format), **values)

        return wrapped

    return decorate


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


def with_fail_on(severities: Sequence[str], default: str) -> Callable[[Command], Command]:
    """Let a user choose the severity from which on findings end a command with 1.

    The command receives `failing`: the severities that do. `severities` has the worst first.
    """

    def decorate(command: Command) -> Command:
        @click.option(
            "--fail-on",
            type=click.Choice(severities),
            default=default,
            show_default=True,
            help="The exit code is 1 if there is a finding of this severity or a worse one.",
        )
        @functools.wraps(command)
        def wrapped(*, fail_on: str, **values: Any) -> Any:
            return command(failing=severities[: severities.index(fail_on) + 1], **values)

        return wrapped

    return decorate
