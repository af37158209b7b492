"""One job of a table or trace as a value, and the error of a file that cannot be read."""

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pykueue.api import durations, quantity
from pykueue.api.times import SECOND_NS

GPU = "nvidia.com/gpu"
_PLAIN_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?$")


class SourceError(Exception):
    """A file with jobs or queues is wrong; the message says where, and what to do."""

    def __init__(self, message: str, *, file: str, line: int = 0, column: str = "", remedy: str = "") -> None:
        self.message = message
        where = f"{file}:{line}" if line else file
        column = f"column {column}: " if column else ""
        super().__init__(f"{where}: {column}{message}" + (f"\n{remedy}" if remedy else ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
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
        try:
            return round(float(text) * SECOND_NS)
        except ValueError:
            pass
        try:
            if _PLAIN_TIME.match(text):
                moment = dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)
            else:
                moment = dt.datetime.fromisoformat(text)
                moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        except ValueError:
            remedy = "Write seconds, or a time such as 2026-05-01T09:30:00Z."
            raise self.error(f"{text!r} is not a time", column, remedy) from None
        return round(moment.timestamp()) * SECOND_NS

    def duration_ns(self, text: str, column: str) -> int:
        """Seconds, Slurm's [days-]hours:minutes:seconds, or Go's 1h30m."""
        text = text.strip()
        try:
            return self.not_negative(round(float(text) * SECOND_NS), text, column)
        except ValueError:
            pass
        match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)", text)
        if match is not None:
            days, hours, minutes, seconds = match.groups()
            whole = int(days or 0) * 86400 + int(hours or 0) * 3600 + int(minutes) * 60
            return round((whole + float(seconds)) * SECOND_NS)
        try:
            return self.not_negative(durations.to_ns(text), text, column)
        except ValueError:
            remedy = "Write seconds, 1h30m, or 1-06:00:00 as Slurm does."
            raise self.error(f"{text!r} is not a duration", column, remedy) from None

    def not_negative(self, amount: int, text: str, column: str) -> int:
        if amount < 0:
            raise self.error(f"{text!r} is negative", column, "Remove the row, or write 0 or more.")
        return amount

    def integer(self, text: str, column: str) -> int:
        try:
            return int(float(text))
        except (ValueError, OverflowError):
            raise self.error(f"{text!r} is not a whole number", column, "Write digits, such as 8.") from None

    def quantity(self, text: str, column: str) -> str:
        try:
            amount = quantity.parse(text.strip())
        except ValueError:
            raise self.error(f"{text!r} is not a quantity", column, "Write 4, 500m or 16Gi.") from None
        if amount.nano < 0:
            raise self.error(f"{text!r} is negative", column, "Write 0 or more.")
        return str(amount)
