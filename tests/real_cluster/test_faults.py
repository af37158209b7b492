"""A controller that is killed at any write, or whose watches break, ends in the same state."""

import asyncio
import json
import signal
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.controllers.system.cluster import CONFIGURATION, PYTORCH_JOBS
from tests.controllers.system.cluster import Cluster as ApiCluster
from tests.e2e.conftest import running_api
from tests.real_cluster import reclaim_scenario
from tests.real_cluster.conftest import Cluster as Controllers
from tests.real_cluster.proxy import running_proxy

from pykueue.kube import access
from pykueue.kube.http_client import HttpClient


class Stage:
    """A new API server, a controller behind a proxy, and a client without proxy."""

    def __init__(self, cluster, proxy, controllers):
        self.cluster = cluster
        self.proxy = proxy
        self._controllers = controllers

    def start_controller(self):
        return self._controllers.start_controller(leaderElection={"leaderElect": False}, **CONFIGURATION)

    def replace_controller(self):
        self._controllers.controllers[-1].stop(signal.SIGKILL)
        self.start_controller()

    async def play(self):
        async with reclaim_scenario.quota_watched(self.cluster.client):
            return await reclaim_scenario.run(self.cluster)


@asynccontextmanager
async def stage(external_cluster):
    with (
        tempfile.TemporaryDirectory() as name,
        running_api(external_cluster, Path(name), controllers=False) as kubeconfig,
    ):
        directory = Path(name)
        client = HttpClient(await access.from_kubeconfig(kubeconfig))
        controller_kubeconfig = external_cluster.controller_kubeconfig if external_cluster else kubeconfig
        async with running_proxy(await access.from_kubeconfig(controller_kubeconfig)) as (proxy, address):
            controllers = Controllers(_through(address, controller_kubeconfig, directory), None, directory)
            try:
                yield Stage(ApiCluster(client, CONFIGURATION), proxy, controllers)
            finally:
                for controller in controllers.controllers:
                    controller.stop(signal.SIGKILL)
                await _remove_jobs(client)
                await client.close()
            for controller in controllers.controllers:
                assert "Traceback" not in controller.log.read_text(), controller.log.read_text()


def _through(address, kubeconfig, directory):
    """The same kubeconfig with the proxy's address."""
    document = json.loads(kubeconfig.read_text())
    document["clusters"][0]["cluster"] = {"server": address}
    through = directory / "kubeconfig"
    through.write_text(json.dumps(document))
    return through


async def _remove_jobs(client):
    for job in (await client.list(PYTORCH_JOBS, "default")).items:
        await client.delete(PYTORCH_JOBS, job["metadata"]["name"], "default")


async def play_undisturbed(external_cluster):
    async with stage(external_cluster) as on:
        on.start_controller()
        return await on.play(), on.proxy.writes


async def play_with_kills_at(external_cluster, writes):
    """The final state, and the writes at which a controller was killed and replaced."""
    async with stage(external_cluster) as on:
        on.start_controller()
        on.proxy.end_at(writes, on.replace_controller)
        return await on.play(), on.proxy.ended_at


@pytest.fixture(scope="module")
def undisturbed(external_cluster):
    """The final state, and the number of writes."""
    return asyncio.run(play_undisturbed(external_cluster))


async def test_kills_at_writes_change_nothing(external_cluster, undisturbed):
    expected, _ = undisturbed
    kills = {3: "after", 18: "before", 33: "after"}
    assert await play_with_kills_at(external_cluster, kills) == (expected, list(kills))


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_kill_at_every_write_changes_nothing(external_cluster, when, undisturbed):
    expected, writes = undisturbed
    for write in range(1, writes + 1):
        state, _ = await play_with_kills_at(external_cluster, {write: when})
        assert state == expected, f"killed {when} write {write} of {writes}"


async def test_watches_that_are_late_and_break_change_nothing(external_cluster, undisturbed):
    expected, _ = undisturbed
    async with stage(external_cluster) as on:
        on.proxy.break_watches()
        on.start_controller()
        assert await on.play() == expected
        assert on.proxy.broken == {"ends", "breaks", "is gone"}


LONG = [pytest.param(plural, marks=pytest.mark.torture) for plural in ("pytorchjobs", "clusterqueues", "localqueues")]


@pytest.mark.parametrize("plural", ["workloads", *LONG])
async def test_a_watch_far_behind_changes_nothing(external_cluster, plural, undisturbed):
    expected, _ = undisturbed
    async with stage(external_cluster) as on:
        on.proxy.delay_watches(plural, 0.2)
        on.start_controller()
        assert await on.play() == expected
