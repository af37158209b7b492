"""Lists at versions and watches in all their forms, on the core itself."""

import asyncio

import pytest
from msgspec import structs

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Kind, Scheme
from pykueue.apiserver.calls import DeleteCall, ListCall, ResourceTarget, Sink, WatchCall, WriteCall
from pykueue.apiserver.core import Core
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.rows import Stored
from pykueue.apiserver.store.store import Store

NAMESPACE = Kind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
CONFIG_MAP = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True, has_status=False)
SECRET = Kind(group="", version="v1", kind="Secret", plural="secrets", namespaced=True, has_status=False)
ALL = ResourceTarget(kind=CONFIG_MAP, namespace="default")
SECRETS = ResourceTarget(kind=SECRET, namespace="default")
CALL = WriteCall()


class Recorder(Sink):
    """A sink that records its frames."""

    def __init__(self):
        self.frames = []
        self.closed = asyncio.Event()

    def send(self, frame):
        self.frames.append(frame)

    def close(self):
        self.closed.set()

    @property
    def events(self):
        return [(frame.type, frame.decode()["metadata"].get("name")) for frame in self.frames]


@pytest.fixture
async def core():
    core = Core(Store(MemoryLog(), history_changes=10), Scheme([NAMESPACE, CONFIG_MAP, SECRET]))
    await core.start()
    await core.create(ResourceTarget(kind=NAMESPACE), {"metadata": {"name": "default"}}, WriteCall())
    yield core
    await core.stop()


async def make(core, name, **labels):
    body = {"metadata": {"name": name, "labels": labels}}
    return (await core.create(ALL, body, WriteCall())).decode()["metadata"]["resourceVersion"]


async def names(core, **call):
    return [obj["metadata"]["name"] for obj in (await core.list(ALL, ListCall(**call))).decode()]


async def refusal(awaitable):
    with pytest.raises(ApiError) as refused:
        await awaitable
    return refused.value


async def test_a_list_at_an_exact_version(core):
    version = await make(core, "a")
    await make(core, "b")
    assert await names(core, resource_version=version, resource_version_match="Exact") == ["a"]


async def test_a_list_not_older_than_a_version_is_the_newest(core):
    version = await make(core, "a")
    await make(core, "b")
    assert await names(core, resource_version=version, resource_version_match="NotOlderThan") == ["a", "b"]


async def test_a_version_that_was_compacted_is_gone(core):
    version = await make(core, "a")
    for number in range(20):
        await make(core, f"n{number}")
    error = await refusal(core.list(ALL, ListCall(resource_version=version, resource_version_match="Exact")))
    assert (error.code, error.reason) == (410, "Expired")
    error = await refusal(core.watch(ALL, WatchCall(resource_version=version), Recorder()))
    assert (error.code, error.reason) == (410, "Expired")


async def test_a_page_of_a_compacted_list_is_gone(core):
    await make(core, "a")
    await make(core, "b")
    token = (await core.list(ALL, ListCall(limit=1))).continue_token
    for number in range(20):
        await make(core, f"n{number}")
    error = await refusal(core.list(ALL, ListCall(limit=1, continue_token=token)))
    assert error.code == 410
    assert error.message.startswith("The provided continue parameter is too old")


async def test_a_page_says_how_many_remain(core):
    for name in "abc":
        await make(core, name)
    assert (await core.list(ALL, ListCall(limit=1))).remaining_item_count == 2


async def test_a_match_without_a_version_is_refused(core):
    error = await refusal(core.list(ALL, ListCall(resource_version_match="Exact")))
    assert (error.code, error.details["causes"][0]["field"]) == (422, "resourceVersionMatch")


