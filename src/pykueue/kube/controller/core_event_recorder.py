"""Events of the machine room, written behind the scenes: repeats raise a count, as Kubernetes' own controllers do."""

import asyncio
import logging
from collections import OrderedDict, deque

from pykueue.api import entropy, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.api.times import from_ns
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock

_MOST_REMEMBERED = 4096
_MOST_WAITING = 20_000
_WRITERS = 4

log = logging.getLogger(__name__)


class Recorder:
    """`record` never waits; `run` writes until it is cancelled."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: OrderedDict[tuple[str, str, str], Object] = OrderedDict()
        self._waiting: deque[Object] = deque()
        self._arrived = asyncio.Semaphore(0)

    def record(self, about: Object, *, type_: str, reason: str, message: str, component: str) -> None:
        now = from_ns(self._clock.now_ns())
        identity = about["metadata"].get("uid", ""), reason, message
        event = self._known.get(identity)
        if event is None:
            event = _event(about, type_=type_, reason=reason, message=message, component=component)
            event |= {"firstTimestamp": now, "count": 0}
            self._known[identity] = event
            if len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)
        event |= {"count": event["count"] + 1, "lastTimestamp": now}
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(event)
            self._arrived.release()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(_WRITERS):
                group.create_task(self._write_all())

    async def _write_all(self) -> None:
        while True:
            await self._arrived.acquire()
            event = self._waiting.popleft()
            try:
                await self._write(event)
            except (ApiError, OSError) as error:
                log.debug("event %s was not recorded: %s", event["metadata"]["name"], error)

    async def _write(self, event: Object) -> None:
        place = event["metadata"]
        if event["count"] == 1:
            await self._client.create(resources.CORE_EVENT, event, place["namespace"])
        else:
            news = {"count": event["count"], "lastTimestamp": event["lastTimestamp"]}
            await self._client.patch(resources.CORE_EVENT, place["name"], place["namespace"], news)


def _event(about: Object, *, type_: str, reason: str, message: str, component: str) -> Object:
    metadata = about["metadata"]
    namespace = metadata.get("namespace", "")
    involved = {"apiVersion": about.get("apiVersion", ""), "kind": about.get("kind", ""), "name": metadata["name"]}
    involved |= {key: metadata[key] for key in ("namespace", "uid", "resourceVersion") if metadata.get(key)}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name']}.{entropy.hex_token(16)}", "namespace": namespace or "default"},
        "involvedObject": involved,
        "type": type_,
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
    }
