"""Lists at versions and watches in all their forms, on the core itself."""

import asyncio
import dataclasses

import pytest

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Kind, Scheme
from pykueue.apiserver.calls import DeleteCall, ListCall, ResourceTarget, WatchCall, WriteCall
from pykueue.apiserver.core import Core
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store

NAMESPACE = Kind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
CONFIG_MAP = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True, has_status=False)
ALL = ResourceTarget(kind=CONFIG_MAP, namespace="default")


class Recorder:
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
    core = Core(Store(MemoryLog(), history_changes=10), Scheme([NAMESPACE, CONFIG_MAP]))
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


async def test_watches_share_their_first_events(core):
    """A client that does not read keeps them in memory, and may have hundreds of watches."""
    await make(core, "a")
    sinks = [Recorder() for _ in range(3)]
    for sink in sinks[:2]:
        await core.watch(ALL, WatchCall(), sink)
    assert sinks[0].frames[0] is sinks[1].frames[0]
    await make(core, "b")
    await core.watch(ALL, WatchCall(), sinks[2])
    assert sinks[2].events == [("ADDED", "a"), ("ADDED", "b")]
    assert sinks[2].frames[0] is sinks[0].frames[0]


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

    broken = dataclasses.replace(CONFIG_MAP, version="v0", from_storage=fail)
    first, second = Recorder(), Recorder()
    await core.watch(ResourceTarget(kind=broken, namespace="default"), WatchCall(), first)
    await core.watch(ALL, WatchCall(), second)
    await make(core, "a")
    assert first.closed.is_set()
    assert second.events == [("ADDED", "a")]
