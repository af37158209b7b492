"""Liveness, readiness and metrics of `pykueue controller`; `pykueue up` serves health, too.

Health is served over HTTP to anybody, metrics over HTTPS to those whom the cluster lets `get` the
path `/metrics`, as Kueue serves them. A replica that waits for the Lease is ready, as Kubernetes'
own components are: it can take over.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from aiohttp import web

from pykueue.api.errors import ApiError
from pykueue.app.self_signed import self_signed
from pykueue.kube import server_header
from pykueue.kube.delegation import AccessRequest, DelegatedAuth

if TYPE_CHECKING:
    from pykueue.api.configuration.types import Tls

log = logging.getLogger(__name__)

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
CERTIFICATE_FOLDER = Path("/etc/kueue/metrics/certs")
"""Where an administrator keeps the certificate, if `internalCertManagement` is off."""
_OFF = ("", "0")
_ACCESS = AccessRequest(verb="get", path="/metrics")


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
    """The listener of liveness and readiness."""

    def __init__(self, endpoints: HealthEndpoints) -> None:
        self._endpoints = endpoints
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        endpoints = self._endpoints
        if endpoints.health_address in _OFF:
            return
        application = web.Application()
        application.router.add_get("/" + endpoints.liveness_path.lstrip("/"), self._live)
        application.router.add_get("/" + endpoints.readiness_path.lstrip("/"), self._ready)
        self._runner = await _listen(endpoints.health_address, application, "health.healthProbeBindAddress")

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _live(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _ready(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok") if self._endpoints.is_ready() else web.Response(text="starting", status=503)


class MetricsServer:
    """The listener of metrics, with TLS, authentication and authorization by the cluster."""

    def __init__(
        self, endpoints: HealthEndpoints, delegation: DelegatedAuth, tls: "Tls | None", *, has_own_certificate: bool
    ) -> None:
        self._endpoints = endpoints
        self._delegation = delegation
        self._tls = tls
        self._has_own_certificate = has_own_certificate
        self._runner: web.AppRunner | None = None
        self._following: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        if self._endpoints.metrics_address in _OFF:
            return
        from pykueue.kube.clock import WallClock
        from pykueue.webhooks.serving_certificate import ServingCertificate, follow_files

        certificate = ServingCertificate(self._tls)
        if self._has_own_certificate:
            certificate.use(self_signed("pykueue-controller-metrics"))
        else:
            self._following = asyncio.create_task(follow_files(certificate, CERTIFICATE_FOLDER, WallClock()))
        application = web.Application()
        application.router.add_get("/metrics", self._metrics)
        address = self._endpoints.metrics_address
        self._runner = await _listen(address, application, "metrics.bindAddress", certificate.context)

    async def stop(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
        headers = {name: request.headers.getall(name) for name in request.headers}
        try:
            user = await self._delegation.user(None, headers)
            if user is None:
                return web.Response(text="Unauthorized", status=401)
            if not await self._delegation.is_allowed(user, _ACCESS):
                return web.Response(text=f"Authorization denied for user {user.name}", status=403)
        except ApiError as error:
            log.warning("the cluster did not check the access to the metrics: %s", error)
            return web.Response(text="Authorization for user failed", status=500)
        return web.Response(body=await self._endpoints.metrics(), headers={"Content-Type": METRICS_CONTENT_TYPE})


async def _listen(
    address: str, application: web.Application, field: str, context: ssl.SSLContext | None = None
) -> web.AppRunner:
    server_header.hide_versions()
    host, _, port = address.rpartition(":")
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host.strip("[]") or None, int(port), ssl_context=context).start()
    except (OSError, ValueError) as error:
        await runner.cleanup()
        raise click.ClickException(f"cannot listen on {address}: {error}; set {field} in the configuration") from None
    return runner
