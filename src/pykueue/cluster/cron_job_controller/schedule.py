"""Cron schedules as CronJob reads them: five fields, `@daily` and others, `@every 1h30m`.

Called by `cluster.cron_job_controller.sync`. When both the day of month and the day of week are
restricted, a day that matches either of them is due, as in cron.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from pykueue.api import times

_MONTHS = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_DAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_DURATION = re.compile(r"(\d+)(h|m|s)")
_SECONDS = {"h": 3600, "m": 60, "s": 1}
_YEARS_AHEAD = 5
_MOST_DIGITS = 9
_SECOND = timedelta(seconds=1)


class ScheduleError(ValueError):
    """The text is not a valid schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    is_any_day: bool = False
    is_any_weekday: bool = False
    every: timedelta | None = None

    def next(self, after: datetime) -> datetime | None:
        """The first time after `after`, in its time zone; None if not within five years."""
        if self.every is not None:
            return (after + self.every).replace(microsecond=0)
        moment = after.replace(second=0, microsecond=0, fold=0) + timedelta(minutes=1)
        while moment.year <= after.year + _YEARS_AHEAD:
            if moment.month not in self.months or not self._is_day(moment):
                moment = moment.replace(hour=0, minute=0) + timedelta(days=1)
            elif moment.hour not in self.hours:
                moment = moment.replace(minute=0) + timedelta(hours=1)
            elif moment.minute not in self.minutes or _is_skipped(moment):
                moment += timedelta(minutes=1)
            else:
                return moment
        return None

    def latest(self, due: datetime, now: datetime) -> datetime:
        """The last time until `now`. `due` is an earlier one; those in between are not visited."""
        if self.every is not None:
            return due + (now - due) // self.every * self.every
        before, after = due, now
        while after - before > _SECOND:
            middle = before + (after - before) / 2
            following = self.next(middle)
            if following is not None and following <= now:
                before = following
            else:
                after = middle
        return before

    def _is_day(self, moment: datetime) -> bool:
        by_date = moment.day in self.days
        by_weekday = moment.isoweekday() % 7 in self.weekdays
        if self.is_any_day or self.is_any_weekday:
            return by_date and by_weekday
        return by_date or by_weekday


def _is_skipped(moment: datetime) -> bool:
    """Whether a change to daylight saving time skips this local time."""
    round_trip = datetime.fromtimestamp(moment.timestamp(), moment.tzinfo)
    return (round_trip.hour, round_trip.minute) != (moment.hour, moment.minute)


def parse(text: str) -> Schedule:
    text = text.strip()
    if text.startswith("@every "):
        return Schedule(every=_duration(text.removeprefix("@every ")))
    fields = _DESCRIPTORS.get(text, text).split()
    if len(fields) != 5:
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minutes, hours, days, months, weekdays = fields
    return Schedule(
        minutes=_field(minutes, 0, 59),
        hours=_field(hours, 0, 23),
        days=_field(days, 1, 31),
        months=_field(months, 1, 12, _MONTHS),
        weekdays=frozenset(day % 7 for day in _field(weekdays, 0, 7, _DAYS)),
        is_any_day=days[0] in "*?",
        is_any_weekday=weekdays[0] in "*?",
    )


def zone(name: str) -> tzinfo:
    """The time zone of a CronJob; UTC without a name."""
    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, ValueError, OSError):
        raise ScheduleError(f"unknown time zone {name}") from None


def _duration(text: str) -> timedelta:
    if not re.fullmatch(rf"(\d{{1,{_MOST_DIGITS}}}[hms])+", text):
        raise ScheduleError(f"failed to parse duration @every {text}")
    return times.span(max(1, sum(int(count) * _SECONDS[unit] for count, unit in _DURATION.findall(text))))


def _field(text: str, low: int, high: int, names: dict[str, int] | None = None) -> frozenset[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span in ("*", "?"):
            start, end = low, high
        else:
            start = _number(first, names)
            end = _number(last, names) if dash else high if step else start
        stride = _number(step, None) if step else 1
        if not (low <= start <= end <= high) or stride < 1:
            raise ScheduleError(f"cannot read {part!r} as a range within {low}-{high}")
        numbers.update(range(start, end + 1, stride))
    return frozenset(numbers)


def _number(text: str, names: dict[str, int] | None) -> int:
    if names and text.lower() in names:
        return names[text.lower()]
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise ScheduleError(f"failed to parse int from {text}")
    return int(text)
