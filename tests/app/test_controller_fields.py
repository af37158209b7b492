"""Fields of the Configuration that concern a process reach what they set."""

import asyncio
import dataclasses
import socket

import aiohttp
import pytest
from tests.app.test_metrics_access import free_address

from pykueue.api import registry, resources
from pykueue.api.configuration import loading
from pykueue.api.configuration.types import Health
from pykueue.api.errors import ApiError
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.paths import ServerPaths
from pykueue.app import controller, up
from pykueue.app.components import LocalHealth

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


def loaded(text):
    return loading.load(HEAD + text)


@pytest.mark.parametrize(
    ("text", "requests"),
    [("clientConnection: {qps: 0.001, burst: 3}", 3), ("clientConnection: {qps: 0.001, burst: 5}", 5)],
)
async def test_a_burst_of_requests_is_that_of_the_configuration(text, requests):
    limit = controller.rate_limit(loaded(text))
    for _ in range(requests):
        await asyncio.wait_for(limit.wait("/api/v1/pods"), 1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(limit.wait("/api/v1/pods"), 0.01)


def test_without_a_section_requests_are_not_limited():
    assert controller.rate_limit(loaded("")) is None


async def test_probes_are_served_under_the_names_of_the_configuration():
    address = free_address()
    text = f"health: {{healthProbeBindAddress: '{address}', livenessEndpointName: alive, readinessEndpointName: able}}"
    server, _ = controller.ControllerProcess(None, loaded(text)).health_servers()
    await server.start()
    try:
        assert await statuses(address, "alive", "able", "healthz") == [200, 503, 404]
    finally:
        await server.stop()


async def test_the_lease_is_that_of_the_configuration(tmp_path):
    election = "leaderElect: true, resourceName: mine, resourceNamespace: default"
    times = "leaseDuration: 77s, renewDeadline: 50s, retryPeriod: 100ms"
    api = EmbeddedApi(ServerPaths(directory=tmp_path / "data", host="127.0.0.1", port=0), registry.scheme())
    await api.start()
    process = controller.ControllerProcess(api.client(), loaded(f"leaderElection: {{{election}, {times}}}"))
    running = asyncio.ensure_future(process.run())

    async def lease():
        while True:
            try:
                return await api.client().get(resources.LEASE, "mine", "default")
            except ApiError:
                await asyncio.sleep(0.02)

    try:
        found = await asyncio.wait_for(lease(), 20)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await api.stop()
    assert found["spec"]["leaseDurationSeconds"] == 77


@pytest.fixture
async def probes(tmp_path):
    """The probes of a `pykueue up` that runs no jobs, and their address."""
    address = free_address()
    text = f"health: {{healthProbeBindAddress: '{address}', readinessEndpointName: able}}"
    paths = ServerPaths(directory=tmp_path / "data", host="127.0.0.1", port=0)
    options = up.UpOptions(paths=paths, configuration=loaded(text), runtime="none")
    async with up.started(options):
        yield address, options


async def statuses(address, *names):
    async with aiohttp.ClientSession() as session:
        return [(await session.get(f"http://{address}/{name}")).status for name in names]


async def test_the_embedded_cluster_serves_the_probes_of_its_configuration(probes):
    address, _ = probes
    assert await statuses(address, "healthz", "able", "readyz") == [200, 200, 404]


async def test_a_second_cluster_with_the_same_probes_starts_with_a_warning(probes, tmp_path, caplog):
    _, options = probes
    paths = ServerPaths(directory=tmp_path / "second", host="127.0.0.1", port=0)
    async with up.started(dataclasses.replace(options, paths=paths)):
        assert "set health.healthProbeBindAddress" in caplog.text


async def test_an_address_without_a_host_is_served_to_this_machine_only():
    port = free_address().rpartition(":")[2]
    health = LocalHealth(Health(health_probe_bind_address=f":{port}"))
    await health.start()
    try:
        assert await statuses(f"127.0.0.1:{port}", "healthz") == [200]
        with socket.create_server(("127.0.0.2", int(port))):
            pass  # an address of all interfaces would be in use
    finally:
        await health.stop()
