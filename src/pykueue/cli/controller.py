"""`pykueue controller`: the controllers against the API server of any cluster, until a signal.

Of several, one leads by a Lease and the others wait. One that loses the lease stops what it does at once, and waits
again with a fresh view; one that is asked to stop gives the lease back, so that the next one need not wait for it to end.
"""

import asyncio
import gc
import logging
import socket
import uuid
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykueue.app import serving
from pykueue.app.webhooks import AS_CONFIGURED, WebhookOptions

if TYPE_CHECKING:
    from pykueue.api.configuration.loading import Loaded
    from pykueue.app.health import HealthEndpoints
    from pykueue.controllers.scheduler.follower import QueueFollower
    from pykueue.controllers.system import Controllers
    from pykueue.engine.world import World
    from pykueue.kube.client import Client
    from pykueue.kube.controller.cache import ObjectCache
    from pykueue.webhooks.service import Webhooks

log = logging.getLogger(__name__)


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Default: the pod's own access, else as kubectl.")
@click.option("--context", default="", help="The context of the kubeconfig to use.")
@click.option("--config", type=click.Path(path_type=Path, exists=True), help="Kueue Configuration or Helm values.")
@click.option(
    "--webhooks",
    is_flag=False,
    flag_value=AS_CONFIGURED,
    default="",
    metavar="[ADDRESS:PORT]",
    help="Serve admission webhooks, for clusters without MutatingAdmissionPolicy. Default: webhook.host and webhook.port.",
)
@click.option("--certificate-life", default="8760h", show_default=True, help="Of the certificate of the webhooks.")
@click.option("--log-level", type=click.Choice(serving.LOG_LEVELS), default="info", show_default=True)
def controller(
    *,
    kubeconfig: Path | None,
    context: str,
    config: Path | None,
    webhooks: str,
    certificate_life: str,
    log_level: str,
) -> None:
    """Queue the jobs of a Kubernetes cluster."""
    gc.disable()  # what a start makes is no garbage; `serving.tune_collector` turns the collector on again
    from pykueue.kube.access import AccessError

    logging.basicConfig(level=log_level.upper(), format=serving.LOG_FORMAT)
    configuration = serving.load_configuration(config)
    wish = WebhookOptions(address=webhooks, certificate_life=certificate_life) if webhooks else None
    try:
        with asyncio.Runner(loop_factory=serving.loop_factory()) as runner:
            runner.run(_serve(kubeconfig, context, configuration, wish))
    except AccessError as error:
        raise click.ClickException(str(error)) from None


async def _serve(kubeconfig: Path | None, context: str, configuration: "Loaded", wish: WebhookOptions | None) -> None:
    from pykueue.app.health import Probes
    from pykueue.kube import access
    from pykueue.kube.http_client import HttpClient

    stopping = serving.stop_signal()
    client = HttpClient(await access.find(kubeconfig, context))
    webhooks = wish.made(client, configuration.value) if wish else None
    process = ControllerProcess(client, configuration, webhooks)
    probes = Probes(process.pages())
    try:
        await probes.start()
        serving.tune_collector()
        works = [process.run(), *process.works_of_every_replica()]
        await _until(stopping, *works, *([webhooks.run()] if webhooks else []))
    except OSError as error:
        raise click.ClickException(str(error)) from None
    finally:
        await probes.stop()
        await client.close()


async def _until(stopping: asyncio.Event, *works: Coroutine[Any, Any, None]) -> None:
    """Work until asked to stop, or until one of the works has ended; its failure is ours."""
    tasks = [asyncio.create_task(work) for work in works]
    asked_to_stop = asyncio.create_task(stopping.wait())
    await asyncio.wait([*tasks, asked_to_stop], return_when=asyncio.FIRST_COMPLETED)
    for task in (asked_to_stop, *tasks):
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result


class ControllerProcess:
    """Leads, waits to lead, and leads again."""

    def __init__(self, client: "Client", configuration: "Loaded", webhooks: "Webhooks | None" = None) -> None:
        self._client = client
        self._configuration = configuration
        self._webhooks = webhooks
        self._leading: Controllers | None = None
        self._observer: QueueFollower | None = None
        self._begins_to_lead, self._ceases_to_lead = asyncio.Event(), asyncio.Event()
        self._is_running = False

    def pages(self) -> "HealthEndpoints":
        from pykueue.app.health import HealthEndpoints

        value = self._configuration.value
        return HealthEndpoints(
            health_address=value.health.health_probe_bind_address,
            liveness_path=value.health.liveness_endpoint_name,
            readiness_path=value.health.readiness_endpoint_name,
            metrics_address=value.metrics.bind_address,
            is_ready=lambda: self._is_running and (self._webhooks is None or self._webhooks.is_ready),
            metrics=self._metrics,
        )

    def works_of_every_replica(self) -> list[Coroutine[Any, Any, None]]:
        """What is done beside leading, by those who wait too."""
        value = self._configuration.value
        if not value.is_on("VisibilityOnDemand") or not value.visibility_server.bind_port:
            return []
        from pykueue.app.visibility.server import VisibilityServer

        works = [VisibilityServer(self._client, value, self._view).run()]
        return [*works, self._observe()] if value.leader_election.leader_elect else works

    def _view(self) -> "tuple[World, ObjectCache] | None":
        if self._leading is not None:
            return self._leading.scheduler.engine.world, self._leading.cache
        return None if self._observer is None else (self._observer.world, self._observer.cache)

    async def _observe(self) -> None:
        """Who leads knows the queues anyway; the others watch them."""
        from pykueue.controllers.scheduler.follower import QueueFollower
        from pykueue.kube.clock import WallClock

        while True:
            self._observer = QueueFollower(self._client, self._configuration.document, WallClock())
            watching = asyncio.create_task(self._observer.run())
            await self._begins_to_lead.wait()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            self._observer = None
            await self._ceases_to_lead.wait()

    async def run(self) -> None:
        from pykueue.api.times import SECOND_NS
        from pykueue.kube.clock import WallClock
        from pykueue.kube.lease import LeaderElector, LeaseTiming

        terms = self._configuration.value.leader_election
        self._is_running = True
        if not terms.leader_elect:
            await self._lead()
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
            await election.run(self._lead)

    async def _lead(self) -> None:
        from pykueue.controllers.metrics import instruments
        from pykueue.controllers.system import Controllers

        is_elected = self._configuration.value.leader_election.leader_elect
        role = instruments.LEADER if is_elected else instruments.STANDALONE
        self._leading = Controllers(self._client, self._configuration.document, role=role)
        log.info("the controllers start")
        self._ceases_to_lead.clear()
        self._begins_to_lead.set()
        try:
            await self._leading.run()
        finally:
            self._leading = None
            self._begins_to_lead.clear()
            self._ceases_to_lead.set()

    async def _metrics(self) -> bytes:
        """Empty while another one leads; rendered beside the event loop, for there may be many queues."""
        if self._leading is None:
            return b""
        metrics = self._leading.metrics
        metrics.refresh()
        return await asyncio.to_thread(metrics.text)
