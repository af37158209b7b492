"""Clients that misbehave: one dies at a write, one loses its watches."""

import asyncio

from pykueue.api import errors


class DyingClient:
    """Does not answer from its n-th write on; that write was carried out or not. Events are not
    counted.
    """

    def __init__(self, client, dies_at=0, *, writes_first=True):
        self._client = client
        self._dies_at = dies_at
        self._writes_first = writes_first
        self.writes = 0
        self.died = asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._client, name)

    async def create(self, resource, *arguments, **options):
        return await self._write(resource, "create", (resource, *arguments), options)

    async def patch(self, resource, *arguments, **options):
        return await self._write(resource, "patch", (resource, *arguments), options)

    async def delete(self, resource, *arguments, **options):
        return await self._write(resource, "delete", (resource, *arguments), options)

    async def _write(self, resource, verb, arguments, options):
        if self.died.is_set():
            await asyncio.Event().wait()
        if resource.kind != "Event":
            self.writes += 1
            if self.writes == self._dies_at:
                if self._writes_first:
                    await getattr(self._client, verb)(*arguments, **options)
                self.died.set()
                await asyncio.Event().wait()
        return await getattr(self._client, verb)(*arguments, **options)


class LosingClient:
    """Its watches come late and break after a few events, every other time with 410 Gone."""

    def __init__(self, client, events_per_watch=3, delay_seconds=0.02):
        self._client = client
        self._events_per_watch = events_per_watch
        self._delay_seconds = delay_seconds
        self._broken = 0

    def __getattr__(self, name):
        return getattr(self._client, name)

    async def watch(self, resource, namespace="", **options):
        count = 0
        async for event in self._client.watch(resource, namespace, **options):
            await asyncio.sleep(self._delay_seconds)
            yield event
            count += 1
            if count >= self._events_per_watch:
                self._broken += 1
                if self._broken % 2:
                    raise errors.expired("too old resource version")
                return


class LateClient:
    """Answers the list of one kind only when it is allowed to."""

    def __init__(self, client, late):
        self._client = client
        self._late = late
        self.may_list = asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._client, name)

    async def list(self, resource, *arguments, **options):
        if resource == self._late:
            await self.may_list.wait()
        return await self._client.list(resource, *arguments, **options)


class RefusingClient:
    """Refuses the first patches of one field manager as an overloaded server does."""

    def __init__(self, client, field_manager, refusals):
        self._client = client
        self._field_manager = field_manager
        self.refusals_left = refusals

    def __getattr__(self, name):
        return getattr(self._client, name)

    async def patch(self, *arguments, options=None, **others):
        if options is not None and options.field_manager == self._field_manager and self.refusals_left:
            self.refusals_left -= 1
            raise errors.ApiError(503, "ServiceUnavailable", "the server is overloaded")
        return await self._client.patch(*arguments, options=options, **others)
