"""The process of `pykueue controller`: the controllers of a real cluster, until a signal.

Of several replicas one leads, by a Lease, and the others wait. A replica that loses the Lease
stops its controllers at once and waits again; it leads later with fresh caches. A replica that is
asked to stop releases the Lease, so that the next one need not wait until the Lease expires.
Called by `cli.controller`.
"""

import asyncio
import datetime as dt
import logging
import socket
import uuid
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pykueue.app import process
from pykueue.app.health import HealthEndpoints, HealthServer, MetricsServer
from pykueue.app.profiling import ProfilingServer
from pykueue.kube import loop_watchdog
from pykueue.kube.delegation import DelegatedAuth

if TYPE_CHECKING:
    from pykueue.api.configuration.loading import Loaded
    from pykueue.api.scheme import Object
    from pykueue.controllers.scheduler.follower import QueueFollower
    from pykueue.controllers.system import Controllers
    from pykueue.engine.view import EngineView
    from pykueue.kube.access import Access
    from pykueue.kube.client import Client
    from pykueue.kube.controller.cache import ObjectCache
    from pykueue.kube.lease import LeaderElector
    from pykueue.kube.rate_limit import RateLimit
    from pykueue.recording.ring import RingOptions
    from pykueue.webhooks.service import Webhooks

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions:
    address: tuple[str, int] | None
    """(host, port); None means `webhook.host` and `webhook.port` of the Configuration."""
    certificate_life: dt.timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDashboardOptions:
    """The page, on the loopback address. `access` is how the controllers reach the API server."""

    access: "Access"
    port: int


def rate_limit(configuration: "Loaded") -> "RateLimit | None":
    """The limit of `clientConnection`; without the section there is none."""
    from pykueue.kube.clock import WallClock
    from pykueue.kube.rate_limit import RateLimit

    connection = configuration.value.client_connection
    if "clientConnection" not in configuration.document or connection.qps <= 0:
        return None
    return RateLimit(connection.qps, connection.burst, WallClock())


async def serve(
    client: "Client",
    configuration: "Loaded",
    options: WebhookOptions | None,
    recording: "RingOptions | None" = None,
    *,
    dashboard: ClusterDashboardOptions | None = None,
) -> None:
    """Run until SIGINT or SIGTERM; without options, webhooks or the page are not served."""
    import pykueue.controllers.system  # noqa: F401 - an import takes a long turn of the event loop

    stopping = process.stop_signal()
    webhooks = _webhooks(client, configuration, options) if options else None
    controller = ControllerProcess(client, configuration, webhooks, recording=recording)
    profiling = ProfilingServer(configuration.value.pprof_bind_address)
    servers: list[HealthServer | MetricsServer | ProfilingServer] = [*controller.health_servers(), profiling]
    process.log_limits(configuration.document)
    try:
        for server in servers:
            await server.start()
        process.tune_collector()
        tasks = [controller.run(), *controller.tasks_of_every_replica()]
        if webhooks is not None:
            tasks.append(webhooks.run())
        if dashboard is not None:
            tasks.append(controller.dashboard(dashboard))
        async with loop_watchdog.watched():
            await _run_until(stopping, tasks)
    finally:
        for server in servers:
            await server.stop()


def _webhooks(client: "Client", configuration: "Loaded", options: WebhookOptions) -> "Webhooks":
    from pykueue.webhooks.certificate_lifecycle import CertificateLifetimes
    from pykueue.webhooks.service import ListenAddress, Webhooks

    address = None if options.address is None else ListenAddress(host=options.address[0], port=options.address[1])
    return Webhooks(
        client, configuration.value, address=address, lifetimes=CertificateLifetimes.of(options.certificate_life)
    )


