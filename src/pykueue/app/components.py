"""The components that `pykueue up` starts beside the API server, in order.

To add one, write a function that takes an `UpContext` and returns a `Component` (or None if the
options exclude it), and put it into COMPONENTS. Import what only one component needs inside its
function, so that a process that does not use it starts fast.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
import msgspec

from pykueue.api import manifests
from pykueue.api.scheme import Object
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.http.hooks import Hooks
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.app.health import METRICS_CONTENT_TYPE
from pykueue.app.running_jobs import CLUSTER_DIRECTORY

if TYPE_CHECKING:
    from pykueue.api.configuration.types import Health
    from pykueue.app.configured_controllers import ConfiguredControllers
    from pykueue.cluster.runtimes.sandbox import UnixUser
    from pykueue.recording.ring import RingOptions

log = logging.getLogger(__name__)


class Component(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOptions:
    """The options of `pykueue up` for pods that are processes of this machine."""

    is_isolated: bool = True
    run_as: tuple[str, ...] = ()
    """The account that all pods run as, or NAMESPACE=ACCOUNT."""
    first_uid: int | None = None
    """The first uid for namespaces with a Unix user of their own."""
    gpu_shares: Mapping[int | None, int] = field(default_factory=dict)
    """How many pods use a GPU at a time; see `cluster.gpus`."""
    log_bytes: int | None = None
    """How much of a container's log is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardOptions:
    """The page of `pykueue up`."""

    is_served: bool = False
    port: int | None = None
    """Its port on the loopback address; None means the one after that of the API."""


@dataclass(slots=True, kw_only=True)
class UpContext:
    """What a component is built from: the API server and the options of `pykueue up`.

    `api.client()` calls the API server in process. `api.hooks` adds to it: subresources of pods,
    API groups and pages.
    """

    api: EmbeddedApi
    data_dir: Path
    runtime: str
    """process, simulated or none."""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """The Kueue Configuration, as JSON."""
    nodes: Path | None = None
    """A file with Node, NodePool and ResourceSlice manifests."""
    has_controllers: bool = True
    """False if another process runs `pykueue controller`."""
    stops_jobs: bool = False
    """Whether running pods end with this process. Otherwise the next start adopts them."""
    has_default_queues: bool = False
    """Whether a new cluster gets a queue with what this machine has."""
    process: ProcessOptions = ProcessOptions()
    dashboard: DashboardOptions = DashboardOptions()
    controllers: "ConfiguredControllers | None" = None
    """Set by the component of the controllers, for components after it."""
    traces: str = ""
    """The address of the collector of traces; "": none."""
    recording: "RingOptions | None" = None
    """Where the events of the engine are recorded; None: they are not."""


def _controllers(context: UpContext) -> Component | None:
    if not context.has_controllers:
        return None
    from pykueue.app import running_configuration
    from pykueue.app.configured_controllers import ConfiguredControllers
    from pykueue.app.visibility import api as visibility

    controllers = ConfiguredControllers(context.api, context.configuration, context.recording)
    visibility.register(context.api, controllers)
    _register_metrics(context.api.hooks, controllers)
    running_configuration.register(context.api.hooks, controllers)
    context.controllers = controllers
    return controllers


def _dashboard(context: UpContext) -> Component | None:
    if not context.dashboard.is_served:
        return None
    from pykueue.dashboard.embedded import EmbeddedDashboard

    def totals() -> Mapping[str, tuple[float, float, float]]:
        return {} if context.controllers is None else context.controllers.metrics.queue_totals()

    async def preview(obj: Object) -> Object:
        from pykueue.app import previews

        return await previews.preview_for_page(context.api.client(), obj)

    return EmbeddedDashboard(
        context.api, port=context.dashboard.port, totals=totals, directory=context.data_dir, preview=preview
    )


def _register_metrics(hooks: Hooks, controllers: "ConfiguredControllers") -> None:
    """Serve the metrics of the controllers at `/metrics` of the embedded API."""

    async def metrics(_call: HttpRequest) -> HttpResponse:
        """Rendered in a thread, because the text of many queues would block the loop."""
        controllers.metrics.refresh()
        body = await asyncio.to_thread(controllers.metrics.text)
        return HttpResponse(body=body, content_type=METRICS_CONTENT_TYPE)

    hooks.add_page("/metrics", metrics)


class LocalClusterComponent:
    """The local cluster (nodes, kubelet, operators) and the kubelet API that it answers."""

    def __init__(self, context: UpContext) -> None:
        from pykueue.cluster.local_cluster import ClusterOptions, LocalCluster
        from pykueue.kube.clock import WallClock

        self._context = context
        options = ClusterOptions(
            runtime=context.runtime,
            directory=context.data_dir / CLUSTER_DIRECTORY,
            nodes=_read_nodes(context.nodes),
            publish_components=True,
            **_process_options(context),
        )
        self._cluster = LocalCluster(context.api.client(), WallClock(), options)

    async def start(self) -> None:
        from pykueue.app.kubelet_api import exec_attach, logs, metrics, port_forward

        _keep_the_terminal_quiet()
        await self._cluster.start()
        if self._context.runtime != "none":
            logs.register(self._context.api, self._cluster)
            exec_attach.register(self._context.api, self._cluster)
        if self._context.runtime in ("process", "podman"):
            metrics.register(self._context.api)
            port_forward.register(self._context.api, self._cluster)

    async def stop(self) -> None:
        if self._context.stops_jobs:
            await self._cluster.stop()
        else:
            await self._cluster.abandon()


