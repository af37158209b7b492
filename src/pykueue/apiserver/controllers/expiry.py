"""Events are forgotten an hour after they were last seen."""

import asyncio
from datetime import timedelta
from typing import Any

from pykueue.api.errors import ApiError
from pykueue.apiserver import metadata
from pykueue.apiserver.calls import DeleteCall, Target, Verbs
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
        oldest = metadata.timestamp(self._context.clock() - LIFETIME)
        for stored in self._context.store.select("", "events"):
            if (stored.meta.creation_timestamp or "") < oldest and _last_seen(stored.decode()) < oldest:
                target = Target(kind=kind, namespace=stored.key.namespace, name=stored.key.name)
                try:
                    await self._verbs.delete(target, DeleteCall())
                except ApiError as error:
                    if error.code != 404:
                        raise


def _last_seen(event: dict[str, Any]) -> str:
    """To the second, so that times with and without fractions compare."""
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), event.get("eventTime"), series.get("lastObservedTime"))
    return max(str(time or "")[:19] for time in times)
