"""Kubernetes timestamps to integer nanoseconds and back, always in UTC. Used wherever an object's time meets the engine."""

import functools
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@functools.lru_cache(maxsize=65536)
def to_ns(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND * 1000


def from_ns(at_ns: int) -> str:
    """With seconds as the finest unit, as conditions and other `metav1.Time` fields are stored."""
    return (_EPOCH + timedelta(seconds=at_ns // 10**9)).strftime("%Y-%m-%dT%H:%M:%SZ")
