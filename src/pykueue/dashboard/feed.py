"""The rows of a cluster, kept by list and watch, and shared by all open pages.

A row is made and encoded once, whoever looks at it. The feed starts with the first page. The rows
of a long list are made in short turns of the event loop, as the list arrives.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from pykueue.api import objects, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.dashboard import rows
from pykueue.kube.client import Client, ListOptions
from pykueue.kube.informer import Key, Reflector, key_of
from pykueue.kube.supervisor import Supervisor

PREEMPTIONS = "preemptions"
"""A table of the feed beside those of the kinds: the latest preemptions."""
MOST_PREEMPTIONS = 500
_MOST_ADMISSIONS = 5000
_EVENT_SECONDS = 2
"""How far the times of an event and of a condition may be apart."""
_TURN_SECONDS = 0.004


class RowTable:
    """The encoded rows of one kind."""

    def __init__(self) -> None:
        self.rows: dict[Key, bytes] = {}
        self.namespaces: set[str] = set()
        self.is_listed = asyncio.Event()

    def set(self, key: Key, row: bytes | None) -> bool:
        """Whether the row is another one than before; None removes it."""
        if row is None:
            return self.rows.pop(key, None) is not None
        self.namespaces.add(key[0])
        is_changed = self.rows.get(key) != row
        self.rows[key] = row
        return is_changed


class Subscriber:
    """What has changed since a page was sent its last rows. None means removed."""

    def __init__(self) -> None:
        self._changes: dict[str, dict[Key, bytes | None]] = {}

    def add(self, plural: str, key: Key, row: bytes | None) -> None:
        self._changes.setdefault(plural, {})[key] = row

    def forget(self, plural: str) -> None:
        """The page is sent all rows of the table now."""
        self._changes.pop(plural, None)

    def take(self) -> dict[str, dict[Key, bytes | None]]:
        changes, self._changes = self._changes, {}
        return changes


class Feed:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._supervisor = Supervisor()
        self._is_started = False
        self._subscribers: set[Subscriber] = set()
        self._queue: deque[Iterator[tuple[str, Key, Object | None]]] = deque()
        self._is_queued = asyncio.Event()
        self._makers = {resource.plural: make for resource, make in rows.KINDS}
        self.tables = {resource.plural: RowTable() for resource, _ in rows.KINDS} | {PREEMPTIONS: RowTable()}

    def subscribe(self) -> Subscriber:
        if not self._is_started:
            self._start()
        subscriber = Subscriber()
        self._subscribers.add(subscriber)
        return subscriber

    def unsubscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.discard(subscriber)

    async def stop(self) -> None:
        await self._supervisor.stop()

    def _start(self) -> None:
        self._is_started = True
        for resource, _ in rows.KINDS:
            self._supervisor.start(f"rows of {resource.plural}", self._reflector(resource).run, restart_seconds=1.0)
        self._supervisor.start("rows", self._make_rows, restart_seconds=1.0)
        self._supervisor.start("earlier preemptions", self._read_preemptions)

    def _reflector(self, resource: Resource) -> Reflector:
        plural = resource.plural

        def add_page(items: list[Object]) -> None:
            self._enqueue((plural, key_of(obj), obj) for obj in items)

        def replace(items: list[Object], _version: str) -> None:
            self._enqueue(self._removals(plural, {key_of(obj) for obj in items}))

        def change(event_type: str, obj: Object) -> None:
            self._enqueue(iter([(plural, key_of(obj), None if event_type == "DELETED" else obj)]))

        return Reflector(self._client, resource, on_list=replace, on_event=change, on_page=add_page)

    def _enqueue(self, changes: Iterator[tuple[str, Key, Object | None]]) -> None:
        self._queue.append(changes)
        self._is_queued.set()

    def _removals(self, plural: str, listed: set[Key]) -> Iterator[tuple[str, Key, Object | None]]:
        """The list is complete: what it does not have has been deleted."""
        for key in [key for key in self.tables[plural].rows if key not in listed]:
            yield plural, key, None
        self.tables[plural].is_listed.set()

    async def _make_rows(self) -> None:
        """Make the rows of what has arrived, in turns that leave the loop to others."""
        while True:
            self._is_queued.clear()
            turn_ends = time.monotonic() + _TURN_SECONDS
            while self._queue:
                for change in self._queue[0]:
                    self._apply(*change)
                    if time.monotonic() > turn_ends:
                        await asyncio.sleep(0)
                        turn_ends = time.monotonic() + _TURN_SECONDS
                self._queue.popleft()
            await self._is_queued.wait()

    def _apply(self, plural: str, key: Key, obj: Object | None) -> None:
        row = None if obj is None else self._makers[plural](obj)
        self._set(plural, key, None if row is None else msgspec.json.encode(row))
        if plural == "workloads" and obj is not None and (preemption := rows.preemption(obj)):
            self.add_preemption(preemption)

    def _set(self, plural: str, key: Key, row: bytes | None) -> None:
        if self.tables[plural].set(key, row):
            for subscriber in self._subscribers:
                subscriber.add(plural, key, row)

    def add_preemption(self, row: Object) -> None:
        """Keep the latest preemptions. Its event and its condition tell different parts of one."""
        table = self.tables[PREEMPTIONS]
        for at in range(row["at"] - _EVENT_SECONDS, row["at"] + _EVENT_SECONDS + 1):
            earlier = table.rows.get((row["namespace"], f"{row['name']}@{at}"))
            other = {} if earlier is None else msgspec.json.decode(earlier)
            if other.get("by") == row["by"]:
                details = {name: value for name, value in row.items() if value not in (None, "", {})}
                row = other | details | {"at": other["at"]}
                break
        self._set(PREEMPTIONS, (row["namespace"], f"{row['name']}@{row['at']}"), msgspec.json.encode(row))
        while len(table.rows) > MOST_PREEMPTIONS:
            self._set(PREEMPTIONS, next(iter(table.rows)), None)

    async def _read_preemptions(self) -> None:
        """The preemptions before the feed began, from their events."""
        try:
            preempted = await self._events("Preempted", MOST_PREEMPTIONS)
            admitted = await self._events("Admitted", _MOST_ADMISSIONS) if preempted else []
        except (ApiError, OSError):
            return
        admissions: dict[Key, list[int]] = {}
        for event in admitted:
            admissions.setdefault(_subject(event), []).extend(_times(event))
        for event in preempted:
            match = rows.PREEMPTOR.search(str(event.get("note") or "")[:2000])
            if match:
                self.add_preemption(_of_event(event, match, admissions.get(_subject(event), ())))

    async def _events(self, reason: str, limit: int) -> list[Object]:
        selector = f"reason={reason},regarding.kind=Workload"
        return (await self._client.list(resources.EVENT, "", ListOptions(field_selector=selector, limit=limit))).items


def _subject(event: Object) -> Key:
    about = objects.nested(event, "regarding")
    return about.get("namespace", ""), about.get("name", "")


def _times(event: Object) -> list[int]:
    """When it was first and last seen."""
    first = event.get("eventTime") or event["metadata"].get("creationTimestamp")
    last = objects.nested(event, "series").get("lastObservedTime")
    return [rows.seconds(first), *([rows.seconds(last)] if last else ())]


def _of_event(event: Object, match: re.Match[str], admissions: Iterable[int]) -> Object:
    namespace, name = _subject(event)
    at = _times(event)[0]
    admitted_at = max((time for time in admissions if time <= at), default=None)
    return {
        "namespace": namespace,
        "name": name,
        "job": "",
        "at": at,
        "by": match.group(1),
        "reason": "",
        "why": match.group(2) or "",
        "ran": None if admitted_at is None else at - admitted_at,
        "requests": {},
        "clusterQueue": "",
    }
