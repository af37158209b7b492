"""One job of a table or trace as a value, and the error of a file that cannot be read."""

import datetime as dt
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from pykueue.api import durations, quantity
from pykueue.api.times import SECOND_NS

GPU = "nvidia.com/gpu"
_MOST_TIME_NS = 2**62
_LONGEST_RUN_NS = 10 * 365 * 86400 * SECOND_NS
"""Sums of such times still fit into the columns of a simulation."""
_MOST_WHOLE = 2**31 - 1
_PLAIN_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?$")


class SourceError(Exception):
    """A file with jobs or queues is wrong; the message says where, and what to do."""

    def __init__(self, message: str, *, file: str, line: int = 0, column: str = "", remedy: str = "") -> None:
        self.message = message
        where = f"{file}:{line}" if line else file
        column = f"column {column}: " if column else ""
        super().__init__(f"{where}: {column}{message}" + (f"\n{remedy}" if remedy else ""))


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    submit_ns: int
    queue: str
    """A LocalQueue, its namespace or its ClusterQueue, or the queue of a trace."""
    requests: Mapping[str, str]
    """The requests of one pod."""
    run_ns: int | None
    pods: int = 1
    priority: int = 0
    name: str | None = None
    owner: str = ""
    limit_ns: int | None = None
    startup_ns: int = 0


@dataclass(slots=True)
class Place:
    """The place of a cell, for its error message."""

    file: str
    line: int = 0
    missing: set[str] = field(default_factory=set)

    def error(self, message: str, column: str, remedy: str = "") -> SourceError:
        return SourceError(message, file=self.file, line=self.line, column=column, remedy=remedy)

    def time_ns(self, text: str, column: str) -> int:
        """Seconds, or a date and time; without a zone it is UTC."""
        text = text.strip()
        if (seconds := _number(text)) is not None:
            return self._time_ns(seconds, text, column)
        try:
            if _PLAIN_TIME.match(text):
                moment = dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)
            else:
                moment = dt.datetime.fromisoformat(text)
                moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        except (ValueError, OverflowError):
            remedy = "Write seconds, or a time such as 2026-05-01T09:30:00Z."
            raise self.error(f"{text!r} is not a time", column, remedy) from None
        return self._time_ns(round(moment.timestamp()), text, column)

    def _time_ns(self, seconds: float, text: str, column: str) -> int:
        if abs(seconds) * SECOND_NS > _MOST_TIME_NS:
            raise self.error(f"{text!r} is too far away", column, "Write seconds, not milliseconds, or a date.")
        return round(seconds * SECOND_NS)

    def duration_ns(self, text: str, column: str) -> int:
        """Seconds, Slurm's [days-]hours:minutes:seconds, or Go's 1h30m."""
        text = text.strip()
        if (plain_seconds := _number(text)) is not None:
            return self._bounded(plain_seconds, text, column)
        match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)", text)
        if match is not None:
            days, hours, minutes, seconds = match.groups()
            whole = int(days or 0) * 86400 + int(hours or 0) * 3600 + int(minutes) * 60
            return self._bounded(whole + float(seconds), text, column)
        try:
            return self._bounded(durations.to_ns(text) / SECOND_NS, text, column)
        except ValueError:
            remedy = "Write seconds, 1h30m, or 1-06:00:00 as Slurm does."
            raise self.error(f"{text!r} is not a duration", column, remedy) from None

    def _bounded(self, seconds: float, text: str, column: str) -> int:
        if seconds < 0:
            raise self.error(f"{text!r} is negative", column, "Remove the row, or write 0 or more.")
        if seconds * SECOND_NS > _LONGEST_RUN_NS:
            raise self.error(f"{text!r} is more than ten years", column, "Write seconds, not milliseconds.")
        return round(seconds * SECOND_NS)

    def integer(self, text: str, column: str) -> int:
        try:
            number = int(float(text))
        except (ValueError, OverflowError):
            raise self.error(f"{text!r} is not a whole number", column, "Write digits, such as 8.") from None
        if abs(number) > _MOST_WHOLE:
            raise self.error(f"{text!r} is too large", column, f"Write at most {_MOST_WHOLE}.")
        return number

    def count(self, text: str, column: str) -> int:
        number = self.integer(text, column)
        if number < 1:
            raise self.error(f"{text!r} is less than 1", column, "Write 1 or more, or remove the row.")
        return number

    def quantity(self, text: str, column: str) -> str:
        try:
            amount = quantity.parse(text.strip())
        except ValueError:
            raise self.error(f"{text!r} is not a quantity", column, "Write 4, 500m or 16Gi.") from None
        if amount.nano < 0:
            raise self.error(f"{text!r} is negative", column, "Write 0 or more.")
        return str(amount)


def _number(text: str) -> float | None:
    """A number of seconds; None for other text, to which NaN belongs."""
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number
