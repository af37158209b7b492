"""The controllers of `pykueue up`: restarted with another Configuration, and after a failure.

Controllers that fail are logged and replaced by new ones that read everything again, as after a
restart of the process. A Configuration is installed as Helm charts do it, in the ConfigMap
`kueue-manager-config` of namespace `kueue-system`. While the ConfigMap exists it replaces the
Configuration of the command line. A Configuration with faults is logged and changes nothing.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from pykueue.api import resources
from pykueue.api.configuration import loading, sources
from pykueue.api.scheme import Object
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.app import process
from pykueue.controllers import settings
from pykueue.controllers.metrics.collector import Metrics
from pykueue.controllers.scheduler.controller import Scheduler
from pykueue.controllers.system import Controllers
from pykueue.kube.controller.cache import ObjectCache
from pykueue.kube.informer import Change, Informer
from pykueue.kube.supervisor import Supervisor
from pykueue.recording.ring import RingOptions

log = logging.getLogger(__name__)

NAME = "kueue-manager-config"
PAUSE_SECONDS = 1.0
"""The pause between a failure and the restart."""


class ConfiguredControllers:
    """A part of `pykueue up`; its properties are those of the present controllers."""

    def __init__(
        self, api: EmbeddedApi, configuration: Mapping[str, Any], recording: RingOptions | None = None
    ) -> None:
        self._api = api
        self._default = self._in_force = configuration
        self._recording = recording
        self._controllers = Controllers(api.client(), configuration, recording=recording)
        self._is_started = False
        self._requested: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._supervisor = Supervisor()
        self._controllers_supervisor = Supervisor()
        self._is_ready = asyncio.Event()

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The Configuration in force."""
        return self._in_force

    @property
    def cache(self) -> ObjectCache:
        return self._controllers.cache

    @property
    def scheduler(self) -> Scheduler:
        return self._controllers.scheduler

    @property
    def metrics(self) -> Metrics:
        return self._controllers.metrics

    async def start(self) -> None:
        informer = Informer(
            self._api.client(),
            resources.CONFIG_MAP,
            namespace=resources.KUEUE_NAMESPACE,
            field_selector=f"metadata.name={NAME}",
        )
        informer.add_handler(self._config_map_changed)
        self._supervisor.start("informer of the Configuration", informer.run)
        await self._supervisor.wait_for(informer.synced())
        await self._start_controllers()
        self._supervisor.start("Configuration", self._apply_configurations)

    async def stop(self) -> None:
        await self._supervisor.stop()
        await self._controllers_supervisor.stop()

    async def _start_controllers(self) -> None:
        """Return when decisions begin, also if the first controllers fail."""
        self._is_ready.clear()
        self._controllers_supervisor.start("controllers", self._run_controllers, restart_seconds=PAUSE_SECONDS)
        await self._controllers_supervisor.wait_for(self._is_ready.wait())

    async def _run_controllers(self) -> None:
        if self._is_started:
            self._controllers = Controllers(self._api.client(), self._in_force, recording=self._recording)
        self._is_started = True
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controllers.run())
            await self._controllers.listed()
            self._is_ready.set()

    def _config_map_changed(self, change: Change) -> None:
        self._requested.put_nowait(self._default if change.type == "DELETED" else self._read(change.object))

    def _read(self, config_map: Object) -> Mapping[str, Any]:
        """The Configuration in the ConfigMap; the one in force if it cannot be used."""
        source = sources.find({**config_map, "kind": "ConfigMap"})
        faults = loading.find_faults(source) if source else []
        if source is None or faults:
            reasons = "; ".join(map(str, faults)) or "it has no controller_manager_config.yaml"
            log.error("ConfigMap %s is not used: %s", NAME, reasons)
            return self._in_force
        return loading.complete(source.configuration).document

    async def _apply_configurations(self) -> None:
        while True:
            configuration = await self._requested.get()
            if configuration != self._in_force and self._requested.empty():
                await self._restart(configuration)

    async def _restart(self, configuration: Mapping[str, Any]) -> None:
        log.info("the controllers start again with another Configuration")
        process.log_limits(dict(configuration), is_embedded=True)
        await self._controllers_supervisor.stop()
        self._api.core.context.settings = settings.admission_settings(configuration)
        self._in_force = configuration
        await self._start_controllers()
