"""A turn of the event loop does not grow with the number of objects that a user has.

A user may fill a namespace, and then cause work on all of its objects: by one request, or by a
change that a controller looks at. Others wait for the longest turn, so that work has to be done bit
by bit. The turns are measured with few and with many objects, as time of the processor.
"""

import asyncio
import contextlib
import gc
import time

import pytest

from pykueue.api import registry, resources
from pykueue.apiserver.calls import DeleteCall, ListCall, ResourceTarget, WatchCall, WriteCall
from pykueue.apiserver.core import Core
from pykueue.apiserver.http import negotiation, watch_streams
from pykueue.apiserver.http.encoding import ResponseEncoder, Shape
from pykueue.apiserver.http.slow_thread import SlowThread
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store

pytestmark = pytest.mark.untraced

FEW, MANY = 300, 1200
SHORT_SECONDS = 0.01
"""A turn that is shorter is no fault, however much it grows."""
LARGEST_RATIO = 2.5
ATTEMPTS = 3
CALL = WriteCall()
POD_LIST = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Turns:
    """Measures the steps of the event loop, which are its turns if it has one thing to do in each."""

    longest = 0.0

    @contextlib.contextmanager
    def measured(self):
        run = asyncio.events.Handle._run

        def measure(handle):
            began = time.thread_time()
            run(handle)
            self.longest = max(self.longest, time.thread_time() - began)

        gc.collect()
        gc.disable()
        asyncio.events.Handle._run = measure
        try:
            yield
        finally:
            asyncio.events.Handle._run = run
            gc.enable()


class Server:
    def __init__(self, count):
        self.scheme = registry.scheme()
        self.core = Core(Store(MemoryLog()), self.scheme)
        self.count = count

    def target(self, api_version, kind, name="", namespace="ml"):
        return ResourceTarget(kind=self.scheme.for_kind(api_version, kind), namespace=namespace, name=name)

    async def create(self, api_version, kind, name, **fields):
        metadata = {"name": name, **fields.pop("metadata", {})}
        body = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
        return (await self.core.create(self.target(api_version, kind), body, CALL)).decode()

    async def create_many(self, api_version, kind, **fields):
        for number in range(self.count):
            await self.create(api_version, kind, f"n{number}", **fields)

    async def until(self, claim):
        """Let the controllers work until the claim is true after a change."""
        changed = asyncio.Event()
        self.core.store.listeners.append(lambda _changes: changed.set())
        async with asyncio.timeout(60):
            while not claim():
                await changed.wait()
                changed.clear()


@contextlib.asynccontextmanager
async def serving(count):
    server = Server(count)
    await server.core.start()
    for name in ("ml", "default"):
        await server.core.create(server.target("v1", "Namespace"), {"metadata": {"name": name}}, CALL)
    try:
        yield server
    finally:
        await server.core.stop()


def pod(**labels):
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def a_list_with_a_field_selector(server, turns):
    await server.create_many("v1", "Secret", type="x")
    with turns.measured():
        await server.core.list(server.target("v1", "Secret"), ListCall(field_selector="type=y"))


async def a_list_with_a_label_selector(server, turns):
    await server.create_many("v1", "Secret", type="x")
    with turns.measured():
        await server.core.list(server.target("v1", "Secret"), ListCall(label_selector="a=b,c!=d,e notin (f)"))


async def a_list_in_another_version(server, turns):
    await server.create_many("kueue.x-k8s.io/v1beta2", "LocalQueue", spec={"clusterQueue": "q"})
    with turns.measured():
        await server.core.list(server.target("kueue.x-k8s.io/v1beta1", "LocalQueue"), ListCall())


async def a_list_of_events_in_another_group(server, turns):
    await server.create_many("v1", "Event", involvedObject={"kind": "Pod", "namespace": "ml", "name": "p"})
    with turns.measured():
        await server.core.list(server.target("events.k8s.io/v1", "Event"), ListCall())


async def a_list_of_a_controller(server, turns):
    await server.create_many("v1", "Pod", **pod())
    client = LocalClient(server.core, server.scheme)
    with turns.measured():
        assert len((await client.list(resources.POD, "ml")).items) == server.count


def a_list_as(accept):
    async def encode(server, turns):
        await server.create_many("v1", "Pod", **pod())
        target = server.target("v1", "Pod")
        page = await server.core.list(target, ListCall())
        encoder = ResponseEncoder(SlowThread())
        with turns.measured():
            await encoder.encode_list(page, Shape(kind=target.kind, form=negotiation.form(accept)))

    return encode


class Stream:
    """A client that reads everything."""

    def write(self, data):
        pass

    def get_write_buffer_size(self):
        return 0

    def is_closing(self):
        return False

    async def drain(self):
        pass


async def a_watch_of_all(server, turns):
    await server.create_many("v1", "Pod", **pod())
    sink = watch_streams.WatchSink(Stream(), lambda frame: frame.line)
    with turns.measured():
        await server.core.watch(server.target("v1", "Pod"), WatchCall(timeout_seconds=0.01), sink)
        await sink.finished.wait()


async def a_watch_with_a_field_selector(server, turns):
    await server.create_many("v1", "Pod", **pod())
    sink = watch_streams.WatchSink(Stream(), lambda frame: frame.line, is_decoded=True)
    call = WatchCall(timeout_seconds=0.01, field_selector="spec.nodeName=x")
    with turns.measured():
        await server.core.watch(server.target("v1", "Pod"), call, sink)
        await sink.finished.wait()


