"""Kubernetes timestamps: RFC 3339 in UTC, whole seconds. Every part of the machine room reads and writes time here."""

from datetime import datetime

from pykueue.kube.clock import SECOND_NS, show_time


def text(moment: datetime) -> str:
    return show_time(int(moment.timestamp()) * SECOND_NS)


def parse(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp)


def parse_optional(stamp: str | None) -> datetime | None:
    return parse(stamp) if stamp else None