def _process_options(context: UpContext) -> dict[str, Any]:
    """How processes are isolated and limited; a file says it to `pykueue user add`."""
    from pykueue.cluster.runtimes import isolation, podman, unix_users
    from pykueue.cluster.runtimes.cgroups import Cgroups
    from pykueue.cluster.runtimes.monitor import ContainerLimits

    options, directory = context.process, context.data_dir / CLUSTER_DIRECTORY
    isolation.remove(directory)
    if context.runtime == "podman" and (obstacle := podman.obstacle()):
        raise click.ClickException(f"--runtime podman: {obstacle}")
    if context.runtime != "process":
        return {"gpu_shares": options.gpu_shares}
    accounts = dict(map(_account, options.run_as))
    first_uid = unix_users.FIRST_UID if options.first_uid is None else options.first_uid
    cgroups = Cgroups.detect() if os.geteuid() == 0 else None
    determined = isolation.determine(
        is_enabled=options.is_isolated,
        run_as=accounts.pop("", None),
        accounts=accounts,
        first_uid=first_uid,
        has_cgroups=cgroups is not None,
    )
    if options.run_as and not determined.is_possible:
        reason = determined.obstacle or "--no-isolation excludes it"
        raise click.ClickException(f"--run-as {options.run_as[0]}: another user needs isolation, but {reason}")
    determined.write(directory)
    limits = ContainerLimits() if options.log_bytes is None else ContainerLimits(log_bytes=options.log_bytes)
    return {"isolation": determined, "limits": limits, "cgroups": cgroups, "gpu_shares": options.gpu_shares}


def _account(option: str) -> "tuple[str, UnixUser]":
    """Namespace and user of `--run-as`; without a namespace, its name is empty."""
    from pykueue.cluster.runtimes import unix_users

    namespace, _, name = option.rpartition("=")
    try:
        return namespace, unix_users.account(name)
    except unix_users.AccountError as error:
        raise click.ClickException(f"--run-as {option}: {error}; name another") from None


def _keep_the_terminal_quiet() -> None:
    """Let components log at INFO into their own files, but not to the terminal."""
    from pykueue.cluster import component_deployments

    root = logging.getLogger()
    for handler in root.handlers:
        handler.setLevel(root.level)
    for deployment in component_deployments.COMPONENTS:
        for name in deployment.loggers:
            logging.getLogger(name).setLevel(min(logging.INFO, root.level))


NODE_KINDS = ("Node", "NodePool", "ResourceSlice")


def _read_nodes(path: Path | None) -> tuple[Object, ...]:
    if path is None:
        return ()
    documents, faults = manifests.read(path.read_bytes(), str(path))
    if faults:
        raise click.ClickException(str(faults[0]))
    for document in documents:
        kind = document.object.get("kind")
        if kind not in NODE_KINDS:
            raise click.ClickException(
                f"{path}:{document.line}: {kind} is not allowed in a file of nodes; remove it"
                f" (only {', '.join(NODE_KINDS)} are)"
            )
    return tuple(document.object for document in documents)


def _default_queues(context: UpContext) -> Component | None:
    if not context.has_default_queues:
        return None
    from pykueue.app.default_queues import DefaultQueues

    return DefaultQueues(context.api.client())


def _accounting(context: UpContext) -> Component:
    from pykueue.app.accounting import Accounting

    return Accounting(context.api, context.data_dir)


def _traces(context: UpContext) -> Component | None:
    if not context.traces:
        return None
    from pykueue.app.traces import Traces

    return Traces(context.api.client(), context.traces)


class LocalHealth:
    """The probes of the Configuration. They start last, so whoever is answered finds all the rest.

    Several clusters of one machine may have the same Configuration: an address that is in use is a
    warning. An address without a host is one of this machine only, as everything that `up` serves.
    """

    def __init__(self, health: "Health") -> None:
        from pykueue.app.health import HealthEndpoints, HealthServer

        address = health.health_probe_bind_address
        endpoints = HealthEndpoints(
            health_address=f"127.0.0.1{address}" if address.startswith(":") else address,
            liveness_path=health.liveness_endpoint_name,
            readiness_path=health.readiness_endpoint_name,
            metrics_address="0",
            is_ready=lambda: True,
            metrics=_no_metrics,
        )
        self._server = HealthServer(endpoints)

    async def start(self) -> None:
        try:
            await self._server.start()
        except click.ClickException as error:
            log.warning("health probes: %s", error.message)

    async def stop(self) -> None:
        await self._server.stop()


def _health(context: UpContext) -> Component | None:
    section = context.configuration.get("health") or {}
    if not section.get("healthProbeBindAddress"):
        return None
    from pykueue.api.configuration.types import Health

    return LocalHealth(msgspec.convert(section, Health))


async def _no_metrics() -> bytes:
    """`up` serves metrics at `/metrics` of the API."""
    return b""


def _profiling(context: UpContext) -> Component | None:
    address = context.configuration.get("pprofBindAddress")
    if not address:
        return None
    from pykueue.app.profiling import ProfilingServer

    return ProfilingServer(address)


COMPONENTS: list[Callable[[UpContext], Component | None]] = [
    _accounting,
    _traces,
    _controllers,
    LocalClusterComponent,
    _default_queues,
    _profiling,
    _dashboard,
    _health,
]
