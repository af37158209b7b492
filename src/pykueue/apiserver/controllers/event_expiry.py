"""Deletes events one hour after their last occurrence, as Kubernetes does."""

import asyncio
from datetime import timedelta
from typing import Any

from pykueue.api import times
from pykueue.api.errors import ApiError
from pykueue.apiserver.calls import DeleteCall, ResourceTarget, Verbs
from pykueue.apiserver.context import Context

LIFETIME = timedelta(hours=1)
SWEEP_SECONDS = 60.0


class EventExpiry:
    def __init__(self, verbs: Verbs, context: Context) -> None:
        self._verbs = verbs
        self._context = context

    async def run(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.sweep()

    async def sweep(self) -> None:
        kind = self._context.scheme.for_kind("v1", "Event")
        if kind is None:
            return
        oldest = times.to_text(self._context.clock() - LIFETIME)
        for stored in self._context.store.select("", "events"):
            if (stored.meta.creation_timestamp or "") < oldest and _last_seen(stored.decode()) < oldest:
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
