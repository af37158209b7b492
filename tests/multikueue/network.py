"""The network between a manager and a worker: it can be cut, half-open or slow."""

import asyncio
import contextlib

import msgspec

from pykueue.api.errors import ApiError
from pykueue.kube.client import ObjectList, WatchEvent


class Link:
    def __init__(self):
        self.delay_seconds = 0.0
        self.tamper = None
        """Changes every object that the worker sends, as a hostile one could."""
        self.late_kinds = {}
        """How many seconds the events of a kind are late, so that watches overtake each other."""
        self.late_deletion_seconds = 0.0
        """After how many seconds the next deletion arrives; its sender gives up before."""
        self._is_cut = False
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._cut = asyncio.Event()

    def cut(self):
        """Every request fails and every watch ends, as when a cable is pulled out."""
        self._is_cut = True
        self._cut.set()
        self._is_open.set()

    def silence(self):
        """Nothing arrives and nothing fails: the connection is half-open."""
        self._is_open.clear()

    def restore(self):
        self._is_cut = False
        self._cut.clear()
        self._is_open.set()
        self.delay_seconds = 0.0

    async def cross(self):
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
        await self._is_open.wait()
        if self._is_cut:
            raise ConnectionError("network is unreachable")

    async def broken(self):
        await self._cut.wait()


class LinkedClient:
    """A client behind a link; closing it ends what is under way."""

    def __init__(self, client, link):
        self._client = client
        self._link = link
        self._closed = asyncio.Event()

    async def _call(self, name, *arguments, **options):
        async def call():
            await self._link.cross()
            answer = await getattr(self._client, name)(*arguments, **options)
            await self._link.cross()
            return self._tampered(answer)

        return await self._until_closed(call())

    def _tampered(self, answer):
        if self._link.tamper is None:
            return answer
        if isinstance(answer, ObjectList):
            return msgspec.structs.replace(answer, items=[self._link.tamper(item) for item in answer.items])
        return self._link.tamper(answer) if isinstance(answer, dict) else answer

    async def _until_closed(self, work):
        tasks = [asyncio.ensure_future(work), asyncio.ensure_future(self._closed.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not tasks[0].done():
                raise ConnectionError("the client is closed")
            return tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()

    async def get(self, *arguments, **options):
        return await self._call("get", *arguments, **options)

    async def list(self, *arguments, **options):
        return await self._call("list", *arguments, **options)

    async def create(self, *arguments, **options):
        return await self._call("create", *arguments, **options)

    async def update(self, *arguments, **options):
        return await self._call("update", *arguments, **options)

    async def patch(self, *arguments, **options):
        return await self._call("patch", *arguments, **options)

    async def delete(self, *arguments, **options):
        late_seconds, self._link.late_deletion_seconds = self._link.late_deletion_seconds, 0.0
        if late_seconds:
            self._link.late_deletion = asyncio.ensure_future(self._delete_late(late_seconds, arguments))
            await asyncio.sleep(late_seconds / 2)
            raise TimeoutError("no answer in time")
        return await self._call("delete", *arguments, **options)

    async def _delete_late(self, seconds, arguments):
        await asyncio.sleep(seconds)
        with contextlib.suppress(ApiError):
            await self._client.delete(*arguments)

    async def raw(self, *arguments, **options):
        return await self._call("raw", *arguments, **options)

    async def watch(self, *arguments, **options):
        await self._link.cross()
        events = asyncio.Queue()

        async def read():
            try:
                async with contextlib.aclosing(self._client.watch(*arguments, **options)) as stream:
                    async for event in stream:
                        events.put_nowait(event)
                events.put_nowait(None)
            except Exception as error:  # noqa: BLE001 - the reader raises it
                events.put_nowait(error)

        reader = asyncio.ensure_future(read())
        try:
            while True:
                event = await self._next(events)
                if event is None:
                    return
                if not isinstance(event, WatchEvent):
                    raise event
                await asyncio.sleep(self._link.late_kinds.get(arguments[0], 0))
                await self._link.cross()
                yield msgspec.structs.replace(event, object=self._tampered(event.object))
        finally:
            reader.cancel()

    async def _next(self, events):
        waits = [asyncio.ensure_future(wait) for wait in (events.get(), self._link.broken(), self._closed.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not waits[0].done():
                raise ConnectionError("the watch was cut")
            return waits[0].result()
        finally:
            for wait in waits:
                wait.cancel()

    async def close(self):
        self._closed.set()
