"""The controllers of `pykueue up` with the Configuration in force, and their restart: with another one, or after a failure.

Controllers that fail are told of in the log and begin anew with a fresh view of everything, as after a restart of the process. A
Configuration is installed as Helm charts do it: in the ConfigMap `kueue-manager-config` of the namespace `kueue-system`. While it
is there it takes the place of the one given on the command line; one that cannot be used is reported and changes nothing.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from pykueue.api.configuration import loading, sources
from pykueue.api.scheme import Object, Resource
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.controllers import settings
from pykueue.controllers.metrics.collector import Metrics
from pykueue.controllers.scheduler.controller import Scheduler
from pykueue.controllers.system import Controllers
from pykueue.kube.controller.cache import ObjectCache
from pykueue.kube.informer import Change, Informer

log = logging.getLogger(__name__)

NAME = "kueue-manager-config"
PAUSE_SECONDS = 1.0
"""Between a failure and a new beginning."""
_CONFIG_MAP = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)


class ConfiguredControllers:
    """A part of `pykueue up`; what it shows is that of the controllers that run now."""

    def __init__(self, api: EmbeddedApi, configuration: Mapping[str, Any]) -> None:
        self._api = api
        self._given = self._in_force = configuration
        self._controllers = Controllers(api.client(), configuration)
        self._wanted: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._running: asyncio.Task[None] | None = None

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The one in force."""
        return self._in_force

    @property
    def mirror(self) -> ObjectCache:
        return self._controllers.mirror

    @property
    def scheduler(self) -> Scheduler:
        return self._controllers.scheduler

    @property
    def metrics(self) -> Metrics:
        return self._controllers.metrics

    async def start(self) -> None:
        informer = Informer(
            self._api.client(),
            _CONFIG_MAP,
            namespace=settings.DEFAULT_NAMESPACE,
            field_selector=f"metadata.name={NAME}",
        )
        informer.add_handler(self._changed)
        following = asyncio.create_task(informer.run())
        self._tasks.append(following)
        await informer.synced()
        await self._begin()
        self._tasks.append(asyncio.create_task(self._obey()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._end()

    async def _begin(self) -> None:
        """Returns when decisions begin."""
        self._running = asyncio.create_task(self._keep_running())
        await self._controllers.listed()

    async def _end(self) -> None:
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running

    async def _keep_running(self) -> None:
        while True:
            try:
                await self._controllers.run()
            except Exception:  # whatever it was, jobs must not wait for somebody to notice
                log.exception("the controllers failed and start again")
            await asyncio.sleep(PAUSE_SECONDS)
            self._controllers = Controllers(self._api.client(), self._in_force)

    def _changed(self, change: Change) -> None:
        self._wanted.put_nowait(self._given if change.type == "DELETED" else self._read(change.object))

    def _read(self, config_map: Object) -> Mapping[str, Any]:
        """The Configuration in the ConfigMap; the one in force if it cannot be used."""
        found = sources.find({**config_map, "kind": "ConfigMap"})
        faults = loading.find_faults(found) if found else []
        if found is None or faults:
            reasons = "; ".join(map(str, faults)) or "it has no controller_manager_config.yaml"
            log.error("ConfigMap %s is not used: %s", NAME, reasons)
            return self._in_force
        return loading.complete(found.configuration).document

    async def _obey(self) -> None:
        while True:
            wanted = await self._wanted.get()
            if wanted != self._in_force and self._wanted.empty():
                await self._restart(wanted)

    async def _restart(self, configuration: Mapping[str, Any]) -> None:
        log.info("the controllers start again with another Configuration")
        await self._end()
        self._api.core.context.settings = settings.admission_settings(configuration)
        self._in_force = configuration
        self._controllers = Controllers(self._api.client(), configuration)
        await self._begin()