async def a_deleted_collection(server, turns):
    await server.create_many("v1", "ConfigMap")
    with turns.measured():
        await server.core.delete_collection(server.target("v1", "ConfigMap"), ListCall(), DeleteCall())


async def a_deleted_namespace(server, turns):
    await server.create_many("v1", "ConfigMap")
    with turns.measured():
        target = server.target("v1", "Namespace", "ml", namespace="")
        await server.core.delete(target, DeleteCall())
        await server.until(lambda: not server.core.store.count("", "configmaps", "ml"))


def a_deleted_owner(policy):
    async def delete(server, turns):
        owner = await server.create("v1", "ConfigMap", "owner")
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        await server.create_many(
            "v1", "Secret", metadata={"ownerReferences": [{**reference, "blockOwnerDeletion": True}]}
        )
        with turns.measured():
            call = DeleteCall(propagation_policy=policy)
            await server.core.delete(server.target("v1", "ConfigMap", "owner"), call)
            await server.until(lambda: server.core.store.select("", "configmaps", "ml") == [])
            if policy != "Orphan":
                await server.until(lambda: not server.core.store.count("", "secrets", "ml"))

    return delete


async def many_disruption_budgets(server, turns):
    for number in range(50):
        await server.create("v1", "Pod", f"p{number}", **pod(a="b"))
    with turns.measured():
        await server.create_many(
            "policy/v1", "PodDisruptionBudget", spec={"selector": {"matchLabels": {"a": "b"}}, "minAvailable": 1}
        )
        await server.core.disruption_budgets.queue.idle()


async def a_disruption_budget_of_many_pods(server, turns):
    spec = {"selector": {"matchLabels": {"a": "b"}}, "minAvailable": 1}
    with turns.measured():
        await server.create("policy/v1", "PodDisruptionBudget", "b", spec=spec)
        await server.create_many("v1", "Pod", **pod(a="b"))


async def a_new_quota_of_many_pods(server, turns):
    await server.create_many("v1", "Pod", **pod())
    with turns.measured():
        await server.create("v1", "ResourceQuota", "q", spec={"hard": {"pods": "9999"}})
        await server.create("v1", "Pod", "next", **pod())
        await server.core.quota_status.queue.idle()


async def a_new_quota_of_a_write_at_the_same_time(server, turns):
    await server.create_many("v1", "Pod", **pod())
    with turns.measured():
        results = await asyncio.gather(
            server.create("v1", "ResourceQuota", "q", spec={"hard": {"pods": "9999"}}),
            server.create("v1", "Pod", "next", **pod()),
            return_exceptions=True,
        )
        assert not isinstance(results[0], Exception)


async def pods_that_stay_deleted_and_a_quota(server, turns):
    """Finalizers keep deleted pods, which count until their grace period has ended."""
    await server.create("v1", "ResourceQuota", "q", spec={"hard": {"pods": "9999"}})
    spec = {**pod()["spec"], "nodeName": "n"}
    await server.create_many("v1", "Pod", metadata={"finalizers": ["a.b/c"]}, spec=spec)
    for number in range(server.count):
        await server.core.delete(server.target("v1", "Pod", f"n{number}"), DeleteCall(grace_period_seconds=1000))
    await server.core.quota_status.queue.idle()
    with turns.measured():
        await asyncio.create_task(server.create("v1", "Pod", "next", **pod()))


ACTIONS = {
    "a new quota of many pods": a_new_quota_of_many_pods,
    "a new quota and a write at the same time": a_new_quota_of_a_write_at_the_same_time,
    "pods that stay deleted and a quota": pods_that_stay_deleted_and_a_quota,
    "a list with a field selector": a_list_with_a_field_selector,
    "a list with a label selector": a_list_with_a_label_selector,
    "a list in another version": a_list_in_another_version,
    "a list of events in another group": a_list_of_events_in_another_group,
    "a list as YAML": a_list_as("application/yaml"),
    "a list as a table": a_list_as(POD_LIST),
    "a list of metadata": a_list_as(POD_LIST.replace("Table", "PartialObjectMetadataList")),
    "a list of a controller": a_list_of_a_controller,
    "a watch": a_watch_of_all,
    "a watch with a field selector": a_watch_with_a_field_selector,
    "a deleted collection": a_deleted_collection,
    "a deleted namespace": a_deleted_namespace,
    "an owner, deleted in the background": a_deleted_owner("Background"),
    "an owner, deleted in the foreground": a_deleted_owner("Foreground"),
    "an owner, deleted without its dependents": a_deleted_owner("Orphan"),
    "many disruption budgets": many_disruption_budgets,
    "a disruption budget of many pods": a_disruption_budget_of_many_pods,
}


async def longest_turn(action, count):
    turns = Turns()
    async with serving(count) as server:
        await action(server, turns)
    return turns.longest


@pytest.mark.parametrize("name", list(ACTIONS))
async def test_a_turn_does_not_grow_with_the_objects(name):
    """A busy machine makes some turns longer, but not the same one again and again."""
    measured = []
    for _ in range(ATTEMPTS):
        many = await longest_turn(ACTIONS[name], MANY)
        few = await longest_turn(ACTIONS[name], FEW) if many >= SHORT_SECONDS else many
        if many < few * LARGEST_RATIO:
            return
        measured.append(f"{few * 1000:.1f} ms with {FEW}, {many * 1000:.1f} ms with {MANY}")
    pytest.fail(f"{name}: {measured}")
