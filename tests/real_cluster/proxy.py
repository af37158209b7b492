"""A proxy between a controller and its API server.

It counts writes, kills the controller at a write, or breaks watches.
"""

import asyncio
import itertools
import json
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

UNCOUNTED = ("/events", "/leases")
REQUEST_HEADERS = ("Content-Type", "Authorization", "Accept", "User-Agent")
RESPONSE_HEADERS = ("Content-Type", "Retry-After", "Warning")
EXPIRED = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "code": 410,
    "reason": "Expired",
    "message": "old",
}


class Proxy:
    """HTTP for the controller, TLS to the server. By default it only forwards."""

    def __init__(self, access, session):
        self._access = access
        self._session = session
        self._end = None
        self._ends_at = {}
        self._breaks_watches = False
        self._late = {}
        self._watches = itertools.count()
        self.writes = 0
        self.broken = set()
        self.ended_at = []

    def end_at(self, writes, end):
        """Call `end` at these writes: {3: "before", 9: "after"} the write reaches the server."""
        self._ends_at, self._end = writes, end

    def break_watches(self):
        self._breaks_watches = True

    def delay_watches(self, plural, seconds):
        """Delay every event of this resource; the next event waits for it."""
        self._late[plural] = seconds

    async def handle(self, request):
        if request.query.get("watch"):
            return await self._watch(request)
        if request.method != "GET" and not any(part in request.path for part in UNCOUNTED):
            self.writes += 1
            if self.writes in self._ends_at:
                return await self._last_write(request, self.writes)
        return await self._forward(request)

    async def _forward(self, request):
        async with self._send(request) as answer:
            return web.Response(
                status=answer.status, body=await answer.read(), headers=_headers(answer, RESPONSE_HEADERS)
            )

    async def _last_write(self, request, number):
        """The client was killed, so the response does not matter."""
        if self._ends_at[number] == "after":
            await self._forward(request)
        self.ended_at.append(number)
        self._end()
        return web.Response(status=500)

    @asynccontextmanager
    async def _send(self, request):
        async with self._session.request(
            request.method,
            self._access.server + request.path_qs,
            data=await request.read(),
            headers=_headers(request, REQUEST_HEADERS),
        ) as answer:
            yield answer

    async def _watch(self, request):
        async with self._send(request) as answer:
            response = web.StreamResponse(status=answer.status, headers=_headers(answer, RESPONSE_HEADERS))
            try:
                await response.prepare(request)
                if self._breaks_watches:
                    await self._forward_broken_watch(request, answer, response)
                else:
                    await self._forward_watch(request, answer, response)
            except ConnectionError:
                """The client disconnected."""
            return response

    async def _forward_watch(self, request, answer, response):
        delay_seconds = self._late.get(request.path.rpartition("/")[2], 0)
        async for line in answer.content:
            await asyncio.sleep(delay_seconds)
            await response.write(line)

    async def _forward_broken_watch(self, request, answer, response, events=3, delay_seconds=0.03):
        """Send a few events late, then end the stream, break it in a line, or send 410 Gone."""
        way = ("ends", "breaks", "is gone")[next(self._watches) % 3]
        sent = 0
        async for line in answer.content:
            await asyncio.sleep(delay_seconds)
            if sent == events:
                self.broken.add(way)
                if way == "breaks":
                    await response.write(line[: len(line) // 2])
                    request.transport.abort()
                elif way == "is gone":
                    await response.write(json.dumps({"type": "ERROR", "object": EXPIRED}).encode() + b"\n")
                return
            await response.write(line)
            sent += 1


def _headers(message, names):
    return {name: message.headers[name] for name in names if name in message.headers}


@asynccontextmanager
async def running_proxy(access):
    """Yield the proxy and its address."""
    connector = aiohttp.TCPConnector(ssl=access.tls, limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:
        proxy = Proxy(access, session)
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield proxy, f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
