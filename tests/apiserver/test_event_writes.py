"""Events that controllers of this process create in one step are those that others create."""

import pytest
from tests.apiserver.test_validating_policies import binding, policy

from pykueue.api import resources
from pykueue.api.registry import scheme
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.kube.controller.event_recorder import CoreEvents, EventsV1

ABOUT = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "u"}}
FORMS = [EventsV1("me"), CoreEvents()]
EVENTS = {"apiGroups": ["", "events.k8s.io"], "apiVersions": ["*"], "resources": ["events"], "operations": ["CREATE"]}
OF_EACH = {"uid", "resourceVersion", "creationTimestamp", "name"}


@pytest.fixture
async def core():
    core = Core(Store(MemoryLog()), scheme())
    await core.start()
    await LocalClient(core, core.scheme).create(resources.NAMESPACE, {"metadata": {"name": "default"}})
    yield core
    await core.stop()


def event_of(form, name, namespace="default"):
    event = form.event(ABOUT, 10**18, event_type="Normal", reason="Started", message="It started.", component="me")
    return event | {"metadata": {"name": name, "namespace": namespace}}


async def created(core, form, *events):
    """The events that exist after these are created in one step, in their order, by name."""
    await LocalClient(core, core.scheme, is_trusted=True).create_events(form.resource, events)
    stored = core.store.select("", "events")
    return {each.key.name: each.decode() for each in sorted(stored, key=lambda each: each.revision)}


def comparable(event):
    managers = [manager | {"time": ""} for manager in event["metadata"]["managedFields"]]
    metadata = {name: value for name, value in event["metadata"].items() if name not in OF_EACH}
    assert event["metadata"].keys() >= OF_EACH
    return event | {"metadata": metadata | {"managedFields": managers}}


@pytest.mark.parametrize("form", FORMS, ids=["events.k8s.io", "core"])
async def test_the_event_is_the_one_that_an_ordinary_write_creates(core, form):
    client = LocalClient(core, core.scheme)
    await client.create(form.resource, event_of(form, "ordinary"))
    events = await created(core, form, event_of(form, "fast"), event_of(form, "again"))
    assert list(events) == ["ordinary", "fast", "again"]
    ordinary, fast, again = map(comparable, events.values())
    assert fast == ordinary
    assert again == ordinary


async def test_an_event_in_a_missing_namespace_is_dropped_and_the_others_are_not(core):
    form = CoreEvents()
    events = await created(core, form, event_of(form, "lost", "nowhere"), event_of(form, "kept"))
    assert list(events) == ["kept"]


async def test_a_taken_name_keeps_its_event(core):
    form = CoreEvents()
    before = await created(core, form, event_of(form, "taken"))
    assert await created(core, form, event_of(form, "taken")) == before


async def test_a_policy_about_events_refuses_them(core):
    client = LocalClient(core, core.scheme)
    for rule in (policy("false", rules=(EVENTS,)), binding()):
        await client.create(core.scheme.for_kind(rule["apiVersion"], rule["kind"]).resource, rule)
    assert await created(core, CoreEvents(), event_of(CoreEvents(), "refused")) == {}


async def test_a_compressed_event_is_read_patched_and_watched_as_any_object(core):
    form, client = CoreEvents(), LocalClient(core, core.scheme)
    before = await created(core, form, event_of(form, "long", "default"))
    (stored,) = core.store.select("", "events")
    assert stored.size < len(stored.data) / 2
    assert await client.get(form.resource, "long", "default") == before["long"]
    patched = await client.patch(form.resource, "long", "default", form.repeat(2, 10**18))
    assert patched == before["long"] | {
        "count": 2,
        "lastTimestamp": "2001-09-09T01:46:40Z",
        "metadata": patched["metadata"],
    }
    (manager,) = patched["metadata"]["managedFields"]
    assert manager["fieldsV1"] == before["long"]["metadata"]["managedFields"][0]["fieldsV1"]
    async for event in client.watch(
        form.resource, "default", resource_version=before["long"]["metadata"]["resourceVersion"]
    ):
        assert event.object == patched
        break
