"""The informer on a client that plays a script of lists, watch events and errors."""

import asyncio

import pytest

from pykueue.api.errors import ApiError, expired
from pykueue.api.scheme import Resource
from pykueue.kube.client import ObjectList, WatchEvent
from pykueue.kube.informer import Informer, Reflector

WIDGETS = Resource("example.dev", "v1", "widgets", "Widget", namespaced=True)


def widget(name, version, uid="", **labels):
    metadata = {"name": name, "namespace": "d", "resourceVersion": str(version), "uid": uid or name, "labels": labels}
    return {"metadata": metadata}


class ScriptedClient:
    """A list or a watch takes the next scene: a list, a list of events, or an error."""

    def __init__(self, *scenes):
        self.scenes = list(scenes)
        self.calls = []
        self.is_over = asyncio.Event()

    def next_scene(self):
        scene = self.scenes.pop(0)
        if isinstance(scene, Exception):
            raise scene
        return scene

    async def list(self, resource, namespace="", options=None):
        self.calls.append("list")
        if not self.scenes:
            self.is_over.set()
            await asyncio.Event().wait()
        version, *items = self.next_scene()
        return ObjectList(items=items, resource_version=str(version))

    async def watch(self, resource, namespace="", *, resource_version="", label_selector="", field_selector=""):
        self.calls.append(f"watch {resource_version}")
        if not self.scenes:
            self.is_over.set()
            await asyncio.Event().wait()
        for event in self.next_scene():
            yield event


async def play(client, setup=lambda informer: None, **options):
    """Run an informer until the script is over; return it and the changes it notified of."""
    changes = []
    informer = Informer(client, WIDGETS, **options)
    informer.add_handler(lambda change: changes.append((change.type, change.key[1])))
    setup(informer)
    running = asyncio.create_task(informer.run())
    await asyncio.wait_for(client.is_over.wait(), 10)
    running.cancel()
    return informer, changes


def event(type_, obj):
    return WatchEvent(type=type_, object=obj)


async def test_lists_then_watches_from_the_list():
    client = ScriptedClient([5, widget("a", 3)], [event("ADDED", widget("b", 6))])
    informer, changes = await play(client)
    assert client.calls[:2] == ["list", "watch 5"]
    assert changes == [("ADDED", "a"), ("ADDED", "b")]
    assert informer.is_synced


async def test_a_watch_that_ends_is_resumed_where_it_was():
    client = ScriptedClient([5], [event("ADDED", widget("a", 7))], [event("MODIFIED", widget("a", 8))])
    _, changes = await play(client)
    assert client.calls == ["list", "watch 5", "watch 7", "watch 8"]
    assert changes == [("ADDED", "a"), ("MODIFIED", "a")]


async def test_bookmarks_move_the_place_to_resume_from():
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "40"}})
    client = ScriptedClient([5], [bookmark])
    _, changes = await play(client)
    assert (client.calls[-1], changes) == ("watch 40", [])


async def test_gone_means_list_again_and_tell_the_difference():
    client = ScriptedClient(
        [5, widget("same", 1), widget("changed", 2), widget("lost", 3)],
        expired("too old"),
        [9, widget("same", 1), widget("changed", 8), widget("new", 9)],
    )
    informer, changes = await play(client)
    assert changes[3:] == [("DELETED", "lost"), ("MODIFIED", "changed"), ("ADDED", "new")]
    assert {obj["metadata"]["name"] for obj in informer.items()} == {"same", "changed", "new"}


async def test_a_recreated_object_is_deleted_and_added():
    client = ScriptedClient([5, widget("a", 1, uid="1")], expired(""), [9, widget("a", 8, uid="2")])
    _, changes = await play(client)
    assert changes == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]


async def test_failures_wait_longer_each_time():
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    client = ScriptedClient(OSError("down"), ApiError(500, "", "down"), OSError("down"), [1])
    await play(client, sleep=sleep)
    assert len(waits) == 3
    assert waits[2] > waits[0]


async def test_indexes_follow_changes():
    client = ScriptedClient(
        [5, widget("a", 1, app="x"), widget("b", 2, app="x")], [event("MODIFIED", widget("a", 6, app="y"))]
    )
    informer, _ = await play(
        client, lambda informer: informer.add_index("app", lambda obj: [obj["metadata"]["labels"]["app"]])
    )
    assert [obj["metadata"]["name"] for obj in informer.indexed("app", "x")] == ["b"]
    assert [obj["metadata"]["name"] for obj in informer.indexed("app", "y")] == ["a"]


async def test_a_late_handler_hears_of_everything():
    informer, _ = await play(ScriptedClient([5, widget("a", 1)]))
    heard = []
    informer.add_handler(lambda change: heard.append(change.key[1]))
    assert heard == ["a"]


async def test_a_faulty_handler_does_not_stop_the_others(caplog):
    def fail(change):
        raise RuntimeError("boom")

    client = ScriptedClient([5, widget("a", 1), widget("b", 2)])
    informer = Informer(client, WIDGETS)
    heard = []
    informer.add_handler(fail)
    informer.add_handler(lambda change: heard.append(change.key[1]))
    running = asyncio.create_task(informer.run())
    await asyncio.wait_for(client.is_over.wait(), 10)
    running.cancel()
    assert heard == ["a", "b"]


async def test_resync_tells_everything_again():
    ticks = asyncio.Queue()

    async def sleep(seconds):
        await ticks.get()

    client = ScriptedClient([5, widget("a", 1)])
    changes = []
    informer = Informer(client, WIDGETS, resync_seconds=60, sleep=sleep)
    heard_twice = asyncio.Event()

    def hear(change):
        changes.append((change.type, change.old is change.object))
        if len(changes) == 2:
            heard_twice.set()

    informer.add_handler(hear)
    running = asyncio.create_task(informer.run())
    await informer.synced()
    ticks.put_nowait(None)
    await asyncio.wait_for(heard_twice.wait(), 10)
    running.cancel()
    assert changes == [("ADDED", False), ("MODIFIED", True)]


@pytest.mark.parametrize("code", [401, 403, 500])
async def test_refusals_are_retried_not_raised(code):
    async def sleep(seconds):
        return

    client = ScriptedClient(ApiError(code, "", "no"), [1, widget("a", 1)])
    _, changes = await play(client, sleep=sleep)
    assert changes == [("ADDED", "a")]


class PagedClient(ScriptedClient):
    """A client in the server's own process: each page is there at once."""

    async def list(self, resource, namespace="", options=None):
        page = int(options.continue_token or 0)
        token = str(page + 1) if page < 3 else ""
        return ObjectList(items=[widget(f"w{page}", 5)], resource_version="5", continue_token=token)


async def test_a_long_list_arrives_by_pages_and_leaves_the_loop_to_others():
    log = []
    client = PagedClient()

    async def others():
        while True:
            log.append("other")
            await asyncio.sleep(0)

    reflector = Reflector(
        client,
        WIDGETS,
        on_list=lambda items, _version: log.append(len(items)),
        on_event=lambda _type, _obj: None,
        on_page=lambda items: log.append(items[0]["metadata"]["name"]),
    )
    tasks = [asyncio.create_task(reflector.run()), asyncio.create_task(others())]
    await asyncio.wait_for(client.is_over.wait(), 10)
    for task in tasks:
        task.cancel()
    assert log[: log.index(4) + 1] == ["w0", "other", "w1", "other", "w2", "other", "w3", 4]
