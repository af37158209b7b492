"""Records events about objects; a repeat raises the count of the same event.

Controllers call `record`, which does not wait; `run` writes. The first repeat is written at once,
later ones once a minute with the latest count. An event that cannot be written is dropped, because
an event is information and not state.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pykueue.api import entropy, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS, from_ns, micro_from_ns
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock

log = logging.getLogger(__name__)
decisions = logging.getLogger("pykueue.decisions")
"""A line at info for each event that is not a repeat: about what, which, and why."""

SERIES_NS = 6 * 60 * SECOND_NS
"""A repeat within this time belongs to the same event of events.k8s.io/v1."""
REPEAT_SECONDS = 60.0
"""The time in which the later repeats of an event are collected."""
MOST_REMEMBERED = 4096
MOST_WAITING = 50_000
WRITERS = 32


@dataclass(slots=True)
class _Series:
    """One event and its repeats."""

    name: str
    namespace: str
    first: Object | None
    """The event to create; None once it is created."""
    last_ns: int
    count: int = 1
    written: int = 0
    is_busy: bool = False


class EventForm(Protocol):
    """How events look on the wire."""

    resource: Resource
    series_ns: int | None
    """A repeat later than this is a new event; None: never."""

    def event(
        self, about: Object, now_ns: int, *, event_type: str, reason: str, message: str, component: str
    ) -> Object: ...

    def repeat(self, count: int, last_ns: int) -> Object:
        """The patch for a repeat."""
        ...


@runtime_checkable
class BatchClient(Protocol):
    """A client that creates many events in one step."""

    async def create_events(self, resource: Resource, events: Sequence[Object]) -> None:
        """Create the events. What is refused is dropped."""
        ...


class EventsV1:
    """events.k8s.io/v1 with a series, as Kueue records them."""

    resource = resources.EVENT
    series_ns: int | None = SERIES_NS

    def __init__(self, instance: str) -> None:
        self._instance = instance

    def event(
        self, about: Object, now_ns: int, *, event_type: str, reason: str, message: str, component: str
    ) -> Object:
        return {
            "apiVersion": self.resource.api_version,
            "kind": "Event",
            "eventTime": micro_from_ns(now_ns),
            "reportingInstance": self._instance,
            "action": reason,
            "reason": reason,
            "note": message,
            "type": event_type,
            "regarding": _reference(about),
            "reportingController": component,
        }

    def repeat(self, count: int, last_ns: int) -> Object:
        return {"series": {"count": count, "lastObservedTime": micro_from_ns(last_ns)}}


class CoreEvents:
    """Events of the core API with a count, as Kubernetes' own controllers record them."""

    resource = resources.CORE_EVENT
    series_ns: int | None = None

    def event(
        self, about: Object, now_ns: int, *, event_type: str, reason: str, message: str, component: str
    ) -> Object:
        now = from_ns(now_ns)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "involvedObject": _reference(about),
            "type": event_type,
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }

    def repeat(self, count: int, last_ns: int) -> Object:
        return {"count": count, "lastTimestamp": from_ns(last_ns)}


class EventRecorder:
    def __init__(self, client: Client, clock: Clock, form: EventForm) -> None:
        self._client = client
        self._clock = clock
        self._form = form
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()
        self._waiting: deque[_Series] = deque()
        self._arrived = asyncio.Semaphore(0)
        self._repeated: dict[str, _Series] = {}
        """Events whose count is written at the end of the present minute, by name."""
        self._has_repeats = asyncio.Event()

    def record(self, about: Object, *, reason: str, message: str, component: str, event_type: str = "Normal") -> None:
        metadata = about["metadata"]
        now_ns = self._clock.now_ns()
        identity = (about.get("kind", ""), str(metadata.get("uid", "")), reason, message)
        series, series_ns = self._series.get(identity), self._form.series_ns
        if series is not None and (series_ns is None or now_ns - series.last_ns < series_ns):
            series.count += 1
            series.last_ns = now_ns
            if series.written > 1:
                self._repeated[series.name] = series
                self._has_repeats.set()
                return
        else:
            event = self._form.event(
                about, now_ns, event_type=event_type, reason=reason, message=message, component=component
            )
            name = f"{metadata['name']}.{entropy.hex_token(16)}"
            namespace = metadata.get("namespace") or "default"
            event["metadata"] = {"name": name, "namespace": namespace}
            series = self._series[identity] = _Series(name, namespace, event, now_ns)
            if len(self._series) > MOST_REMEMBERED:
                self._series.popitem(last=False)
            _log_decision(about, reason, message, component)
        self._add(series)

    def _add(self, series: _Series) -> None:
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(series)
            self._arrived.release()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            if isinstance(self._client, BatchClient):
                group.create_task(self._write_batches(self._client))
            else:
                for _ in range(WRITERS):
                    group.create_task(self._write_all())
            group.create_task(self._add_repeats())

    async def _add_repeats(self) -> None:
        while True:
            await self._has_repeats.wait()
            await self._clock.sleep(REPEAT_SECONDS)
            self._has_repeats.clear()
            repeated, self._repeated = self._repeated, {}
            for series in repeated.values():
                self._add(series)

    async def _write_all(self) -> None:
        while True:
            await self._arrived.acquire()
            series = self._waiting.popleft()
            if series.is_busy:
                continue  # its writer writes the new count too
            series.is_busy = True
            try:
                await self._try_to_write(series)
            finally:
                series.is_busy = False

    async def _write_batches(self, client: BatchClient) -> None:
        """Create all events that wait in one step, then write their repeats."""
        while True:
            await self._arrived.acquire()
            if not self._waiting:
                continue  # an earlier batch had this event too
            waiting = {series.name: series for series in self._waiting}
            self._waiting.clear()
            new = {series.name: series.first for series in waiting.values() if series.first is not None}
            try:
                await client.create_events(self._form.resource, list(new.values()))
            except (ApiError, OSError) as error:
                log.debug("%d events were not recorded: %s", len(new), error)
            for name in new:
                waiting[name].first, waiting[name].written = None, 1
            repeated = [series for series in waiting.values() if series.written < series.count]
            await asyncio.gather(*map(self._try_to_write, repeated))

    async def _try_to_write(self, series: _Series) -> None:
        try:
            await self._write(series)
        except (ApiError, OSError) as error:
            log.debug("event %s was not recorded: %s", series.name, error)

    async def _write(self, series: _Series) -> None:
        if series.first is not None:
            await self._client.create(self._form.resource, series.first, series.namespace)
            series.first, series.written = None, 1
        while series.written < series.count:
            count = series.count
            patch = self._form.repeat(count, series.last_ns)
            await self._client.patch(self._form.resource, series.name, series.namespace, patch)
            series.written = count


def _reference(about: Object) -> Object:
    """The ObjectReference to the object that an event is about."""
    metadata = about["metadata"]
    reference = {"apiVersion": about.get("apiVersion", ""), "kind": about.get("kind", ""), "name": metadata["name"]}
    return reference | {key: metadata[key] for key in ("namespace", "uid", "resourceVersion") if metadata.get(key)}


def _log_decision(about: Object, reason: str, message: str, component: str) -> None:
    if not decisions.isEnabledFor(logging.INFO):
        return
    metadata = about["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]
    fields = {"object": name, "kind": about.get("kind", ""), "reason": reason, "component": component}
    decisions.info("%s %s %s: %s", fields["kind"], name, reason, message, extra={"fields": fields})
