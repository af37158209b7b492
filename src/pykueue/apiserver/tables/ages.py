"""Ages and durations as kubectl prints them: `45s`, `3m20s`, `5h`, `2d3h`, `<unknown>`."""

import datetime as dt

UNKNOWN = "<unknown>"
INVALID = "<invalid>"

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY

_TWO_UNITS = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)
"""Upper limit in seconds, unit, its sign, and the smaller unit that is added (0: none)."""


def parse(timestamp: object) -> float | None:
    """Seconds since the epoch of an RFC 3339 time; None if it is no time."""
    if not isinstance(timestamp, str):
        return None
    try:
        moment = dt.datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return moment.replace(tzinfo=moment.tzinfo or dt.UTC).timestamp()


def duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < -1:
        return INVALID
    whole = max(whole, 0)
    for below, unit, sign, smaller, smaller_sign in _TWO_UNITS:
        if whole < below:
            rest = whole % unit // smaller if smaller else 0
            return f"{whole // unit}{sign}{rest}{smaller_sign}" if rest else f"{whole // unit}{sign}"
    return f"{whole // _YEAR}y"


def age(timestamp: object, now: float) -> str:
    """The AGE column of kubectl."""
    if timestamp in (None, ""):
        return UNKNOWN
    since = parse(timestamp)
    return INVALID if since is None else duration(now - since)
