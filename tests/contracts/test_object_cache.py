"""The object cache on every client: what is deleted while we write to it does not come back."""

import asyncio
from contextlib import suppress

import pytest

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Resource
from pykueue.kube.clock import WallClock
from pykueue.kube.controller import writes
from pykueue.kube.controller.cache import InformerSet, ObjectCache
from pykueue.kube.controller.event_recorder import CoreEvents, EventRecorder
from pykueue.kube.controller.executor import WriteExecutor

WIDGETS = Resource("example.dev", "v1", "widgets", "Widget", namespaced=True)


@pytest.fixture
async def cache(client):
    cache = ObjectCache()
    running = asyncio.create_task(InformerSet(client, cache, WallClock()).run([WIDGETS]))
    await asyncio.wait_for(cache.listed([WIDGETS]), 10)
    yield cache
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_an_object_deleted_while_we_write_to_it_leaves_the_cache(client, cache):
    executor = WriteExecutor(client, cache, EventRecorder(client, WallClock(), CoreEvents()), "test")

    async def update(old):
        new = old | {"spec": {"size": 1}}
        with suppress(ApiError):
            await executor.write(writes.Update(resource=WIDGETS, old=old, new=new))

    for number in range(20):
        name = f"w{number}"
        widget = await client.create(WIDGETS, {"metadata": {"name": name, "namespace": "default"}})
        await asyncio.gather(update(widget), client.delete(WIDGETS, name, "default"))
    is_up_to_date = asyncio.Event()
    cache.on_change(WIDGETS, lambda _old, new: is_up_to_date.set() if new and is_last(new) else None)
    await client.create(WIDGETS, {"metadata": {"name": "last", "namespace": "default"}})
    await asyncio.wait_for(is_up_to_date.wait(), 10)
    assert all(map(is_last, cache.all(WIDGETS)))


def is_last(widget):
    return widget["metadata"]["name"] == "last"
