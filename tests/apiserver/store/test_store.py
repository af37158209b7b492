"""The contract of the store, on both logs."""

import pytest

from pykueue.apiserver.store.log import StoreError
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.rows import StoreKey
from pykueue.apiserver.store.sqlite import SqliteLog
from pykueue.apiserver.store.store import Store


@pytest.fixture(params=["memory", "sqlite"])
def reopen(request, tmp_path):
    """Opens a store on the same data again and again."""
    memory = MemoryLog()
    return lambda **limits: Store(memory if request.param == "memory" else SqliteLog(tmp_path), **limits)


def key(name, namespace="default"):
    return StoreKey("", "pods", namespace, name)


def pod(name, **labels):
    return {"metadata": {"name": name, "labels": labels}}


async def put(store, name, **labels):
    stored = store.put(key(name), pod(name, **labels))
    await store.settled(stored.revision)
    return stored


async def remove(store, name):
    stored = store.remove(key(name), store.head(key(name)).decode())
    await store.settled(stored.revision)
    return stored


async def test_a_write_is_visible_when_settled(reopen):
    store = reopen()
    stored = store.put(key("a"), pod("a"))
    assert store.get(key("a")) is None
    await store.settled(stored.revision)
    assert store.get(key("a")) is stored
    await store.close()


async def test_head_is_ahead_of_what_is_visible(reopen):
    store = reopen()
    stored = store.put(key("a"), pod("a"))
    assert store.head(key("a")) is stored
    await store.close()


async def test_resource_version_is_the_revision(reopen):
    store = reopen()
    stored = await put(store, "a")
    assert stored.decode()["metadata"]["resourceVersion"] == str(stored.revision)
    await store.close()


async def test_objects_survive_reopening(reopen):
    store = reopen()
    stored = await put(store, "a", x="1")
    await store.close()
    store = reopen()
    assert (store.get(key("a")).data, store.revision) == (stored.data, stored.revision)
    await store.close()


async def test_deletion_survives_reopening(reopen):
    store = reopen()
    await put(store, "a")
    await remove(store, "a")
    await store.close()
    store = reopen()
    assert store.get(key("a")) is None
    await store.close()


async def test_a_name_may_be_used_again(reopen):
    store = reopen()
    for _ in range(3):
        await put(store, "a")
        await remove(store, "a")
    await put(store, "a", x="last")
    assert store.get(key("a")).meta.labels == {"x": "last"}
    await store.close()


async def test_a_name_may_be_used_again_while_its_past_is_compacted(reopen):
    store = reopen(history_changes=4)
    await put(store, "a")
    await remove(store, "a")
    for _ in range(3):
        await put(store, "b")
    assert store.floor == 2
    await put(store, "a", x="again")
    await store.close()
    store = reopen()
    assert store.get(key("a")).meta.labels == {"x": "again"}
    await store.close()


async def test_selection_is_ordered_and_narrowed_by_namespace(reopen):
    store = reopen()
    for namespace, name in [("b", "x"), ("a", "z"), ("a", "y"), ("ab", "w")]:
        store.put(key(name, namespace), pod(name))
    await store.settled(4)
    assert [tuple(stored.key[2:]) for stored in store.select("", "pods", "a")] == [("a", "y"), ("a", "z")]
    assert [stored.key.name for stored in store.select("", "pods")] == ["y", "z", "w", "x"]
    await store.close()


async def test_selection_at_an_old_revision(reopen):
    store = reopen()
    first = await put(store, "a", x="1")
    second = await put(store, "b")
    await put(store, "a", x="2")
    await remove(store, "b")
    assert store.select_at(second.revision, "", "pods") == [first, second]
    await store.close()


async def test_history_is_complete_after_reopening(reopen):
    store = reopen()
    for name in "abc":
        await put(store, name)
    await remove(store, "b")
    await store.close()
    store = reopen()
    assert [(change.now.key.name, change.is_deleted) for change in store.changes_after(1)] == [
        ("b", False),
        ("c", False),
        ("b", True),
    ]
    await store.close()


async def test_history_is_bounded(reopen):
    store = reopen(history_changes=10)
    for number in range(50):
        await put(store, "a", x=str(number))
    assert len(store.changes_after(store.floor)) <= 10
    assert store.floor + len(store.changes_after(store.floor)) == store.revision == 50
    await store.close()


