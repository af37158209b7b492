"""A controller process killed at any write, or with watches that break, changes nothing in the end."""

import asyncio
import json
import signal
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cluster import conftest, lending
from tests.cluster.proxy import running_proxy
from tests.controllers.system.cluster import CONFIGURATION
from tests.controllers.system.cluster import Cluster as ApiCluster
from tests.e2e.conftest import start_server, stop_server

from pykueue.kube import access
from pykueue.kube.http_client import HttpClient


class Stage:
    """A fresh API server, a controller that reaches it through a proxy only, and a client that needs no proxy."""

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
        async with lending.quota_watched(self.cluster.client):
            return await lending.play(self.cluster)


@asynccontextmanager
async def stage():
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        server = start_server(directory / "data", "--no-controllers")
        entrance = await access.from_kubeconfig(server.kubeconfig)
        client = HttpClient(entrance)
        async with running_proxy(entrance) as (proxy, address):
            controllers = conftest.Cluster(_through(address, server, directory), None, directory)
            try:
                yield Stage(ApiCluster(client, CONFIGURATION), proxy, controllers)
            finally:
                for controller in controllers.controllers:
                    controller.stop(signal.SIGKILL)
                await client.close()
                stop_server(server)
            for controller in controllers.controllers:
                assert "Traceback" not in controller.log.read_text(), controller.log.read_text()


def _through(address, server, directory):
    """The server's own kubeconfig, with the proxy's address."""
    document = server.access
    document["clusters"][0]["cluster"] = {"server": address}
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(json.dumps(document))
    return kubeconfig


async def play_undisturbed():
    async with stage() as on:
        on.start_controller()
        return await on.play(), on.proxy.writes


async def play_with_kills_at(writes):
    """How it ends, and at which writes a controller was killed, each time with another one started at once."""
    async with stage() as on:
        on.start_controller()
        on.proxy.end_at(writes, on.replace_controller)
        return await on.play(), on.proxy.ended_at


@pytest.fixture(scope="module")
def undisturbed():
    """How it ends, and with how many writes."""
    return asyncio.run(play_undisturbed())


async def test_kills_at_writes_change_nothing(undisturbed):
    expected, _ = undisturbed
    kills = {3: "after", 18: "before", 33: "after"}
    assert await play_with_kills_at(kills) == (expected, list(kills))


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_kill_at_every_write_changes_nothing(when, undisturbed):
    expected, writes = undisturbed
    for write in range(1, writes + 1):
        state, _ = await play_with_kills_at({write: when})
        assert state == expected, f"killed {when} write {write} of {writes}"


async def test_watches_that_are_late_and_break_change_nothing(undisturbed):
    expected, _ = undisturbed
    async with stage() as on:
        on.proxy.break_watches()
        on.start_controller()
        assert await on.play() == expected
        assert on.proxy.broken == {"ends", "breaks", "is gone"}


LONG = [pytest.param(plural, marks=pytest.mark.torture) for plural in ("pytorchjobs", "clusterqueues", "localqueues")]


@pytest.mark.parametrize("plural", ["workloads", *LONG])
async def test_a_watch_far_behind_changes_nothing(plural, undisturbed):
    expected, _ = undisturbed
    async with stage() as on:
        on.proxy.delay_watches(plural, 0.2)
        on.start_controller()
        assert await on.play() == expected
