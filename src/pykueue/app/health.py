"""What a controller tells over HTTP about itself: alive, ready, and its metrics. Served by `pykueue controller`.

A controller that waits for the lease is ready too, as Kubernetes' own components are: it is there to take over.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import click
from aiohttp import web

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NOBODY_LISTENS = ("", "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthEndpoints:
    """Addresses are `host:port` as Kueue's Configuration has them; "0" serves nothing there."""

    health_address: str
    liveness_path: str
    readiness_path: str
    metrics_address: str
    is_ready: Callable[[], bool]
    metrics: Callable[[], Awaitable[bytes]]


class Probes:
    def __init__(self, pages: HealthEndpoints) -> None:
        self._pages = pages
        self._runners: list[web.AppRunner] = []

    async def start(self) -> None:
        """One listener for each address: both pages may share one."""
        applications: dict[str, web.Application] = {}
        for address, path, handler in (
            (self._pages.health_address, self._pages.liveness_path, self._live),
            (self._pages.health_address, self._pages.readiness_path, self._ready),
            (self._pages.metrics_address, "metrics", self._metrics),
        ):
            if address not in _NOBODY_LISTENS:
                application = applications.setdefault(address, web.Application())
                application.router.add_get("/" + path.lstrip("/"), handler)
        for address, application in applications.items():
            await self._listen(address, application)

    async def stop(self) -> None:
        for runner in self._runners:
            await runner.cleanup()

    async def _listen(self, address: str, application: web.Application) -> None:
        host, _, port = address.rpartition(":")
        runner = web.AppRunner(application, access_log=None)
        self._runners.append(runner)
        await runner.setup()
        try:
            await web.TCPSite(runner, host.strip("[]") or None, int(port)).start()
        except (OSError, ValueError) as error:
            hint = "set health.healthProbeBindAddress or metrics.bindAddress in the configuration"
            raise click.ClickException(f"cannot listen on {address}: {error}; {hint}") from None

    async def _live(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _ready(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok") if self._pages.is_ready() else web.Response(text="starting", status=503)

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=await self._pages.metrics(), headers={"Content-Type": _METRICS_TYPE})
