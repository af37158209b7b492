"""A proxy between a controller and its API server, which counts writes, ends its client at one, or breaks its watches."""

import asyncio
import itertools
import json
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

UNCOUNTED = ("/events", "/leases")
CARRIED_UP = ("Content-Type", "Authorization", "Accept", "User-Agent")
CARRIED_DOWN = ("Content-Type", "Retry-After", "Warning")
GONE = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired", "message": "old"}


class Proxy:
    """Plain HTTP on its own side, TLS to the server. It changes nothing unless told to."""

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
        """Call `end` at the n-th writes: {3: "before", 9: "after"} they reach the server."""
        self._ends_at, self._end = writes, end

    def break_watches(self):
        self._breaks_watches = True

    def delay_watches(self, plural, seconds):
        """Each event of this kind takes so long, and the next one waits for it."""
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
        async with self._ask(request) as answer:
            return web.Response(status=answer.status, body=await answer.read(), headers=_some(answer, CARRIED_DOWN))

    async def _last_write(self, request, number):
        """Whom it answers is no more, so the answer does not matter."""
        if self._ends_at[number] == "after":
            await self._forward(request)
        self.ended_at.append(number)
        self._end()
        return web.Response(status=500)

    @asynccontextmanager
    async def _ask(self, request):
        async with self._session.request(
            request.method,
            self._access.server + request.path_qs,
            data=await request.read(),
            headers=_some(request, CARRIED_UP),
        ) as answer:
            yield answer

    async def _watch(self, request):
        async with self._ask(request) as answer:
            response = web.StreamResponse(status=answer.status, headers=_some(answer, CARRIED_DOWN))
            try:
                await response.prepare(request)
                if self._breaks_watches:
                    await self._carry_badly(request, answer, response)
                else:
                    await self._carry(request, answer, response)
            except ConnectionError:
                """The client went away; so does its watch."""
            return response

    async def _carry(self, request, answer, response):
        delay_seconds = self._late.get(request.path.rpartition("/")[2], 0)
        async for line in answer.content:
            await asyncio.sleep(delay_seconds)
            await response.write(line)

    async def _carry_badly(self, request, answer, response, events=3, delay_seconds=0.03):
        """A few events, each late; then the stream ends well, breaks in the middle of a line, or says 410 Gone."""
        way = ("ends", "breaks", "is gone")[next(self._watches) % 3]
        seen = 0
        async for line in answer.content:
            await asyncio.sleep(delay_seconds)
            if seen == events:
                self.broken.add(way)
                if way == "breaks":
                    await response.write(line[: len(line) // 2])
                    request.transport.abort()
                elif way == "is gone":
                    await response.write(json.dumps({"type": "ERROR", "object": GONE}).encode() + b"\n")
                return
            await response.write(line)
            seen += 1


def _some(message, names):
    return {name: message.headers[name] for name in names if name in message.headers}


@asynccontextmanager
async def running_proxy(access):
    """The proxy and its address."""
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
