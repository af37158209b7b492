"""The watch contract with random clients: ordered, no duplicates, no gaps, despite compaction.

Writers and watchers run against one core with a very short history. Each watcher keeps a copy with
list and watch, disconnects at random, resumes from its last version, and lists again after a 410.
At the end a checker compares the events of each watcher with the log of all changes.
"""

import asyncio
import bisect
import random
import time

import pytest

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Kind, Scheme
from pykueue.apiserver.calls import WatchFrame
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import FrameQueue, LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.sqlite import SqliteLog
from pykueue.apiserver.store.store import Store

NAMESPACE = Kind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
CONFIG_MAP = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True, has_status=False)
SCHEME = Scheme([NAMESPACE, CONFIG_MAP])
CONFIG_MAPS = CONFIG_MAP.resource
WRITERS = 4
WATCHERS = 4


class Watcher:
    """A client with a copy. `sessions` has the first version of each watch and its events."""

    def __init__(self, client, choice, selector):
        self.client = client
        self.choice = choice
        self.selector = selector
        self.copy = {}
        self.version = ""
        self.relists = 0
        self.sessions = []

    async def run(self):
        while True:
            try:
                if not self.version:
                    await self.list()
                await self.watch()
            except ApiError as error:
                if error.code != 410:
                    raise
                self.version = ""
                self.relists += 1

    async def list(self):
        page = await self.client.list(CONFIG_MAPS)
        self.version = page.resource_version
        self.copy = {obj["metadata"]["name"]: obj for obj in page.items if self.selects(obj)}

    def selects(self, obj):
        return not self.selector or (obj["metadata"].get("labels") or {}).get("side") == "left"

    async def watch(self):
        self.sessions.append((int(self.version), []))
        events = self.client.watch(CONFIG_MAPS, resource_version=self.version, label_selector=self.selector)
        stop_after = self.choice.randrange(1, 60)
        async for event in events:
            self.take(event)
            stop_after -= 1
            if not stop_after:
                break
        await events.aclose()
        if self.choice.random() < 0.2:
            await asyncio.sleep(self.choice.uniform(0, 0.05))  # disconnected for a while

    def take(self, event):
        if event.type == "BOOKMARK":
            return
        name, version = event.object["metadata"]["name"], int(event.object["metadata"]["resourceVersion"])
        assert version > int(self.version), "an event came twice, or out of order"
        self.version = str(version)
        self.sessions[-1][1].append((event.type, version, name))
        if event.type == "ADDED":
            assert name not in self.copy, "added twice: a deletion was missed"
        else:
            assert name in self.copy, f"{event.type} of something never added"
        if event.type == "DELETED":
            del self.copy[name]
        else:
            self.copy[name] = event.object


class History:
    """All committed changes, and the events that a watcher must get."""

    def __init__(self, store):
        self.changes = []
        store.listeners.append(self.changes.extend)

    def expected(self, watcher, begin, end):
        first, last = (bisect.bisect_right(self.changes, at, key=lambda change: change.revision) for at in (begin, end))
        for change in self.changes[first:last]:
            if change.now.key.plural == "configmaps":
                was_in = change.before is not None and watcher.selects(change.before.decode())
                is_in = not change.is_deleted and watcher.selects(change.now.decode())
                if was_in or is_in:
                    kind = "DELETED" if not is_in else "MODIFIED" if was_in else "ADDED"
                    yield kind, change.revision, change.now.key.name

    def check(self, watcher):
        for begin, events in watcher.sessions:
            if events:
                assert events == list(self.expected(watcher, begin, events[-1][1]))


LONGEST_WAIT_SECONDS = 30


async def write_forever(client, choice):
    while True:
        name = f"n{choice.randrange(12)}"
        try:
            action = choice.random()
            if action < 0.25:
                metadata = {"name": name, "namespace": "default", "labels": {"side": choice.choice(["left", "right"])}}
                await client.create(CONFIG_MAPS, {"metadata": metadata})
            elif action < 0.4:
                await client.delete(CONFIG_MAPS, name, "default")
            else:
                patch = {"metadata": {"labels": {"side": choice.choice(["left", "right"])}}}
                patch["data"] = {"value": str(choice.random())}
                await client.patch(CONFIG_MAPS, name, "default", patch)
        except ApiError as error:
            if error.code not in (404, 409):
                raise


async def campaign(log, seconds, seed):
    """Run for some seconds, and then until compaction has overtaken a watcher."""
    core = Core(Store(log, history_changes=60), SCHEME)
    history = History(core.store)
    await core.start()
    client = LocalClient(core, SCHEME)
    await client.create(NAMESPACE.resource, {"metadata": {"name": "default"}})
    watchers = [
        Watcher(client, random.Random(f"{seed}/watcher/{number}"), "side=left" if number % 2 else "")
        for number in range(WATCHERS)
    ]
    writing = [
        asyncio.create_task(write_forever(client, random.Random(f"{seed}/writer/{number}")))
        for number in range(WRITERS)
    ]
    watching = [asyncio.create_task(watcher.run()) for watcher in watchers]
    patience = time.monotonic() + seconds + LONGEST_WAIT_SECONDS
    while True:
        done, _ = await asyncio.wait([*writing, *watching], timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
        if any(watcher.relists for watcher in watchers) or time.monotonic() > patience:
            break
    for task in writing:
        task.cancel()
    await asyncio.gather(*writing, return_exceptions=True)
    await client.create(CONFIG_MAPS, {"metadata": {"name": "last", "namespace": "default"}})
    await agree(core, watchers, watching)
    await core.stop()
    for watcher in watchers:
        history.check(watcher)
    return watchers, core.store.revision


async def agree(core, watchers, watching):
    """After the last write, every copy becomes equal to the store."""
    truth = {stored.key.name: stored.decode() for stored in core.store.select("", "configmaps")}
    deadline = time.monotonic() + 10
    for watcher in watchers:
        expected = {name: obj for name, obj in truth.items() if watcher.selects(obj)}
        while watcher.copy != expected:
            assert time.monotonic() < deadline, "a copy never became equal to the truth"
            await asyncio.sleep(0.01)
    for task in watching:
        task.cancel()
    for result in await asyncio.gather(*watching, return_exceptions=True):
        assert isinstance(result, asyncio.CancelledError), result


@pytest.mark.parametrize("seed", [1, 2])
async def test_watches_agree_with_history(seed):
    watchers, writes = await campaign(MemoryLog(), 1.0, seed)
    assert writes > 100
    assert sum(watcher.relists for watcher in watchers) > 0, "compaction did not happen"


async def test_watches_agree_with_history_on_disk(tmp_path):
    _, writes = await campaign(SqliteLog(tmp_path), 1.0, 3)
    assert writes > 20


@pytest.mark.torture
@pytest.mark.timeout(300)
async def test_watches_agree_with_history_for_a_minute(tmp_path):
    _, writes = await campaign(SqliteLog(tmp_path), 60.0, time.time_ns())
    assert writes > 1000


async def test_a_reader_of_many_events_leaves_the_event_loop_to_others():
    frames = FrameQueue()
    for number in range(100):
        frames.send(WatchFrame("ADDED", str(number).encode(), None))
    read = []

    async def read_all():
        while len(read) < 100:
            read.append(await frames.read())

    reading = asyncio.create_task(read_all())
    in_turn = []
    while not reading.done():
        before = len(read)
        await asyncio.sleep(0)
        in_turn.append(len(read) - before)
    assert [frame.data for frame in read] == [str(number).encode() for number in range(100)]
    assert max(in_turn) <= 8
