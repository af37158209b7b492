"""What remains of jobs that no longer exist: nothing that grows.

The API server, the cluster and the controllers run in virtual time. Jobs come and go in rounds; at
the end of a round their events have expired. The caches have small limits here, so a cache without
a limit, or one that ignores it, grows by every job and is reported.
"""

import asyncio
import contextlib
import functools
import gc
import itertools
import random
from collections import Counter, deque
from datetime import UTC, datetime

import pytest

from pykueue.api import registry, resources
from pykueue.api.times import SECOND_NS
from pykueue.apiserver import bootstrap
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.patches import managed_fields
from pykueue.apiserver.store import rows
from pykueue.apiserver.store.store import Store
from pykueue.cluster.local_cluster import ClusterOptions, LocalCluster
from pykueue.controllers import settings
from pykueue.controllers.system import Controllers
from pykueue.kube.controller import background_writes, cache, event_recorder, executor
from pykueue.simulate import profile
from pykueue.simulate.event_loop import SimulationLoop, VirtualClock
from pykueue.simulate.system import SlowLog
from pykueue.translate import workload

JOBS = 8
ROUNDS = 4
LONGEST_RUN_SECONDS = 600
LONGEST_EVENT_SECONDS = 3700
GARBAGE = "objects that only the garbage collector could free"
LIMITS = [
    (background_writes, "MOST_REMEMBERED"),
    (cache, "MOST_DELETED_UIDS"),
    (event_recorder, "MOST_REMEMBERED"),
    (executor, "MOST_FAILING_WRITES"),
    (managed_fields, "_MOST_SHAPES"),
    (rows, "_MOST_SHARED"),
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


def job(name):
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sleep", "5"],
        "resources": {"requests": {"cpu": "1"}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "queue"}},
        "spec": {
            "ttlSecondsAfterFinished": 10,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


@contextlib.asynccontextmanager
async def running_system(directory):
    """The API server and its store, with a cluster and the controllers in virtual time."""
    loop, scheme = asyncio.get_running_loop(), registry.scheme()
    clock = VirtualClock(loop)
    configuration = profile.PLAIN.configuration
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
    """Create jobs and wait until nothing of them is stored."""
    for index in range(JOBS):
        await client.create(resources.JOB, job(f"job-{number}-{index}"))
    await asyncio.sleep(LONGEST_RUN_SECONDS)
    events = [stored.decode() for stored in store.select("", "events")]
    finished = {event["involvedObject"]["name"] for event in events if event["reason"] == "FinishedWorkload"}
    assert len(finished) == JOBS
    await asyncio.sleep(LONGEST_EVENT_SECONDS)
    left = [
        (group, plural) for group, plural in store.collections() if plural in ("jobs", "pods", "workloads", "events")
    ]
    assert left == []


def sizes():
    """(name, number): objects by type, and the entries of containers and of limitless caches.

    They are tuples, which are not counted as containers.
    """
    caches = [obj for obj in gc.get_objects() if isinstance(obj, functools._lru_cache_wrapper)]
    counts = {}
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
            if is_counted and isinstance(container, dict | set | list | deque):
                entries[type(container).__qualname__] += len(container)
    counts |= types | {f"entries of {name}": number for name, number in entries.items()}
    return tuple(counts.items())


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
            patch.setattr(rows, "_shared_parts", rows._SharedParts())  # without the parts of other tests
            return loop.run_until_complete(rounds_of_jobs(tmp_path_factory.mktemp("cluster")))[1:]
    finally:
        gc.enable()
        loop.close()


def test_jobs_that_come_and_go_leave_nothing_that_grows(rounds):
    assert growth(rounds) == {}


def test_jobs_that_come_and_go_leave_no_reference_cycles(rounds):
    assert [dict(counts)[GARBAGE] for counts in rounds] == [0] * (ROUNDS - 1)
