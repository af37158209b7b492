"""Events about objects, recorded without waiting: repeats become a series instead of new objects.

Controllers and the machine room call `record`; `run` writes. An event that cannot be written is dropped after a few tries,
for events are news and not state.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from dataclasses import dataclass

from pykueue.api import entropy, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, from_ns
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock

log = logging.getLogger(__name__)

SERIES_NS = 6 * 60 * SECOND_NS
"""A repeat within this time extends the series."""
MOST_REMEMBERED = 4096
MOST_WAITING = 50_000
WRITERS = 8


@dataclass(slots=True)
class _Series:
    name: str
    namespace: str
    count: int
    last_ns: int
    created: bool = False


class EventRecorder:
    def __init__(self, client: Client, clock: Clock, *, controller: str, instance: str) -> None:
        self._client = client
        self._clock = clock
        self._controller = controller
        self._instance = instance
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()
        self._waiting: deque[tuple[_Series, Object]] = deque()
        self._arrived = asyncio.Semaphore(0)

    def record(self, about: Object, *, reason: str, message: str, warning: bool = False, controller: str = "") -> None:
        metadata = about["metadata"]
        now_ns = self._clock.now_ns()
        identity = (about.get("kind", ""), str(metadata.get("uid", "")), reason, message)
        series = self._series.get(identity)
        if series is not None and now_ns - series.last_ns < SERIES_NS:
            series.count += 1
            series.last_ns = now_ns
            observed = {"count": series.count, "lastObservedTime": _micro_time(now_ns)}
            self._put(series, {"series": observed})
            return
        namespace = metadata.get("namespace") or "default"
        series = _Series(f"{metadata['name']}.{entropy.hex_token(16)}", namespace, 1, now_ns)
        self._series[identity] = series
        if len(self._series) > MOST_REMEMBERED:
            self._series.popitem(last=False)
        event = self._event(series, about, reason=reason, message=message, warning=warning)
        event["reportingController"] = controller or self._controller
        self._put(series, event)

    def _event(self, series: _Series, about: Object, *, reason: str, message: str, warning: bool) -> Object:
        metadata = about["metadata"]
        return {
            "apiVersion": resources.EVENT.api_version,
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": series.namespace},
            "eventTime": _micro_time(series.last_ns),
            "reportingInstance": self._instance,
            "action": reason,
            "reason": reason,
            "note": message,
            "type": "Warning" if warning else "Normal",
            "regarding": {
                "apiVersion": about.get("apiVersion", ""),
                "kind": about.get("kind", ""),
                "name": metadata["name"],
                **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
                **({"uid": metadata["uid"]} if metadata.get("uid") else {}),
                **({"resourceVersion": metadata["resourceVersion"]} if metadata.get("resourceVersion") else {}),
            },
        }

    def _put(self, series: _Series, body: Object) -> None:
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append((series, body))
            self._arrived.release()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(self._write_all())

    async def _write_all(self) -> None:
        while True:
            await self._arrived.acquire()
            series, body = self._waiting.popleft()
            try:
                await self._write(series, body)
            except (ApiError, OSError) as error:
                log.debug("event %s was not recorded: %s", series.name, error)

    async def _write(self, series: _Series, body: Object) -> None:
        if "metadata" in body:
            await self._client.create(resources.EVENT, body, series.namespace)
            series.created = True
        elif series.created:
            await self._client.patch(resources.EVENT, series.name, series.namespace, body)


def _micro_time(now_ns: int) -> str:
    return f"{from_ns(now_ns)[:-1]}.{now_ns % SECOND_NS // 1000:06d}Z"
