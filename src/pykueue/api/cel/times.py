"""Timestamps and durations: how they are read and printed, and their parts."""

import datetime as dt
import re
import zoneinfo
from collections.abc import Callable
from typing import Any

from pykueue.api import durations, text_cache
from pykueue.api.cel import cost
from pykueue.api.cel.errors import CelError
from pykueue.api.cel.functions import Functions
from pykueue.api.cel.values import LARGEST_INT, NS_PER_SECOND, SMALLEST_INT, Duration, Timestamp

_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\dT(?:[01]?\d|2[0-3]):[0-5]\d:[0-5]\d)(?:[.,](\d+))?(?:Z|([+-])((?:[01]\d|2[0-4])):([0-5]\d|60))",
    re.ASCII,
)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_OFFSET = re.compile(r"([+-]?\d+):([+-]?\d+)", re.ASCII)


@text_cache.cached(1024)
def timestamp(text: str) -> Timestamp:
    """Read a time of RFC 3339 as Go does: upper-case letters, any number of fractional digits."""
    match = _TIMESTAMP.fullmatch(text)
    moment = _moment(match[1]) if match is not None else None
    if match is None or moment is None:
        raise CelError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    seconds = round((moment - _EPOCH).total_seconds())
    if match[3]:
        offset = int(match[4]) * 3600 + int(match[5]) * 60
        seconds -= offset if match[3] == "+" else -offset
    return Timestamp(seconds * NS_PER_SECOND + int((match[2] or "0")[:9].ljust(9, "0")))


def _moment(text: str) -> dt.datetime | None:
    try:
        return dt.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=dt.UTC)
    except ValueError:
        return None


def timestamp_text(value: Timestamp) -> str:
    seconds, ns = divmod(value.ns, NS_PER_SECOND)
    moment = _EPOCH + dt.timedelta(seconds=seconds)
    fraction = f".{ns:09d}".rstrip("0") if ns else ""
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


@text_cache.cached(1024)
def duration(text: str) -> Duration:
    try:
        ns = durations.to_ns(text.removeprefix("+"))
    except ValueError:
        ns = LARGEST_INT + 1
    if not SMALLEST_INT <= ns <= LARGEST_INT or text.startswith("+-"):
        raise CelError("type conversion error from 'string' to 'google.protobuf.Duration'")
    return Duration(ns)


def duration_text(value: Duration) -> str:
    """Seconds, with a fraction if there is one."""
    seconds, ns = divmod(abs(value.ns), NS_PER_SECOND)
    fraction = f".{ns:09d}".rstrip("0") if ns else ""
    return f"{'-' if value.ns < 0 else ''}{seconds}{fraction}s"


@text_cache.cached(256)
def _zone(name: str) -> dt.tzinfo:
    """A time zone by its name or its offset: `Europe/Berlin`, `+02:00`."""
    if name in ("", "UTC"):
        return dt.UTC
    if ":" in name:
        match = _OFFSET.fullmatch(name)
        if match is None:
            raise CelError(f'strconv.Atoi: parsing "{name.partition(":")[0]}": invalid syntax')
        minutes = int(match[2])
        offset = int(match[1]) * 60 + (-minutes if name.startswith("-") else minutes)
        if abs(offset) >= 24 * 60:
            raise CelError(f"unknown time zone {name}")
        return dt.timezone(dt.timedelta(minutes=offset))
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None


def _local(value: Timestamp, zone: str) -> dt.datetime:
    seconds, ns = divmod(value.ns, NS_PER_SECOND)
    moment = _EPOCH + dt.timedelta(seconds=seconds, microseconds=ns // 1000)
    try:
        return moment.astimezone(_zone(zone))
    except OverflowError:
        raise CelError("timestamp overflow") from None


_PARTS: tuple[tuple[str, Callable[[dt.datetime], int]], ...] = (
    ("getFullYear", lambda moment: moment.year),
    ("getMonth", lambda moment: moment.month - 1),
    ("getDayOfYear", lambda moment: moment.timetuple().tm_yday - 1),
    ("getDayOfMonth", lambda moment: moment.day - 1),
    ("getDate", lambda moment: moment.day),
    ("getDayOfWeek", lambda moment: moment.isoweekday() % 7),
    ("getHours", lambda moment: moment.hour),
    ("getMinutes", lambda moment: moment.minute),
    ("getSeconds", lambda moment: moment.second),
    ("getMilliseconds", lambda moment: moment.microsecond // 1000),
)
_UNITS = (("getHours", 3600 * NS_PER_SECOND), ("getMinutes", 60 * NS_PER_SECOND), ("getSeconds", NS_PER_SECOND))


def _part_of(part: Callable[[dt.datetime], int]) -> Callable[..., int]:
    return lambda value, zone="UTC": part(_local(value, zone))


def _part_cost(*_: Any) -> int:
    return 1 + cost.PARSING


def _in_units(unit: int) -> Callable[[Duration], int]:
    return lambda value: value.ns // unit if value.ns >= 0 else -(-value.ns // unit)


def _milliseconds(value: Duration) -> int:
    return _in_units(10**6)(value)


def add_times(functions: Functions) -> None:
    for name, part in _PARTS:
        implementation: Callable[..., Any] = _part_of(part)
        functions.add(name, f"timestamp_{name}", "timestamp.() -> int", implementation, cost=_part_cost)
        functions.add(name, f"timestamp_{name}_with_tz", "timestamp.(string) -> int", implementation, cost=_part_cost)
    for name, unit in _UNITS:
        functions.add(name, f"duration_{name}", "duration.() -> int", _in_units(unit))
    functions.add("getMilliseconds", "duration_getMilliseconds", "duration.() -> int", _milliseconds)