async def test_initial_events_end_with_a_bookmark(core):
    await make(core, "a")
    sink = Recorder()
    call = WatchCall(send_initial_events=True, resource_version_match="NotOlderThan", allow_bookmarks=True)
    await core.watch(ALL, call, sink)
    assert sink.events == [("ADDED", "a"), ("BOOKMARK", None)]
    assert sink.frames[-1].decode()["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_initial_events_can_be_declined(core):
    await make(core, "a")
    sink = Recorder()
    await core.watch(ALL, WatchCall(send_initial_events=False, resource_version_match="NotOlderThan"), sink)
    await make(core, "b")
    assert sink.events == [("ADDED", "b")]


async def test_bookmarks_carry_the_newest_version_of_all(core):
    sink = Recorder()
    await core.watch(ALL, WatchCall(allow_bookmarks=True), sink)
    newest = (await core.create(ResourceTarget(kind=NAMESPACE), {"metadata": {"name": "other"}}, WriteCall())).decode()
    core.hub.send_bookmarks()
    assert sink.frames[-1].decode()["metadata"]["resourceVersion"] == newest["metadata"]["resourceVersion"]


async def test_a_watch_ends_when_its_time_is_over(core):
    sink = Recorder()
    await core.watch(ALL, WatchCall(timeout_seconds=0.01), sink)
    await asyncio.wait_for(sink.closed.wait(), 10)


async def test_a_cancelled_watch_gets_no_more_events(core):
    sink = Recorder()
    watch = await core.watch(ALL, WatchCall(), sink)
    watch.cancel()
    await make(core, "a")
    assert sink.frames == []
    assert not sink.closed.is_set()


async def test_a_stop_ends_every_watch():
    core = Core(Store(MemoryLog()), Scheme([NAMESPACE, CONFIG_MAP]))
    await core.start()
    sink = Recorder()
    await core.watch(ALL, WatchCall(), sink)
    await core.stop()
    assert sink.closed.is_set()


async def test_watchers_share_a_frame(core):
    first, second = Recorder(), Recorder()
    await core.watch(ALL, WatchCall(), first)
    await core.watch(ALL, WatchCall(), second)
    await make(core, "a")
    assert first.frames[0] is second.frames[0]


async def test_a_watch_of_one_object(core):
    sink = Recorder()
    await core.watch(ResourceTarget(kind=CONFIG_MAP, namespace="default", name="b"), WatchCall(), sink)
    await make(core, "a")
    await make(core, "b")
    assert sink.events == [("ADDED", "b")]


async def test_a_collection_is_deleted_by_selector(core):
    await make(core, "a", keep="no")
    await make(core, "b")
    await core.delete_collection(ALL, ListCall(label_selector="keep=no"), DeleteCall())
    assert await names(core) == ["b"]


async def test_a_deletion_answers_with_a_status(core):
    await make(core, "a")
    answer = await core.delete(ResourceTarget(kind=CONFIG_MAP, namespace="default", name="a"), DeleteCall())
    status = answer.decode()
    assert (status["kind"], status["status"], status["details"]["name"]) == ("Status", "Success", "a")


async def test_a_dry_deletion_deletes_nothing(core):
    await make(core, "a")
    await core.delete(ResourceTarget(kind=CONFIG_MAP, namespace="default", name="a"), DeleteCall(dry_run=True))
    assert await names(core) == ["a"]


async def test_a_full_disk_is_an_internal_error_and_leaves_no_trace(core):
    from pykueue.apiserver.store.log import StoreError

    def refuse(rows, dead, floor):
        raise StoreError("No space is left")

    core.store._log.commit = refuse
    error = await refusal(make(core, "a"))
    assert (error.code, error.message) == (500, "Internal error occurred: No space is left")
    assert await names(core) == []


async def test_a_watcher_that_cannot_be_shown_a_change_is_ended_and_the_others_go_on(core, caplog):
    def fail(obj):
        raise ValueError("no such shape")

    broken = structs.replace(CONFIG_MAP, version="v0", from_storage=fail)
    first, second = Recorder(), Recorder()
    await core.watch(ResourceTarget(kind=broken, namespace="default"), WatchCall(), first)
    await core.watch(ALL, WatchCall(), second)
    await make(core, "a")
    assert first.closed.is_set()
    assert second.events == [("ADDED", "a")]


async def turns_of(work):
    """How many turns of the event loop the work takes, and its result."""
    task, turns = asyncio.ensure_future(work), 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    return turns, await task


@pytest.fixture
async def many(core):
    """The target of 1,000 objects."""
    for number in range(1000):
        await core.create(SECRETS, {"metadata": {"name": f"s{number}"}, "type": "odd" if number % 2 else "even"}, CALL)
    return SECRETS


async def test_a_list_that_decodes_every_object_gives_others_their_turns(core, many):
    turns, page = await turns_of(core.list(many, ListCall(field_selector="type=odd")))
    assert len(page.items) == 500
    assert turns > 10
    turns, page = await turns_of(core.list(many, ListCall()))
    assert len(page.items) == 1000
    assert turns == 1


async def test_a_list_that_converts_every_object_gives_others_their_turns(core, many):
    converted = structs.replace(many.kind, version="v1beta1", from_storage=lambda obj: {**obj, "x": 1})
    turns, page = await turns_of(core.list(ResourceTarget(kind=converted, namespace="default"), ListCall()))
    assert page.decode()[0]["x"] == 1
    assert turns > 10


async def test_lists_of_another_namespace_take_turns_with_long_ones(core, many):
    long = [asyncio.ensure_future(core.list(many, ListCall(field_selector="type=odd"))) for _ in range(5)]
    await asyncio.sleep(0)
    other = ResourceTarget(kind=SECRET, namespace="other")
    await core.list(other, ListCall(field_selector="type=odd"))
    assert not any(task.done() for task in long)
    await asyncio.gather(*long)


async def test_a_list_shows_one_revision_while_others_write(core, many):
    listing = asyncio.ensure_future(core.list(many, ListCall(field_selector="type=odd")))
    await asyncio.sleep(0)
    await core.delete(ResourceTarget(kind=SECRET, namespace="default", name="s999"), DeleteCall())
    page = await listing
    assert len(page.items) == 500


@pytest.mark.parametrize("begin", ["", "oldest"])
async def test_the_first_events_of_a_watch_are_made_as_they_are_taken(core, begin):
    oldest = await make(core, "a")
    for name in "bcd":
        await make(core, name)

    class Lazy(Recorder):
        def send_first(self, frames):
            self.first = frames

    sink = Lazy()
    await core.watch(ALL, WatchCall(resource_version=oldest if begin else ""), sink)
    await make(core, "e")
    assert sink.events == [("ADDED", "e")]
    names = [frame.decode()["metadata"]["name"] for frame in sink.first if not isinstance(frame, int)]
    assert names == (["b", "c", "d"] if begin else ["a", "b", "c", "d"])


async def test_watches_with_field_selectors_share_what_is_decoded(core, monkeypatch):
    """One change may go to hundreds of watches."""
    sinks = [Recorder() for _ in range(20)]
    for number, sink in enumerate(sinks):
        await core.watch(SECRETS, WatchCall(field_selector=f"type=t{number % 2}"), sink)
    decoded = []
    decode = Stored.decode
    monkeypatch.setattr(Stored, "decode", lambda stored: decoded.append(stored.revision) or decode(stored))
    await core.create(SECRETS, {"metadata": {"name": "a"}, "type": "t1"}, CALL)
    assert [len(sink.frames) for sink in sinks] == [0, 1] * 10
    assert len(decoded) <= 2


async def test_a_deleted_collection_gives_others_their_turns(core, many):
    turns, page = await turns_of(core.delete_collection(many, ListCall(), DeleteCall(dry_run=True)))
    assert len(page.items) == 1000
    assert turns > 100
    await core.delete_collection(many, ListCall(), DeleteCall())
    assert (await core.list(many, ListCall())).items == []
