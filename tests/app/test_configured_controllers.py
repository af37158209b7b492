"""The controllers of `pykueue up` do not stay away after a failure."""

import asyncio

import pytest
from tests.cluster.waiting import eventually

from pykueue.api import registry, resources
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.paths import ServerPaths
from pykueue.app import configured_controllers
from pykueue.app.configured_controllers import ConfiguredControllers

FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}}


@pytest.fixture
async def api(tmp_path):
    api = EmbeddedApi(ServerPaths(directory=tmp_path, host="127.0.0.1", port=0), registry.scheme())
    await api.start()
    yield api
    await api.stop()


async def test_controllers_that_fail_are_logged_and_start_again(api, monkeypatch, caplog):
    monkeypatch.setattr(configured_controllers, "PAUSE_SECONDS", 0.01)
    controllers = ConfiguredControllers(api, {})
    await controllers.start()
    first = controllers.scheduler

    def fail(_event, _is_turn_over):
        raise ArithmeticError("a fault of ours")

    monkeypatch.setattr(first.engine, "cycle_in_steps", fail)
    await api.client().create(resources.RESOURCE_FLAVOR, FLAVOR)
    await eventually(lambda: controllers.scheduler is not first)
    await eventually(lambda: controllers.scheduler.engine.view.flavor("default") is not None)
    await controllers.stop()
    assert "a fault of ours" in caplog.text


async def test_the_start_does_not_wait_for_controllers_that_failed_before_they_were_ready(api, monkeypatch):
    monkeypatch.setattr(configured_controllers, "PAUSE_SECONDS", 0.01)
    controllers = ConfiguredControllers(api, {})

    async def fail():
        raise ArithmeticError("a fault of ours")

    monkeypatch.setattr(controllers._controllers, "run", fail)
    await asyncio.wait_for(controllers.start(), 10)
    await controllers.stop()


async def test_a_start_says_what_the_configuration_sets_without_effect(api, caplog):
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\ntls: {curvePreferences: [29, 23]}\nwebhook: {port: 1}\n"
    metadata = {"name": configured_controllers.NAME, "namespace": "kueue-system"}
    controllers = ConfiguredControllers(api, {})
    await controllers.start()
    client = api.client()
    config_map = {"metadata": metadata, "data": {"controller_manager_config.yaml": text}}
    await client.create(resources.CONFIG_MAP, config_map, "kueue-system")
    await eventually(lambda: "not by `pykueue up`: tls.curvePreferences, webhook.port" in caplog.text)
    await controllers.stop()
    assert "tls.curvePreferences: acts in part in pykueue" in caplog.text
