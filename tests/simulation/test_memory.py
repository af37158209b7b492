"""What remains of jobs that no longer exist: nothing that grows.

The API server, the cluster and the controllers run in virtual time. In every round jobs, pods,
queues and namespaces come and go: some jobs finish, others wait, run or are refused until they are
deleted. At the end of a round their events have expired, but no timeout of a Workload has. The
caches have small limits here, so a cache without a limit, or one that ignores it, grows by every
job and is reported.
"""

import asyncio
import contextlib
import functools
import gc
import heapq
import itertools
import random
from collections import Counter, deque
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from pykueue.api import registry, resources
from pykueue.api.errors import ApiError
from pykueue.api.times import SECOND_NS
from pykueue.apiserver import bootstrap
from pykueue.apiserver.controllers import event_expiry
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.patches import managed_fields
from pykueue.apiserver.store import rows
from pykueue.apiserver.store.store import Store
from pykueue.cluster.local_cluster import ClusterOptions, LocalCluster
from pykueue.controllers import settings
from pykueue.controllers.scheduler import pending_events
from pykueue.controllers.system import Controllers
from pykueue.kube.client import DeleteOptions
from pykueue.kube.controller import background_writes, cache, event_recorder, executor, work_queue
from pykueue.simulate import profile
from pykueue.simulate.event_loop import SimulationLoop, VirtualClock
from pykueue.simulate.system import SlowLog
from pykueue.translate import workload

pytestmark = [pytest.mark.untraced, pytest.mark.timeout(600)]

JOBS = 4
ROUNDS = 8
LONGEST_RUN_SECONDS = 90
EVENT_SECONDS = 60
LONGEST_EVENT_SECONDS = 150
"""Less than any timeout of a Workload: a timer of an object that is gone would be found."""
GARBAGE = "objects that only the garbage collector could free"
SETTLING_WRITES = 10
CONTAINERS = (dict, set, list, deque)
LIMITS = [
    (background_writes, "MOST_REMEMBERED"),
    (cache, "MOST_DELETED_UIDS"),
    (event_recorder, "MOST_REMEMBERED"),
    (executor, "MOST_FAILING_WRITES"),
    (managed_fields, "_MOST_SHAPES"),
    (pending_events, "MAX_BATCHES"),
    (rows, "_MOST_SHARED"),
    (work_queue, "MOST_OUTDATED"),
    (workload, "MOST_SHARED"),
]
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "machine"},
    "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "100"}},
}
QUOTA = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
QUEUES = [
    (resources.RESOURCE_FLAVOR, {"metadata": {"name": "default"}}),
    (
        resources.CLUSTER_QUEUE,
        {
            "metadata": {"name": "shared"},
            "spec": {
                "namespaceSelector": {},
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [QUOTA]}],
            },
        },
    ),
    (
        resources.LOCAL_QUEUE,
        {"metadata": {"name": "queue", "namespace": "default"}, "spec": {"clusterQueue": "shared"}},
    ),
]


PODS_READY = {"timeout": "30m", "requeuingStrategy": {"backoffLimitCount": 3}}
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
CLASS_LABEL = "kueue.x-k8s.io/priority-class"


def pod_spec(cpu, seconds):
    requests = {"requests": {"cpu": cpu}}
    container = {"name": "main", "image": "busybox", "command": ["sleep", seconds], "resources": requests}
    return {"restartPolicy": "Never", "containers": [container]}


def job(name, *, queue="queue", namespace="default", cpu="1", seconds="5", **labels):
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": {QUEUE_LABEL: queue, **labels}},
        "spec": {"ttlSecondsAfterFinished": 10, "template": {"spec": pod_spec(cpu, seconds)}},
    }