async def _run_until(stopping: asyncio.Event, coroutines: list[Coroutine[Any, Any, None]]) -> None:
    """Run all until `stopping` is set or one of them ends or fails; cancel the rest."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    stop_task = asyncio.create_task(stopping.wait())
    await asyncio.wait([*tasks, stop_task], return_when=asyncio.FIRST_COMPLETED)
    for task in (stop_task, *tasks):
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result


class ControllerProcess:
    """One replica: it leads, or waits to lead, and serves visibility in both roles."""

    def __init__(
        self,
        client: "Client",
        configuration: "Loaded",
        webhooks: "Webhooks | None" = None,
        *,
        recording: "RingOptions | None" = None,
    ) -> None:
        self._recording = recording
        self._client = client
        self._configuration = configuration
        self._webhooks = webhooks
        self._controllers: Controllers | None = None
        """While this replica leads."""
        self._follower: QueueFollower | None = None
        """While another replica leads."""
        self._started_leading, self._stopped_leading = asyncio.Event(), asyncio.Event()
        self._is_running = False

    def health_servers(self) -> "tuple[HealthServer, MetricsServer]":
        value = self._configuration.value
        endpoints = HealthEndpoints(
            health_address=value.health.health_probe_bind_address,
            liveness_path=value.health.liveness_endpoint_name,
            readiness_path=value.health.readiness_endpoint_name,
            metrics_address=value.metrics.bind_address,
            is_ready=lambda: self._is_running and (self._webhooks is None or self._webhooks.is_ready),
            metrics=self._metrics,
        )
        metrics = MetricsServer(
            endpoints,
            DelegatedAuth(self._client),
            value.tls,
            has_own_certificate=value.internal_cert_management.enable,
        )
        return HealthServer(endpoints), metrics

    def tasks_of_every_replica(self) -> list[Coroutine[Any, Any, None]]:
        """What a replica does whether it leads or not: the visibility API and what it needs."""
        value = self._configuration.value
        if not value.is_on("VisibilityOnDemand") or not value.visibility_server.bind_port:
            return []
        from pykueue.app.visibility.server import VisibilityApiServer

        tasks = [VisibilityApiServer(self._client, value, self._queues, self._configuration.document).run()]
        return [*tasks, self._follow_queues()] if value.leader_election.leader_elect else tasks

    async def dashboard(self, options: ClusterDashboardOptions) -> None:
        from pykueue.dashboard.cluster_server import ClusterDashboard

        def totals() -> Mapping[str, tuple[float, float, float]]:
            return {} if self._controllers is None else self._controllers.metrics.queue_totals()

        async def preview(obj: "Object") -> "Object":
            from pykueue.app import previews

            return await previews.preview_for_page(self._client, obj)

        await ClusterDashboard(self._client, options.access, totals, port=options.port, preview=preview).run()

    def _queues(self) -> "tuple[EngineView, ObjectCache] | None":
        if self._controllers is not None:
            return self._controllers.scheduler.engine.view, self._controllers.cache
        return None if self._follower is None else (self._follower.view, self._follower.cache)

    async def _follow_queues(self) -> None:
        """Keep a copy of the queues while another replica leads. The leader has its own."""
        from pykueue.controllers.scheduler.follower import QueueFollower
        from pykueue.kube.clock import WallClock

        while True:
            self._follower = QueueFollower(self._client, self._configuration.document, WallClock())
            following = asyncio.create_task(self._follower.run())
            await self._started_leading.wait()
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            self._follower = None
            await self._stopped_leading.wait()

    async def run(self) -> None:
        from pykueue.api.times import SECOND_NS
        from pykueue.kube.clock import WallClock
        from pykueue.kube.lease import LeaderElector, LeaseTiming

        terms = self._configuration.value.leader_election
        self._is_running = True
        if not terms.leader_elect:
            await self._lead(None)
            return
        election = LeaderElector(
            self._client,
            WallClock(),
            namespace=terms.resource_namespace or self._configuration.value.namespace,
            name=terms.resource_name,
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
            timing=LeaseTiming(
                lease_seconds=terms.lease_duration_ns / SECOND_NS,
                renew_seconds=terms.renew_deadline_ns / SECOND_NS,
                retry_seconds=terms.retry_period_ns / SECOND_NS,
            ),
        )
        while True:
            await election.run(lambda: self._lead(election))

    async def _lead(self, election: "LeaderElector | None") -> None:
        from pykueue.controllers.metrics import instruments
        from pykueue.controllers.system import CacheSyncError, Controllers

        is_elected = self._configuration.value.leader_election.leader_elect
        role = instruments.LEADER if is_elected else instruments.STANDALONE
        self._controllers = Controllers(
            self._client, self._configuration.document, role=role, recording=self._recording
        )
        log.info("the controllers start")
        self._stopped_leading.clear()
        self._started_leading.set()
        try:
            await self._controllers.run()
        except BaseExceptionGroup as group:
            if timeouts := group.split(CacheSyncError)[0]:
                raise click.ClickException(str(timeouts.exceptions[0])) from None
            raise
        finally:
            if election is not None:
                election.must_expire = self._controllers.scheduler.has_unanswered_writes
            self._controllers = None
            self._started_leading.clear()
            self._stopped_leading.set()

    async def _metrics(self) -> bytes:
        """The text for Prometheus; empty while another replica leads.

        Rendered in a thread, because the text of many queues would block the loop.
        """
        if self._controllers is None:
            return b""
        metrics = self._controllers.metrics
        metrics.refresh()
        return await asyncio.to_thread(metrics.text)
