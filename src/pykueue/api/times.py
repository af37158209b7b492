"""Kubernetes timestamps: RFC 3339 in UTC with whole seconds, as `metav1.Time` writes them.

Inside pykueue a time is an integer number of nanoseconds since the epoch, or a `datetime`.
"""

import functools
from datetime import UTC, datetime, timedelta

SECOND_NS = 1_000_000_000

LONGEST_SECONDS = 100 * 365 * 24 * 3600
"""Longer spans of users count as this one: no time is then beyond what a `datetime` can be."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@functools.lru_cache(maxsize=65536)
def to_ns(text: str) -> int:
    """Nanoseconds since the epoch; a time without a zone is read as UTC."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND * 1000


def from_ns(at_ns: int) -> str:
    return _from_seconds(at_ns // SECOND_NS)


def micro_from_ns(at_ns: int) -> str:
    """With microseconds, as `metav1.MicroTime` is written: events and leases use it."""
    return f"{from_ns(at_ns)[:-1]}.{at_ns % SECOND_NS // 1000:06d}Z"


@functools.lru_cache(maxsize=1024)
def _from_seconds(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def span(seconds: float) -> timedelta:
    """A span of time that a user wrote, which may be any number."""
    return timedelta(seconds=max(-LONGEST_SECONDS, min(LONGEST_SECONDS, seconds)))


def parse(text: str) -> datetime:
    return datetime.fromisoformat(text)


def parse_optional(text: str | None) -> datetime | None:
    return parse(text) if text else None


def to_text(moment: datetime) -> str:
    return _from_seconds(int(moment.timestamp()))
