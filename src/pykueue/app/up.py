"""The process of `pykueue up`: the embedded API server, then its components, until a signal.

Called by `cli.up`, and by the demo, which runs the same process in a temporary directory.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from pykueue.api import registry
from pykueue.api.configuration.loading import Loaded
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.paths import ServerPaths
from pykueue.apiserver.security.kubeconfig import ClusterCredentials
from pykueue.app import notification, process
from pykueue.app.components import COMPONENTS, DashboardOptions, ProcessOptions, UpContext
from pykueue.controllers.settings import admission_settings
from pykueue.dashboard.embedded import EmbeddedDashboard
from pykueue.kube import loop_watchdog
from pykueue.recording.ring import RingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    paths: ServerPaths
    configuration: Loaded
    runtime: str
    """process, simulated or none."""
    nodes: Path | None = None
    has_controllers: bool = True
    """False if another process runs `pykueue controller`."""
    stops_jobs: bool = False
    """Whether running pods end with this process. Otherwise the next start adopts them."""
    has_default_queues: bool = False
    """Whether a new cluster gets a queue with what this machine has."""
    process: ProcessOptions = field(default_factory=ProcessOptions)
    dashboard: DashboardOptions = field(default_factory=DashboardOptions)
    traces: str = ""
    """The address of the collector of OpenTelemetry traces; "": none are sent."""
    recording: RingOptions | None = None
    """Where the events of the engine are recorded; None: they are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    api: EmbeddedApi
    access: ClusterCredentials
    """What a kubeconfig of the administrator holds."""
    dashboard: EmbeddedDashboard | None = None


@contextlib.asynccontextmanager
async def started(options: UpOptions) -> AsyncIterator[RunningServer]:
    """Start the API server and its components in order; stop them in reverse order at the end.

    Clients are answered when everything has started.
    """
    document = options.configuration.document
    api = EmbeddedApi(options.paths, registry.scheme(), admission_settings(document))
    context = UpContext(
        api=api,
        data_dir=options.paths.directory,
        runtime=options.runtime,
        configuration=document,
        nodes=options.nodes,
        has_controllers=options.has_controllers,
        stops_jobs=options.stops_jobs,
        has_default_queues=options.has_default_queues,
        process=options.process,
        traces=options.traces,
        dashboard=options.dashboard,
        recording=options.recording,
    )
    components = [component for build in COMPONENTS if (component := build(context)) is not None]
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(api.stop)
        access = await api.start(is_open=False)
        for component in components:
            stack.push_async_callback(component.stop)
            await component.start()
        api.open()
        dashboards = (component for component in components if isinstance(component, EmbeddedDashboard))
        yield RunningServer(api=api, access=access, dashboard=next(dashboards, None))


async def serve(options: UpOptions, on_ready: Callable[[RunningServer], Awaitable[None]]) -> None:
    """Run until SIGINT or SIGTERM; `on_ready` is called once, when everything has started."""
    os.umask(0o077)
    listener = notification.take_address()
    stopping = process.stop_signal()
    process.log_limits(options.configuration.document, is_embedded=True)
    async with started(options) as server:
        await on_ready(server)
        notification.notify_ready(listener)
        process.tune_collector()
        async with loop_watchdog.watched():
            await stopping.wait()