def pod(name, **annotations):
    metadata = {"name": name, "namespace": "default", "labels": {QUEUE_LABEL: "queue"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec("1", "5")}


def pods_of_group(name):
    members = [pod(f"{name}-{index}") for index in range(2)]
    for member in members:
        member["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = name
        member["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    return members


def cluster_queue(name):
    groups = [{"coveredResources": ["cpu"], "flavors": [QUOTA]}]
    spec = {"cohortName": name, "namespaceSelector": {}, "resourceGroups": groups}
    return {"metadata": {"name": name}, "spec": spec}


@contextlib.asynccontextmanager
async def running_system(directory):
    """The API server and its store, with a cluster and the controllers in virtual time."""
    loop, scheme = asyncio.get_running_loop(), registry.scheme()
    clock = VirtualClock(loop)
    configuration = profile.Profile(pods_ready=PODS_READY).configuration
    core = Core(
        Store(SlowLog(), history_changes=1),
        scheme,
        settings=settings.admission_settings(configuration),
        clock=lambda: datetime.fromtimestamp(clock.now_ns() / SECOND_NS, UTC),
    )
    await core.start()
    await bootstrap.ensure(core, scheme, 6443)
    client = LocalClient(core, scheme, shows_managers=False)
    options = ClusterOptions(runtime="simulated", directory=directory, nodes=(NODE,))
    cluster = LocalCluster(client, clock, options)
    controllers = Controllers(client, configuration, clock)
    await cluster.start()
    await controllers.start()
    try:
        yield client, core.store
    finally:
        await controllers.stop()
        await cluster.stop()
        await core.stop()


async def come_and_go(client, store, number):
    """Create objects of every sort, delete those that stay, and wait until nothing is stored."""
    created = []

    async def create(resource, obj):
        namespace = obj["metadata"].get("namespace", "")
        await client.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind} | obj, namespace)
        created.append((resource, obj["metadata"]["name"], namespace))

    for index in range(JOBS):
        name = f"{number}-{index}"
        await create(resources.NAMESPACE, {"metadata": {"name": f"team-{name}"}})
        await create(resources.CLUSTER_QUEUE, cluster_queue(f"queue-{name}"))
        queue = {"metadata": {"name": "own", "namespace": f"team-{name}"}, "spec": {"clusterQueue": f"queue-{name}"}}
        await create(resources.LOCAL_QUEUE, queue)
        for obj in (
            job(f"short-{name}"),
            job(f"large-{name}", cpu="100"),
            job(f"long-{name}", seconds="5000"),
            job(f"lost-{name}", queue=f"absent-{name}"),
            job(f"unclassed-{name}", **{CLASS_LABEL: f"absent-{name}"}),
            job(f"apart-{name}", queue="own", namespace=f"team-{name}"),
        ):
            await create(resources.JOB, obj)
        for obj in (pod(f"pod-{name}"), *pods_of_group(f"group-{name}")):
            await create(resources.POD, obj)
        created.append((resources.WORKLOAD, f"group-{name}", "default"))
    await asyncio.sleep(LONGEST_RUN_SECONDS)
    events = [stored.decode() for stored in store.select("", "events")]
    assert {event["involvedObject"]["name"] for event in events} >= {name for _, name, _ in created if "short" in name}
    for resource, name, namespace in reversed(created):
        with contextlib.suppress(ApiError):
            options = DeleteOptions(propagation_policy="Background")
            await client.delete(resource, name, namespace, options)
    await asyncio.sleep(LONGEST_EVENT_SECONDS)
    left = [
        stored.key.name
        for plural in ("jobs", "pods", "workloads", "events", "namespaces", "clusterqueues")
        for group, stored_plural in store.collections()
        for stored in (store.select(group, plural) if stored_plural == plural else ())
        if str(number) in stored.key.name
    ]
    assert not left, left
    for index in range(SETTLING_WRITES):  # with a commit the store drops what the one before made obsolete
        await client.patch(resources.NAMESPACE, "default", "", {"metadata": {"annotations": {"index": str(index)}}})


def sizes():
    """(name, number): objects by type, and the entries of containers and of limitless caches.

    They are tuples, which are not counted as containers.
    """
    caches = [obj for obj in gc.get_objects() if isinstance(obj, functools._lru_cache_wrapper)]
    counts = {}
    timers = asyncio.get_running_loop()._timers  # type: ignore[attr-defined] # of the simulation
    timers[:] = [timer for timer in timers if not timer[2].cancelled()]
    heapq.heapify(timers)
    for lru_cache in caches:
        if lru_cache.cache_info().maxsize is None:
            counts[f"entries of {lru_cache!r}"] = lru_cache.cache_info().currsize
        else:
            lru_cache.cache_clear()
    counts[GARBAGE] = gc.collect()
    types, entries = Counter(), Counter()
    for obj in gc.get_objects():
        types[type(obj).__qualname__] += 1
        for container in (obj, *gc.get_referents(obj)):
            is_counted = container is obj or not gc.is_tracked(container)
            if is_counted and isinstance(container, CONTAINERS):
                entries[f"entries of {type(container).__qualname__}"] += len(container)
        for name, value in attributes(obj):
            if isinstance(value, CONTAINERS):
                entries[f"entries of {type(obj).__qualname__}.{name}"] += len(value)
    return tuple((counts | types | entries).items())


def attributes(obj):
    """(name, value): what an object of pykueue keeps, so that a failure names the owner."""
    if str(getattr(type(obj), "__module__", "")).startswith("pykueue."):
        names = [name for base in type(obj).__mro__ for name in getattr(base, "__slots__", ())]
        names += obj.__struct_fields__ if isinstance(obj, msgspec.Struct) else ()
        yield from getattr(obj, "__dict__", {}).items()
        yield from ((name, getattr(obj, name, None)) for name in names)


def growth(rounds):
    """What every round added, at least: by type, if it is one for every two jobs or more."""
    counters = [Counter(dict(counts)) for counts in rounds]
    least = {
        name: min(after[name] - before[name] for before, after in itertools.pairwise(counters))
        for name in set().union(*counters)
    }
    return {name: number for name, number in least.items() if number >= JOBS / 2}


async def rounds_of_jobs(directory):
    results = []
    async with running_system(directory) as (client, store):
        for resource, obj in QUEUES:
            body = {"apiVersion": resource.api_version, "kind": resource.kind} | obj
            await client.create(resource, body, obj["metadata"].get("namespace", ""))
        for number in range(ROUNDS):
            await come_and_go(client, store, number)
            results.append(sizes())
    return results


@pytest.fixture(scope="module")
def rounds(tmp_path_factory):
    """The sizes after each round but the first, which fills what is filled once."""
    loop = SimulationLoop(random.Random(1), window=8)  # type: ignore[abstract] # without I/O
    gc.collect()
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            for module, name in LIMITS:
                patch.setattr(module, name, 1)
            patch.setattr(event_expiry, "LIFETIME", timedelta(seconds=EVENT_SECONDS))
            patch.setattr(rows, "_shared_parts", rows._SharedParts())  # without the parts of other tests
            return loop.run_until_complete(rounds_of_jobs(tmp_path_factory.mktemp("cluster")))[1:]
    finally:
        gc.enable()
        loop.close()


def test_jobs_that_come_and_go_leave_nothing_that_grows(rounds):
    assert not growth(rounds), "\n".join(f"{name}: {number}" for name, number in growth(rounds).items())


def test_jobs_that_come_and_go_leave_no_reference_cycles(rounds):
    """An error that is raised again may be part of one: a round with a refused write has some."""
    assert min(dict(counts)[GARBAGE] for counts in rounds) == 0
