"""A controller collects changes of children, unless nothing is left to wait for."""

import asyncio
import random

import pytest

from pykueue.api import resources
from pykueue.kube.controller.cache import ObjectCache
from pykueue.kube.controller.controller import Controller
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.writes import Done
from pykueue.simulate.event_loop import SimulationLoop, VirtualClock

BATCH_SECONDS = 1.0


def pod(name, version, phase):
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "uid-job", "controller": True}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata | {"ownerReferences": [reference]}, "status": {"phase": phase}}


def syncs_after(phases):
    """When a Job is synced after its pods got these phases, in seconds."""
    loop = SimulationLoop(random.Random(1))  # type: ignore[abstract] # without I/O
    times = []

    async def run():
        cache, clock = ObjectCache(), VirtualClock(loop)

        def sync(_owner, _children, _now):
            times.append(loop.time() - begun)
            yield from ()
            return Done()

        controller = Controller(
            resources.JOB,
            (resources.POD,),
            sync=sync,
            cache=cache,
            executor=WriteExecutor(None, cache, None, "test"),
            clock=clock,
            batch_ns=int(BATCH_SECONDS * 1e9),
            settled=lambda child: child["status"]["phase"] == "Succeeded",
        )
        running = asyncio.ensure_future(controller.run())
        job = {"metadata": {"name": "job", "namespace": "default", "uid": "uid-job", "resourceVersion": "1"}}
        cache.apply_event(resources.JOB, "ADDED", job)
        for number, _ in enumerate(phases):
            cache.apply_event(resources.POD, "ADDED", pod(f"p{number}", 2 + number, "Running"))
        await asyncio.sleep(10)
        times.clear()
        begun = loop.time()
        for number, phase in enumerate(phases):
            cache.apply_event(resources.POD, "MODIFIED", pod(f"p{number}", 100 + number, phase))
        await asyncio.sleep(10)
        running.cancel()
        await asyncio.wait([running])

    loop.run_until_complete(run())
    loop.close()
    return times


@pytest.mark.parametrize("count", [1, 3])
def test_the_last_child_that_settles_ends_the_batch(count):
    assert syncs_after(["Succeeded"] * count)[0] < BATCH_SECONDS / 2


@pytest.mark.parametrize("phases", [["Succeeded", "Running"], ["Running"], ["Succeeded"] * 40])
def test_other_changes_wait_for_the_batch(phases):
    assert [round(seconds) for seconds in syncs_after(phases)] == [BATCH_SECONDS]
