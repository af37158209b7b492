"""Deletes events one hour after their last occurrence, as Kubernetes does.

A namespace keeps a limited number of events, the newest: a queue of short jobs records sixty a
second, which would come to hundreds of megabytes within the hour.
"""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from pykueue.api import times
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Kind
from pykueue.apiserver.calls import DeleteCall, ResourceTarget, Verbs
from pykueue.apiserver.context import Context
from pykueue.apiserver.store.rows import Stored

LIFETIME = timedelta(hours=1)
MOST_OF_A_NAMESPACE = 20_000
SWEEP_SECONDS = 60.0
_DELETED_TOGETHER = 32
"""They share a commit, and the event loop is free between two of them."""


class EventExpiry:
    def __init__(self, verbs: Verbs, context: Context) -> None:
        self._verbs = verbs
        self._context = context
        self._store = context.store

    async def run(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.sweep()

    async def sweep(self) -> None:
        kind = self._context.scheme.for_kind("v1", "Event")
        if kind is None:
            return
        due = list(self._expired())
        for namespace in self._store.select("", "namespaces"):
            due += self._surplus(namespace.key.name)
        for start in range(0, len(due), _DELETED_TOGETHER):
            batch = due[start : start + _DELETED_TOGETHER]
            await asyncio.gather(*(self._delete(kind, stored) for stored in batch))

    def _expired(self) -> Iterator[Stored]:
        oldest = times.to_text(self._context.clock() - LIFETIME)
        for stored in self._store.unsorted("", "events"):
            if (stored.meta.creation_timestamp or "") < oldest and _last_seen(stored.decode()) < oldest:
                yield stored

    def _surplus(self, namespace: str) -> list[Stored]:
        """The events of the namespace that were written first, beyond the limit."""
        surplus = self._store.count("", "events", namespace) - MOST_OF_A_NAMESPACE
        if surplus <= 0:
            return []
        events = self._store.select("", "events", namespace)
        return sorted(events, key=lambda stored: stored.revision)[:surplus]

    async def _delete(self, kind: Kind, stored: Stored) -> None:
        target = ResourceTarget(kind=kind, namespace=stored.key.namespace, name=stored.key.name)
        try:
            await self._verbs.delete(target, DeleteCall())
        except ApiError as error:
            if error.code != 404:
                raise


def _last_seen(event: dict[str, Any]) -> str:
    """The time to the second, so that times with and without fractions compare."""
    series = event.get("series") or {}
    moments = (event.get("lastTimestamp"), event.get("eventTime"), series.get("lastObservedTime"))
    return max(str(moment or "")[:19] for moment in moments)
