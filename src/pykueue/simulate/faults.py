"""A client between a process and the API server that draws delays and failures from the seed.

What it does is what a network and an API server may do: requests and answers take time, watches
end or expire, a guarded write meets a conflict, a request fails before the server got it, or its
answer is lost although it took effect. A write may also arrive seconds after its sender gave up,
and a process may lose its connection for seconds: it hears nothing, and what it sent before may
arrive when the connection is back. The events of one watch keep their order.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from pykueue.api import errors
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.apiserver.local_client import LocalClient
from pykueue.kube.client import DeleteOptions, ListOptions, ObjectList, PatchType, WatchEvent, WriteOptions
from pykueue.simulate.event_loop import Process
from pykueue.simulate.trace import Trace

LONGEST_DELAY = 2.0
"""Seconds; less than a leader that cannot renew its lease has left until another one may lead."""


class FaultRates(msgspec.Struct, frozen=True, kw_only=True):
    """How probable a fault is: of each request, and of each event of a watch."""

    slow: float = 0.3
    very_slow: float = 0.01
    request_lost: float = 0.01
    answer_lost: float = 0.01
    late: float = 0.01
    outage: float = 0.001
    server_error: float = 0.01
    too_many_requests: float = 0.003
    conflict: float = 0.01
    watch_dropped: float = 0.005
    watch_expired: float = 0.002


class Faults:
    """Draws the faults of a run and counts them.

    While it is calm nothing fails and nothing is slow.
    """

    def __init__(self, source: random.Random, trace: Trace, rates: FaultRates) -> None:
        self.rates = rates
        self.is_calm = True
        self._random = source
        self._trace = trace

    def happens(self, fault: str, probability: float) -> bool:
        if self.is_calm or self._random.random() >= probability:
            return False
        self._trace.add(f"fault: {fault}")
        return True

    def is_either(self) -> bool:
        return self._random.random() < 0.5

    def seconds(self) -> float:
        """How long something takes that takes long."""
        return self._random.random() * LONGEST_DELAY

    async def delay(self) -> None:
        """Often nothing, sometimes some milliseconds, seldom seconds."""
        if self.is_calm:
            return
        drawn = self._random.random()
        if drawn < self.rates.very_slow:
            self._trace.add("fault: very slow")
            await asyncio.sleep(self.seconds())
        elif drawn < self.rates.slow:
            await asyncio.sleep(self._random.random() ** 3 * 0.1)


class ApiConnection:
    """The way to the API server that runs now, if one does."""

    def __init__(self) -> None:
        self.process: Process | None = None
        self.client: LocalClient | None = None

    def open(self, process: Process, client: LocalClient) -> None:
        self.process, self.client = process, client

    def close(self) -> None:
        self.process = self.client = None

    def local(self) -> LocalClient:
        if self.client is None:
            raise ConnectionError("the API server does not run")
        return self.client

    def send(self, request: "Request", after_seconds: float = 0.0) -> asyncio.Task[Any]:
        """Perform a request in the server's process: it goes on when the sender dies."""
        client = self.local()
        assert self.process is not None
        task = self.process.spawn(_perform(request, client, after_seconds))
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task


Request = Callable[[LocalClient], Awaitable[Any]]


async def _perform(request: Request, client: LocalClient, after_seconds: float) -> Any:
    if after_seconds:
        await asyncio.sleep(after_seconds)
    return await request(client)


