"""Garbage collection, namespace deletion and event expiry."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Kind, Scheme
from pykueue.apiserver.controllers import event_expiry
from pykueue.apiserver.controllers.event_expiry import EventExpiry
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.kube.client import DeleteOptions

KINDS = {
    "namespaces": Kind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False),
    "pods": Kind(group="", version="v1", kind="Pod", plural="pods", namespaced=True),
    "configmaps": Kind(
        group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True, has_status=False
    ),
    "events": Kind(group="", version="v1", kind="Event", plural="events", namespaced=True, has_status=False),
    "jobs": Kind(group="batch", version="v1", kind="Job", plural="jobs", namespaced=True),
}
NAMESPACES, PODS, CONFIG_MAPS, EVENTS, JOBS = (kind.resource for kind in KINDS.values())


@pytest.fixture
async def core():
    core = Core(Store(MemoryLog()), Scheme(KINDS.values()))
    await core.start()
    yield core
    await core.stop()


@pytest.fixture
async def client(core):
    client = LocalClient(core, core.scheme)
    await client.create(NAMESPACES, {"metadata": {"name": "default"}})
    return client


async def idle(core):
    """Wait until the controllers have nothing left to do."""
    for _ in range(20):
        await asyncio.wait_for(core.garbage.queue.idle(), 10)
        await asyncio.wait_for(core.namespace_terminator.queue.idle(), 10)
        await asyncio.sleep(0)


def owned_by(*owners, block=False):
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]


async def make(client, resource, name, owners=(), *, block=False, finalizers=()):
    metadata = {"name": name, "namespace": "default", "finalizers": list(finalizers)}
    return await client.create(resource, {"metadata": {**metadata, "ownerReferences": owned_by(*owners, block=block)}})


async def exists(client, resource, name, namespace="default"):
    page = await client.list(resource, namespace)
    return name in {obj["metadata"]["name"] for obj in page.items}


def policy(name):
    return DeleteOptions(propagation_policy=name)


async def test_dependents_follow_their_owner(core, client):
    job = await make(client, JOBS, "j")
    pod = await make(client, PODS, "p", [job])
    await make(client, CONFIG_MAPS, "c", [pod])
    await client.delete(JOBS, "j", "default", policy("Background"))
    await idle(core)
    assert [await exists(client, PODS, "p"), await exists(client, CONFIG_MAPS, "c")] == [False, False]


async def test_a_second_owner_keeps_a_dependent(core, client):
    first, second = await make(client, JOBS, "a"), await make(client, JOBS, "b")
    await make(client, PODS, "p", [first, second])
    await client.delete(JOBS, "a", "default", policy("Background"))
    await idle(core)
    references = (await client.get(PODS, "p", "default"))["metadata"]["ownerReferences"]
    assert [reference["name"] for reference in references] == ["b"]


async def test_orphans_stay_without_an_owner(core, client):
    job = await make(client, JOBS, "j")
    await make(client, PODS, "p", [job])
    await client.delete(JOBS, "j", "default", policy("Orphan"))
    await idle(core)
    assert not await exists(client, JOBS, "j")
    assert "ownerReferences" not in (await client.get(PODS, "p", "default"))["metadata"]


async def test_jobs_orphan_their_pods_unless_told_otherwise(core, client):
    job = await make(client, JOBS, "j")
    await make(client, PODS, "p", [job])
    await client.delete(JOBS, "j", "default")
    await idle(core)
    assert await exists(client, PODS, "p")


async def test_in_the_foreground_an_owner_waits_for_what_blocks_it(core, client):
    job = await make(client, JOBS, "j")
    await make(client, PODS, "p", [job], block=True, finalizers=["example.dev/hold"])
    await client.delete(JOBS, "j", "default", policy("Foreground"))
    await idle(core)
    assert await exists(client, JOBS, "j")
    assert (await client.get(PODS, "p", "default"))["metadata"]["deletionTimestamp"]
    await client.patch(PODS, "p", "default", {"metadata": {"finalizers": None}})
    await idle(core)
    assert not await exists(client, JOBS, "j")


async def test_in_the_foreground_what_does_not_block_is_not_waited_for(core, client):
    job = await make(client, JOBS, "j")
    await make(client, PODS, "p", [job], finalizers=["example.dev/hold"])
    await client.delete(JOBS, "j", "default", policy("Foreground"))
    await idle(core)
    assert not await exists(client, JOBS, "j")


@pytest.mark.parametrize("name", ["Foreground", "Background", "Orphan"])
async def test_events_are_no_garbage_and_wait_for_nobody(core, client, name):
    job = await make(client, JOBS, "j")
    await make(client, EVENTS, "e", [job])
    await make(client, EVENTS, "marked", finalizers=["foregroundDeletion"])
    await client.delete(JOBS, "j", "default", policy("Background"))
    await idle(core)
    assert await exists(client, EVENTS, "e")
    for event in ("e", "marked"):
        await client.delete(EVENTS, event, "default", policy(name))
        assert not await exists(client, EVENTS, event)


async def test_a_circle_of_owners_is_collected(core, client):
    """The first is owned by the third, the second by the first, the third by the second."""
    first = await client.create(CONFIG_MAPS, {"metadata": {"name": "first", "namespace": "default"}})
    second = {"metadata": {"name": "second", "namespace": "default", "ownerReferences": owned_by(first, block=True)}}
    second = await client.create(CONFIG_MAPS, second)
    third = {"metadata": {"name": "third", "namespace": "default", "ownerReferences": owned_by(second, block=True)}}
    third = await client.create(CONFIG_MAPS, third)
    circle = {"metadata": {"ownerReferences": owned_by(third, block=True)}}
    await client.patch(CONFIG_MAPS, "first", "default", circle)
    await client.delete(CONFIG_MAPS, "first", "default", DeleteOptions(propagation_policy="Foreground"))
    await idle(core)
    assert (await client.list(CONFIG_MAPS, "default")).items == []


async def test_an_owner_that_never_was(core, client):
    ghost = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "ghost", "uid": "nobody"}}
    await make(client, PODS, "p", [ghost])
    await idle(core)
    assert not await exists(client, PODS, "p")


async def test_an_owner_of_an_unknown_kind_is_not_judged(core, client):
    stranger = {"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": {"name": "x", "uid": "x"}}
    await make(client, PODS, "p", [stranger])
    await idle(core)
    assert await exists(client, PODS, "p")


@pytest.fixture
async def elsewhere(client):
    """A job of another namespace."""
    await client.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
    return await client.create(JOBS, {"metadata": {"name": "j", "namespace": "elsewhere"}})


async def test_an_owner_in_another_namespace_is_absent(core, client, elsewhere):
    await make(client, PODS, "p", [elsewhere])
    await idle(core)
    assert not await exists(client, PODS, "p")
    (event,) = (await client.list(EVENTS, "default")).items
    assert (event["reason"], event["involvedObject"]["name"]) == ("OwnerRefInvalidNamespace", "p")
    assert event["message"].endswith('does not exist in namespace "default"')


async def test_a_dependent_of_another_namespace_holds_nothing_up(core, client, elsewhere):
    await make(client, PODS, "p", [elsewhere], block=True, finalizers=["example.dev/hold"])
    await client.delete(JOBS, "j", "elsewhere", policy("Foreground"))
    await idle(core)
    assert not await exists(client, JOBS, "j", "elsewhere")
    await client.patch(PODS, "p", "default", {"metadata": {"finalizers": None}})


async def test_a_dependent_of_another_namespace_is_not_changed_with_its_owner(core, client, elsewhere):
    own = await make(client, JOBS, "own")
    await make(client, PODS, "p", [own, elsewhere], finalizers=["example.dev/hold"])
    await client.delete(JOBS, "j", "elsewhere", policy("Orphan"))
    await idle(core)
    assert not await exists(client, JOBS, "j", "elsewhere")
    references = (await client.get(PODS, "p", "default"))["metadata"]["ownerReferences"]
    assert [reference["name"] for reference in references] == ["own"]


@pytest.mark.parametrize("forged", [{"name": "other"}, {"kind": "ConfigMap", "apiVersion": "v1"}])
async def test_a_reference_with_the_uid_of_another_object_is_absent(core, client, forged):
    job = await make(client, JOBS, "j")
    reference = {**owned_by(job, block=True)[0], **forged}
    metadata = {"name": "p", "namespace": "default", "ownerReferences": [reference]}
    await client.create(PODS, {"metadata": metadata})
    await idle(core)
    assert not await exists(client, PODS, "p")


async def test_a_cluster_scoped_dependent_of_a_namespaced_owner_is_not_judged(core, client, elsewhere):
    metadata = {"name": "owned", "ownerReferences": owned_by(elsewhere)}
    await client.create(NAMESPACES, {"metadata": metadata})
    await client.delete(JOBS, "j", "elsewhere", policy("Background"))
    await idle(core)
    assert "deletionTimestamp" not in (await client.get(NAMESPACES, "owned"))["metadata"]


async def test_garbage_left_by_a_stop_is_collected_after_a_start():
    log = MemoryLog()
    first = Core(Store(log), Scheme(KINDS.values()))
    client = LocalClient(first, first.scheme)  # not started: no garbage collection
    await client.create(NAMESPACES, {"metadata": {"name": "default"}})
    job = await make(client, JOBS, "j")
    await make(client, PODS, "p", [job])
    await client.delete(JOBS, "j", "default", policy("Background"))
    await first.store.close()
    second = Core(Store(log), Scheme(KINDS.values()))
    await second.start()
    await idle(second)
    assert not await exists(LocalClient(second, second.scheme), PODS, "p")
    await second.stop()


async def test_a_namespace_goes_with_its_contents(core, client):
    await make(client, PODS, "p")
    await make(client, CONFIG_MAPS, "c")
    await client.delete(NAMESPACES, "default")
    await idle(core)
    assert not await exists(client, NAMESPACES, "default", "")
    assert (await client.list(PODS)).items == []


async def test_a_namespace_waits_for_finalizers_and_says_so(core, client):
    await make(client, PODS, "p", finalizers=["example.dev/hold"])
    await client.delete(NAMESPACES, "default")
    await idle(core)
    namespace = await client.get(NAMESPACES, "default")
    conditions = {condition["type"]: condition["message"] for condition in namespace["status"]["conditions"]}
    assert namespace["status"]["phase"] == "Terminating"
    assert conditions["NamespaceFinalizersRemaining"] == (
        "Some content in the namespace has finalizers remaining: example.dev/hold in 1 resource instances"
    )
    await client.patch(PODS, "p", "default", {"metadata": {"finalizers": None}})
    await idle(core)
    assert not await exists(client, NAMESPACES, "default", "")


async def test_nothing_is_created_in_a_namespace_that_ends(core, client):
    await make(client, PODS, "p", finalizers=["example.dev/hold"])
    await client.delete(NAMESPACES, "default")
    with pytest.raises(ApiError) as refusal:
        await make(client, PODS, "late")
    assert (refusal.value.code, refusal.value.message) == (
        403,
        'pods "late" is forbidden: unable to create new content in namespace default because it is being terminated',
    )
    await client.patch(PODS, "p", "default", {"metadata": {"finalizers": None}})


async def test_events_expire_an_hour_after_they_were_last_seen():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    core = Core(Store(MemoryLog()), Scheme(KINDS.values()), clock=lambda: now)
    client = LocalClient(core, core.scheme)
    await client.create(NAMESPACES, {"metadata": {"name": "default"}})
    await client.create(EVENTS, {"metadata": {"name": "old", "namespace": "default"}})
    again = {"metadata": {"name": "seen-again", "namespace": "default"}, "lastTimestamp": "2026-01-01T00:30:00Z"}
    await client.create(EVENTS, again)
    now += timedelta(minutes=61)
    await EventExpiry(core, core.context).sweep()
    assert [event["metadata"]["name"] for event in (await client.list(EVENTS)).items] == ["seen-again"]
    await core.store.close()


async def test_a_namespace_keeps_its_newest_events(monkeypatch):
    monkeypatch.setattr(event_expiry, "MOST_OF_A_NAMESPACE", 3)
    core = Core(Store(MemoryLog()), Scheme(KINDS.values()))
    client = LocalClient(core, core.scheme)
    for namespace in ("busy", "busy-too", "quiet"):
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    for number, namespace in [(9, "quiet"), *((number, "busy") for number in (8, 7, 6, 5, 4)), (3, "busy-too")]:
        await client.create(EVENTS, {"metadata": {"name": f"event-{number}", "namespace": namespace}})
    await client.patch(EVENTS, "event-8", "busy", {"count": 2})
    await EventExpiry(core, core.context).sweep()
    names = [event["metadata"]["name"] for event in (await client.list(EVENTS)).items]
    assert names == ["event-4", "event-5", "event-8", "event-3", "event-9"]
    await core.store.close()
