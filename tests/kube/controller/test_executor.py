"""The executor on a client that remembers what it was sent, and refuses some of it."""

import asyncio

import pytest

from pykueue.api import errors, resources
from pykueue.kube.clock import WallClock
from pykueue.kube.controller import writes
from pykueue.kube.controller.cache import ObjectCache
from pykueue.kube.controller.event_recorder import CoreEvents, EventRecorder
from pykueue.kube.controller.executor import ObjectDeletedError, OrderedWrites, WriteExecutor


class RecordingClient:
    """Answers every patch with the next version; refuses to write to objects named in `refused`."""

    def __init__(self, *refused):
        self.refused = refused
        self.patches = []
        self.version = 100

    async def patch(self, resource, name, namespace, patch, **_options):
        if name in self.refused:
            raise errors.conflict("", resource.plural, name, "changed")
        self.patches.append((name, patch))
        self.version += 1
        metadata = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": str(self.version)}
        return {"kind": resource.kind, "metadata": metadata}

    async def delete(self, resource, name, namespace, _options):
        if name in self.refused:
            raise errors.not_found("", resource.plural, name)


def pod(name, **spec):
    return {"metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "7"}, "spec": spec}


def update(name, **spec):
    return writes.Update(resource=resources.POD, old=pod(name), new=pod(name, **spec))


def executor(client, cache=None):
    return WriteExecutor(client, cache or ObjectCache(), EventRecorder(client, WallClock(), CoreEvents()), "test")


async def test_an_update_is_guarded_by_the_version_that_was_read():
    client = RecordingClient()
    await executor(client).apply([update("a", nodeName="x")])
    assert client.patches == [("a", {"spec": {"nodeName": "x"}, "metadata": {"resourceVersion": "7"}})]


async def test_the_second_update_of_a_plan_is_guarded_by_the_answer_to_the_first():
    client = RecordingClient()
    await executor(client).apply([update("a", nodeName="x"), update("a", hostname="y")])
    assert [patch["metadata"]["resourceVersion"] for _, patch in client.patches] == ["7", "101"]


async def test_the_answer_is_in_the_cache_before_the_next_write():
    cache = ObjectCache()
    await executor(RecordingClient(), cache).apply([update("a", nodeName="x")])
    assert cache.get(resources.POD, "a", "n")["metadata"]["resourceVersion"] == "101"


async def test_a_plan_ends_at_the_first_refusal():
    client = RecordingClient("a")
    with pytest.raises(errors.ApiError):
        await executor(client).apply([update("a", nodeName="x"), update("b", nodeName="x")])
    assert client.patches == []


async def test_a_sync_is_sent_a_refusal_and_goes_on():
    client = RecordingClient("a")

    def sync():
        results = yield [update("a", nodeName="x"), update("b", nodeName="x")]
        return writes.Done(errors=writes.refusals(results))

    done = await executor(client).run(sync())
    assert (len(done.errors), [name for name, _ in client.patches]) == (1, ["b"])


async def test_a_deleted_object_is_marked_until_the_watch_shows_it():
    cache = ObjectCache()
    cache.observe(resources.POD, pod("a"))
    await executor(RecordingClient(), cache).apply([writes.Delete(resource=resources.POD, object=pod("a"))])
    assert "deletionTimestamp" in cache.get(resources.POD, "a", "n")["metadata"]


async def test_deleting_an_object_that_is_gone_is_no_error():
    await executor(RecordingClient("a")).apply([writes.Delete(resource=resources.POD, object=pod("a"))])


class ForgetfulClient(RecordingClient):
    """Knows nothing of the objects in `missing`, and has another object in the place of `replaced`."""

    def __init__(self, *missing, replaced=()):
        super().__init__()
        self.missing = missing
        self.replaced = replaced

    async def patch(self, resource, name, namespace, patch, **options):
        if name in (*self.missing, *self.replaced):
            raise errors.not_found("", resource.plural, name)
        return await super().patch(resource, name, namespace, patch, **options)

    async def get(self, resource, name, namespace):
        if name in self.missing:
            raise errors.not_found("", resource.plural, name)
        metadata = {"name": name, "namespace": namespace, "uid": "another", "resourceVersion": "50"}
        return {"kind": resource.kind, "metadata": metadata}


def cache_with(*names):
    cache = ObjectCache()
    cache.replace(resources.POD, [pod(name) for name in names], "7")
    return cache


async def test_an_object_that_a_write_does_not_find_leaves_the_cache():
    cache = cache_with("a", "b")
    with pytest.raises(ObjectDeletedError):
        await executor(ForgetfulClient("a"), cache).write(update("a", nodeName="x"))
    assert [obj["metadata"]["name"] for obj in cache.all(resources.POD)] == ["b"]


async def test_another_object_of_its_name_takes_its_place():
    cache = cache_with("a")
    with pytest.raises(ObjectDeletedError):
        await executor(ForgetfulClient(replaced=("a",)), cache).write(update("a", nodeName="x"))
    assert cache.get(resources.POD, "a", "n")["metadata"]["uid"] == "another"


async def test_a_plan_goes_on_with_other_objects_when_one_does_not_exist():
    """Freeing quota does not wait for stopping what is gone."""
    client = ForgetfulClient("job")
    plan = [update("job", nodeName="x"), update("workload", nodeName="x"), update("job", hostname="y")]
    with pytest.raises(ObjectDeletedError):
        await executor(client).apply(plan)
    assert [name for name, _ in client.patches] == ["workload"]


async def test_a_write_that_fails_again_and_again_is_logged_and_an_event(caplog):
    client, recorded = RecordingClient("a"), []
    failing = executor(client)
    failing.record = recorded.append
    for _ in range(40):
        with pytest.raises(errors.ApiError):
            await failing.write(update("a", nodeName="x"))
    assert [(event.reason, event.about["metadata"]["name"]) for event in recorded] == [("FailedUpdate", "a")] * 3
    assert "failed 40 times in a row" in recorded[-1].message
    assert len(caplog.records) == 3


async def test_a_success_ends_a_row_of_failures(caplog):
    client = RecordingClient("a")
    failing = executor(client)
    for _ in range(9):
        with pytest.raises(errors.ApiError):
            await failing.write(update("a", nodeName="x"))
    client.refused = ()
    await failing.write(update("a", nodeName="x"))
    client.refused = ("a",)
    with pytest.raises(errors.ApiError):
        await failing.write(update("a", nodeName="x"))
    assert caplog.records == []


async def test_few_of_many_writes_begin_in_one_turn_of_the_event_loop():
    ordered, begun, answer = OrderedWrites(limit=50, per_turn=4), [], asyncio.Event()

    async def write(number):
        begun.append(number)
        await answer.wait()

    for number in range(40):
        ordered.submit(number, lambda number=number: write(number))
    in_turn = []
    while len(begun) < 40:
        before = len(begun)
        await asyncio.sleep(0)
        in_turn.append(len(begun) - before)
    answer.set()
    assert begun == list(range(40))
    assert max(in_turn) <= 4
    assert await ordered.end(5)