class FaultyClient:
    """The `Client` of one process.

    One that is not remote shares the server's process: its requests are never lost.
    """

    def __init__(self, process: Process, connection: ApiConnection, faults: Faults, *, is_remote: bool = True) -> None:
        self._process = process
        self._connection = connection
        self._faults = faults
        self._is_remote = is_remote
        self._outage_ends = 0.0
        """When the connection of the process is back, by the loop's time."""

    # Reading

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        obj: Object = await self._request(lambda client: client.get(resource, name, namespace))
        return obj

    async def list(self, resource: Resource, namespace: str = "", options: ListOptions | None = None) -> ObjectList:
        page: ObjectList = await self._request(lambda client: client.list(resource, namespace, options))
        return page

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent]:
        await self._faults.delay()
        self._check_alive()
        events = self._connection.local().watch(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
        )
        async with contextlib.aclosing(events) as events:  # type: ignore[type-var]
            async for event in events:
                await asyncio.sleep(self._outage_seconds())
                await self._faults.delay()
                if self._faults.happens("watch dropped", self._faults.rates.watch_dropped):
                    return
                if self._faults.happens("watch expired", self._faults.rates.watch_expired):
                    raise errors.expired("too old resource version")
                yield event

    # Writing

    async def create(
        self, resource: Resource, obj: Object, namespace: str = "", options: WriteOptions | None = None
    ) -> Object:
        created: Object = await self._write(lambda client: client.create(resource, obj, namespace, options))
        return created

    async def update(
        self, resource: Resource, obj: Object, *, subresource: str = "", options: WriteOptions | None = None
    ) -> Object:
        updated: Object = await self._write(
            lambda client: client.update(resource, obj, subresource=subresource, options=options), guarded=True
        )
        return updated

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        patch: Any,
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> Object:
        patched: Object = await self._write(
            lambda client: client.patch(
                resource, name, namespace, patch, patch_type=patch_type, subresource=subresource, options=options
            ),
            guarded=isinstance(patch, dict) and "resourceVersion" in (patch.get("metadata") or {}),
        )
        return patched

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        await self._write(lambda client: client.delete(resource, name, namespace, options))

    async def raw(self, method: str, path: str, body: Any = None) -> Any:
        return await self._request(lambda client: client.raw(method, path, body))

    async def close(self) -> None:
        """Nothing is open."""

    # What may happen to a request

    async def _write(self, request: Request, *, guarded: bool = False) -> Any:
        try:
            await self._faults.delay()
        except asyncio.CancelledError:
            self._leave_behind(request)
            raise
        if guarded and self._faults.happens("conflict", self._faults.rates.conflict):
            raise ApiError(
                409, "Conflict", "the object has been modified; please apply your changes to the latest version"
            )
        if self._is_remote:
            await self._check_connection(request)
        answer = await self._send(request)
        if self._is_remote and self._faults.happens("answer lost", self._faults.rates.answer_lost):
            raise TimeoutError("no answer in time")
        return answer

    async def _check_connection(self, write: Request) -> None:
        """Raise TimeoutError if the sender has given up before the write arrives."""
        outage = self._outage_seconds()
        if self._faults.happens("late write", 0.5 if outage else self._faults.rates.late):
            late = self._faults.seconds()
            self._connection.send(write, outage + late + self._faults.seconds())
            await asyncio.sleep(late)
            raise TimeoutError("no answer in time")

    def _outage_seconds(self) -> float:
        """How long the connection is still lost; it may be lost from now on."""
        now = asyncio.get_running_loop().time()
        if now >= self._outage_ends and self._is_remote and self._faults.happens("outage", self._faults.rates.outage):
            self._outage_ends = now + self._faults.seconds()
        return max(0.0, self._outage_ends - now)

    async def _request(self, request: Request) -> Any:
        await self._faults.delay()
        return await self._send(request)

    async def _send(self, request: Request) -> Any:
        self._check_alive()
        if self._outage_seconds():
            raise ConnectionError("no route to host")
        if self._is_remote and self._faults.happens("request lost", self._faults.rates.request_lost):
            raise ConnectionError("connection reset")
        if self._faults.happens("too many requests", self._faults.rates.too_many_requests):
            raise ApiError(429, "TooManyRequests", "Too many requests, please try again later")
        if self._faults.happens("server error", self._faults.rates.server_error):
            raise ApiError(500, "InternalError", "Internal error occurred: drawn by the simulation")
        at_server = self._connection.send(request)
        try:
            answer = await asyncio.shield(at_server)
        except asyncio.CancelledError:
            if at_server.cancelled() and not self._process.is_dead:
                raise ConnectionError("the API server went away") from None
            raise
        except ApiError:
            await self._faults.delay()
            raise
        await self._faults.delay()
        return answer

    def _check_alive(self) -> None:
        if self._process.is_dead:
            raise ConnectionError("this process is dead")

    def _leave_behind(self, request: Request) -> None:
        """A sender that is cancelled or killed may have sent its request already."""
        if self._connection.client is not None and not self._faults.is_calm and self._faults.is_either():
            self._connection.send(request)