async def test_compaction_keeps_every_current_object(reopen):
    store = reopen(history_changes=10)
    await put(store, "old", x="kept")
    for number in range(50):
        await put(store, "a", x=str(number))
        await put(store, f"gone-{number}")
        await remove(store, f"gone-{number}")
    revision = store.revision
    await store.close()
    store = reopen(history_changes=10)
    assert [stored.meta.labels for stored in store.select("", "pods")] == [{"x": "49"}, {"x": "kept"}]
    assert store.revision == revision
    await store.close()


async def test_floor_survives_reopening(reopen):
    store = reopen(history_changes=4)
    for number in range(20):
        await put(store, "a", x=str(number))
    floor = store.floor
    await put(store, "a")
    await store.close()
    store = reopen()
    assert store.floor >= floor > 0
    await store.close()


async def test_listeners_get_each_change_once_and_in_order(reopen):
    store = reopen()
    heard = []
    store.listeners.append(lambda changes: heard.extend(change.revision for change in changes))
    for number in range(20):
        stored = store.put(key(f"n{number % 3}"), pod("n"))
    await store.settled(stored.revision)
    await store.close()
    assert heard == list(range(1, 21))


async def test_many_writes_share_a_commit():
    log = MemoryLog()
    store = Store(log)
    batches = []
    commit = log.commit
    log.commit = lambda rows, dead, floor: (batches.append(len(rows)), commit(rows, dead, floor))
    for number in range(100):
        stored = store.put(key(f"n{number}"), pod("n"))
    await store.settled(stored.revision)
    assert batches == [100]


class FullDisk(MemoryLog):
    is_full = False

    def commit(self, rows, dead, floor):
        if self.is_full:
            raise StoreError("No space is left")
        super().commit(rows, dead, floor)


async def test_a_failed_commit_is_rolled_back():
    log = FullDisk()
    store = Store(log)
    first = await put(store, "a", x="1")
    log.is_full = True
    refused = store.put(key("a"), pod("a", x="2"))
    with pytest.raises(StoreError, match="No space"):
        await store.settled(refused.revision)
    assert (store.head(key("a")), store.get(key("a"))) == (first, first)
    log.is_full = False
    assert (await put(store, "a", x="3")).revision == first.revision + 1


async def test_a_failing_listener_does_not_stop_the_others(caplog):
    store = Store(MemoryLog())
    heard = []
    store.listeners += [lambda changes: 1 / 0, heard.extend]
    await put(store, "a")
    await put(store, "b")
    assert len(heard) == 2


async def test_an_unexpected_failure_is_logged_and_does_not_stop_the_store(caplog):
    class Broken(MemoryLog):
        is_broken = True

        def commit(self, rows, dead, floor):
            if self.is_broken:
                raise ZeroDivisionError("of all things")
            super().commit(rows, dead, floor)

    store = Store(log := Broken())
    with pytest.raises(StoreError, match="of all things"):
        await put(store, "a")
    log.is_broken = False
    assert (await put(store, "a")).revision == 1


async def test_an_object_at_rest_is_compressed_and_read_as_before(reopen):
    store = reopen(history_changes=4)
    obj = {
        "metadata": {
            "name": "resting",
            "managedFields": [{"manager": "somebody", "fieldsV1": {"f:spec": {}}}],
            "labels": {"team": "a" * 500},
        },
        "spec": {"x": "y"},
    }
    stored = store.put(key("resting"), obj)
    await store.settled(stored.revision)
    text, managed, unmanaged, labels = stored.data, stored.managed(), stored.decode_unmanaged(), stored.meta.labels
    assert stored.size == len(text)
    for number in range(8):
        await put(store, "busy", number=str(number))
    assert store.get(key("resting")) is stored
    assert stored.size < len(text) / 2
    assert (stored.data, stored.managed(), stored.meta.labels) == (text, managed, labels)
    assert stored.decode_unmanaged() == stored.shared() == unmanaged
    written = store.put(key("resting"), stored.decode() | {"spec": {"x": "z"}})
    await store.settled(written.revision)
    (change,) = store.changes_after(written.revision - 1)
    assert change.before.data == text
    await store.close()


async def test_an_object_that_is_written_often_is_not_compressed(reopen):
    store = reopen(history_changes=4)
    for number in range(12):
        await put(store, "busy", number=str(number))
    stored = store.get(key("busy"))
    assert stored.size == len(stored.data)
    await store.close()
