"""Kubernetes timestamps: RFC 3339 in UTC, whole seconds. Every part of the machine room reads and writes time here."""

from datetime import UTC, datetime


def text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp)


def parse_optional(stamp: str | None) -> datetime | None:
    return parse(stamp) if stamp else None
