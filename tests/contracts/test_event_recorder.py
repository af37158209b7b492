"""Events recorded through every client: one object a piece of news, repeats as a series."""

import asyncio

import pytest

from pykueue.api.resources import EVENT
from pykueue.api.scheme import Resource
from pykueue.kube.clock import WallClock
from pykueue.kube.controller.event_recorder import CoreEvents, EventRecorder, EventsV1

WIDGETS = Resource("example.dev", "v1", "widgets", "Widget", namespaced=True)


@pytest.fixture
async def recorder(client):
    recorder = EventRecorder(client, WallClock(), EventsV1(instance="me-1"))
    running = asyncio.create_task(recorder.run())
    yield recorder
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def events_when(client, is_enough):
    """What is recorded, once it is enough."""
    events = []
    async with asyncio.timeout(10):
        async for event in client.watch(EVENT, "default", resource_version="0"):
            if event.type != "BOOKMARK":
                events = (await client.list(EVENT, "default")).items
            if is_enough(events):
                return events
    return events


async def test_an_event_tells_about_its_object(client, recorder):
    widget = await client.create(WIDGETS, {"metadata": {"name": "w", "namespace": "default"}})
    recorder.record(widget, reason="Admitted", message="Admitted by queue q", component="example.dev/me")
    (event,) = await events_when(client, bool)
    assert (event["reason"], event["note"], event["type"]) == ("Admitted", "Admitted by queue q", "Normal")
    assert event["regarding"]["uid"] == widget["metadata"]["uid"]


async def test_a_repeat_extends_the_series(client, recorder):
    widget = await client.create(WIDGETS, {"metadata": {"name": "w", "namespace": "default"}})
    recorder.record(widget, reason="Pending", message="no quota", component="example.dev/me", event_type="Warning")
    await events_when(client, bool)
    recorder.record(widget, reason="Pending", message="no quota", component="example.dev/me", event_type="Warning")
    (event,) = await events_when(client, lambda events: any("series" in event for event in events))
    assert event["series"]["count"] == 2


async def test_each_message_is_an_event_of_its_own(client, recorder):
    """So that every preempted Workload is named."""
    widget = await client.create(WIDGETS, {"metadata": {"name": "w", "namespace": "default"}})
    for message in ("Preempted a", "Preempted b"):
        recorder.record(widget, reason="PreemptedWorkload", message=message, component="example.dev/me")
    events = await events_when(client, lambda events: len(events) == 2)
    assert sorted(event["note"] for event in events) == ["Preempted a", "Preempted b"]


async def test_a_core_event_counts_its_repeats(client):
    recorder = EventRecorder(client, WallClock(), CoreEvents())
    widget = await client.create(WIDGETS, {"metadata": {"name": "w", "namespace": "default"}})
    for _ in range(3):
        recorder.record(widget, reason="Failed", message="no image", component="kubelet", event_type="Warning")
    running = asyncio.create_task(recorder.run())
    (event,) = await events_when(client, lambda events: any(event.get("deprecatedCount") == 3 for event in events))
    running.cancel()
    assert (event["reason"], event["note"], event["type"]) == ("Failed", "no image", "Warning")
