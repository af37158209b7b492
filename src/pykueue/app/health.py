"""Liveness, readiness and metrics of `pykueue controller`, over HTTP.

A replica that waits for the Lease is ready, as Kubernetes' own components are: it can take over.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import click
from aiohttp import web

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OFF = ("", "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthEndpoints:
    """Addresses are `host:port`, as in Kueue's Configuration; "0" turns an endpoint off."""

    health_address: str
    liveness_path: str
    readiness_path: str
    metrics_address: str
    is_ready: Callable[[], bool]
    metrics: Callable[[], Awaitable[bytes]]


class HealthServer:
    def __init__(self, endpoints: HealthEndpoints) -> None:
        self._endpoints = endpoints
        self._runners: list[web.AppRunner] = []

    async def start(self) -> None:
        """Start one listener for each address; health and metrics may share one."""
        applications: dict[str, web.Application] = {}
        for address, path, handler in (
            (self._endpoints.health_address, self._endpoints.liveness_path, self._live),
            (self._endpoints.health_address, self._endpoints.readiness_path, self._ready),
            (self._endpoints.metrics_address, "metrics", self._metrics),
        ):
            if address not in _OFF:
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
        return web.Response(text="ok") if self._endpoints.is_ready() else web.Response(text="starting", status=503)

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=await self._endpoints.metrics(), headers={"Content-Type": METRICS_CONTENT_TYPE})
