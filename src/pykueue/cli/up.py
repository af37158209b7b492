"""`pykueue up`: a Kubernetes API with queues on this machine. The process itself is `app.up`.

Expected errors (data in use, port taken, damaged file) are printed as one line with a hint.
"""

import asyncio
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykueue.app import process
from pykueue.cli import options
from pykueue.cli import output as outputs
from pykueue.cli.data_directory import DataDirectory, with_data_dir

if TYPE_CHECKING:
    from pykueue.apiserver.embedded import EmbeddedApi
    from pykueue.app.up import RunningServer, UpOptions
    from pykueue.cluster.runtimes.isolation import Isolation
    from pykueue.cluster.runtimes.process import RunningPod
    from pykueue.recording.ring import RingOptions

RUNTIMES = ("process", "podman", "simulated", "none")
RUN_HERE = ("process", "podman")
"""The runtimes that run jobs on this machine."""
DEFAULT_PORT = 6443
_MOST_NAMES = 10
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - refused without a name


class ListenOption(click.ParamType[tuple[str, int]]):
    name = "HOST:PORT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        if not port.isdecimal() or int(port) > 65535:
            self.fail(f"{value!r} is not HOST:PORT, for example 127.0.0.1:6443 (port 0 takes any free one)", param, ctx)
        return host.strip("[]") or "127.0.0.1", int(port)


class GpuSharesOption(click.ParamType[dict[int | None, int]]):
    name = "N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dict[int | None, int]:
        from pykueue.cluster import gpus

        if isinstance(value, dict):
            return value
        try:
            return gpus.parse_shares(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _host_names(_ctx: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    from pykueue.api.rules import syntax

    for name in names:
        if not _is_address(name) and syntax.dns_subdomain(name):
            raise click.BadParameter(f"{name!r} is neither the name of a host nor an IP address")
    return names


def _collector(_ctx: click.Context, _option: click.Parameter, url: str) -> str:
    from urllib.parse import urlsplit

    if url and not (urlsplit(url).scheme in ("http", "https") and urlsplit(url).hostname):
        raise click.BadParameter(f"{url!r} is not an http or https address")
    return url


def _is_address(name: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@click.command()
@with_data_dir
@click.option(
    "--listen",
    type=ListenOption(),
    help="The address of the API; port 0 takes any free one. Default: 127.0.0.1:6443; "
    "with --name a free port, which the cluster keeps.",
)
@click.option(
    "--reachable-as",
    "names",
    multiple=True,
    metavar="NAME",
    callback=_host_names,
    help="A name or address by which other machines reach the API; may be repeated. It is needed "
    "with --listen 0.0.0.0, and stands in the certificate and the kubeconfigs.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Also write the administrator's kubeconfig to this file, when the API is ready.",
)
@options.with_config("the shipped one")
@click.option(
    "--nodes",
    type=options.EXISTING_FILE,
    help="A file with Node, NodePool and ResourceSlice manifests. Default: nodes that suit the runtime.",
)
@click.option(
    "--runtime",
    type=click.Choice(RUNTIMES),
    default="process",
    show_default=True,
    help="How pods run: as processes of this machine, in containers of podman, simulated, or not at all.",
)
@click.option(
    "--bare",
    is_flag=True,
    help="Create no queue. Default: a new cluster that runs jobs here, without --nodes and --config, "
    "has a queue `default` with the CPUs, the memory and the GPUs of this machine.",
)
@click.option(
    "--controllers/--no-controllers",
    default=True,
    show_default=True,
    help="Run the controllers here, or leave them to a `pykueue controller`.",
)
@click.option(
    "--stop-jobs",
    is_flag=True,
    help="End running jobs when pykueue stops. Default: they go on, and the next start adopts them.",
)
@click.option(
    "--isolation/--no-isolation",
    default=True,
    show_default=True,
    help="As root, isolate the jobs of namespaces that others may use. See docs/isolation.md.",
)
@click.option(
    "--run-as",
    multiple=True,
    metavar="[NAMESPACE=]USER",
    help="As root, run all jobs, or those of a namespace, as this Unix user; may be repeated. Default: none.",
)
@click.option(
    "--first-uid",
    type=click.IntRange(min=1, max=2**31 - 65536),
    help="The first of the uids for isolated namespaces. Default: 2100000000.",
)
@click.option(
    "--gpu-shares",
    type=GpuSharesOption(),
    help="Let N jobs use a GPU at a time: 4 for all GPUs, 0:4,1:2 for some of them. Such GPUs are the resource "
    "nvidia.com/gpu.shared. Default: one job has a GPU for itself.",
)
@click.option(
    "--max-log-size",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="How many MiB of a container's log are kept; the oldest lines go first.",
)
@click.option(
    "--dashboard/--no-dashboard",
    default=True,
    show_default=True,
    help="Serve a page that shows the queues, on this machine and at /dashboard/ of the API.",
)
@click.option(
    "--dashboard-port",
    type=click.IntRange(min=0, max=65535),
    help="The port of the page on this machine; 0 takes any free one. Default: the one after that of the API.",
)
@click.option(
    "--record/--no-record",
    default=True,
    show_default=True,
    help="Record the events of the scheduler for `pykueue replay`, in the data directory.",
)
@click.option(
    "--record-size",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="How many MiB the record may take; the oldest events go first.",
)
@click.option(
    "--traces",
    callback=_collector,
    default="",
    metavar="URL",
    help="Send OpenTelemetry traces of Workloads to a collector (OTLP over HTTP), for example "
    "http://127.0.0.1:4318. Default: none.",
)
@click.option(
    "--detach", "-d", "detached", is_flag=True, help="Return when the API is ready; pykueue runs in the background."
)
@options.with_log_options("warning")
def up(
    *,
    directory: DataDirectory,
    listen: tuple[str, int] | None,
    names: tuple[str, ...],
    kubeconfig: Path | None,
    config: Path | None,
    nodes: Path | None,
    runtime: str,
    bare: bool,
    controllers: bool,
    stop_jobs: bool,
    isolation: bool,
    run_as: tuple[str, ...],
    first_uid: int | None,
    gpu_shares: dict[int | None, int] | None,
    max_log_size: int,
    dashboard: bool,
    dashboard_port: int | None,
    record: bool,
    record_size: int,
    traces: str,
    detached: bool,
    log: process.LogOptions,
) -> None:
    """Start a Kubernetes-compatible API on this machine.

    It serves the API, queues jobs and runs them until Ctrl-C.
    """
    if detached:
        from pykueue.cli import detach

        detach.start(directory, [word for word in sys.argv[1:] if word not in ("--detach", "-d")])
        return
    gc.disable()  # `process.tune_collector` enables it again: the start makes no garbage.
    from pykueue.apiserver.paths import ServerPaths
    from pykueue.app import components, running_jobs
    from pykueue.app import up as up_process

    process.prepare(log)
    host, port = listen or ("127.0.0.1", _port(directory))
    _refuse_to_be_unnamed(host, names)
    directory.make_private()
    _refuse_to_change_runtime(directory, runtime)
    options = up_process.UpOptions(
        paths=ServerPaths(directory=directory.path, host=host, port=port, names=names),
        configuration=process.load_configuration(config),
        runtime=runtime,
        nodes=nodes,
        has_controllers=controllers,
        stops_jobs=stop_jobs,
        has_default_queues=not bare and controllers and runtime in RUN_HERE and nodes is None and config is None,
        process=components.ProcessOptions(
            is_isolated=isolation,
            run_as=run_as,
            first_uid=first_uid,
            gpu_shares=gpu_shares or {},
            log_bytes=max_log_size << 20,
        ),
        dashboard=components.DashboardOptions(is_served=dashboard, port=dashboard_port),
        recording=_recording(directory, record_size) if record else None,
        traces=traces,
    )
    _serve(options, kubeconfig, running_jobs.find(directory.path))
    _announce_running_jobs(directory)


def _recording(directory: DataDirectory, size_mib: int) -> "RingOptions":
    from pykueue.recording import ring

    return ring.RingOptions(directory=directory.path / ring.DIRECTORY, size=size_mib << 20)


def _serve(options: "UpOptions", kubeconfig: Path | None, adopted: "list[RunningPod]") -> None:
    """Run until a signal; print expected errors as one line."""
    from pykueue.apiserver.http.listener import ListenError
    from pykueue.apiserver.security.files import UnsafeDirectoryError
    from pykueue.apiserver.security.tokens import TokenFileError
    from pykueue.apiserver.store.log import StoreError
    from pykueue.app import up as up_process

    try:
        with asyncio.Runner(loop_factory=process.loop_factory()) as runner:
            runner.run(
                up_process.serve(
                    options, lambda server: _announce(server, kubeconfig and kubeconfig.resolve(), options, adopted)
                )
            )
    except (StoreError, TokenFileError, ListenError, UnsafeDirectoryError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or options.paths.directory}: {error.strerror or error}") from None


def _port(directory: DataDirectory) -> int:
    """The usual port; a named cluster keeps the free one that it got at its first start."""
    if not directory.is_named:
        return DEFAULT_PORT
    from pykueue.apiserver.security import kubeconfig

    server = kubeconfig.read_server(directory.kubeconfig)
    port = int(server.rpartition(":")[2]) if server else 0
    return port if _is_free(port) else 0


def _is_free(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _refuse_to_be_unnamed(host: str, names: tuple[str, ...]) -> None:
    """A client cannot verify the certificate of an address that stands for all addresses."""
    if host in _WILDCARDS and not names:
        import socket

        raise click.UsageError(
            f"--listen {host} accepts connections from other machines, which need a name for this one: "
            f"add --reachable-as NAME, for example --reachable-as {socket.gethostname()}"
        )


def _refuse_to_change_runtime(directory: DataDirectory, runtime: str) -> None:
    """Only the runtime that started processes or containers can continue with them."""
    from pykueue.app import running_jobs

    jobs = running_jobs.find(directory.path)
    starter = "podman" if any(job.has_podman for job in jobs) else "process"
    if directory.holder() is None and jobs and runtime != starter:
        it = "it" if running_jobs.number(jobs) == 1 else "them"
        raise click.ClickException(
            f"{running_jobs.count(jobs, ('still runs', 'still run'))} on this machine. "
            f"Start with `--runtime {starter}`, or end {it} with `pykueue down{directory.options}`."
        )


async def _announce(
    server: "RunningServer", kubeconfig: Path | None, options: "UpOptions", adopted: "list[RunningPod]"
) -> None:
    """Print the address, the machine, the queues, the next command, and which jobs went on."""
    from pykueue.apiserver.security import kubeconfig as files

    paths = server.api.paths
    path = paths.kubeconfig
    if kubeconfig is not None:
        files.write(kubeconfig, server.access)
        path = kubeconfig
    outputs.echo(f"pykueue is ready at {server.access.server} (data in {paths.directory})")
    outputs.echo(f"  export KUBECONFIG={path}")
    for line in await _summary(server.api, options.runtime):
        outputs.echo(f"  {line}")
    if server.dashboard is not None:
        outputs.echo(f"  The page: {server.dashboard.link()}")
    if options.runtime == "process" and (isolation := isolation_of(paths.directory)):
        outputs.echo(isolation.sentence())
        outputs.echo(isolation.limits())
    if options.runtime == "podman":
        outputs.echo("Jobs run in containers of podman, without root. See docs/isolation.md.")
    for line in await _adopted(server.api, adopted):
        outputs.echo(line)
    if options.runtime == "none":
        outputs.echo("No pod is started, because the runtime is `none`. `pykueue up --runtime process` runs pods here.")


async def _adopted(api: "EmbeddedApi", pods: "list[RunningPod]") -> list[str]:
    """Which jobs went on while pykueue did not run."""
    from pykueue.api import objects, resources
    from pykueue.app import running_jobs

    if not pods:
        return []
    stored = {objects.uid(pod): pod for pod in (await api.client().list(resources.POD)).items}
    adopted = [pod for pod in pods if pod.uid in stored]
    owners = [objects.controller_of(stored[pod.uid]) or stored[pod.uid]["metadata"] for pod in adopted]
    names = list(dict.fromkeys(str(owner["name"]) for owner in owners))
    if not names:
        return []
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    count = running_jobs.count(adopted, ("went on and is adopted", "went on and are adopted"))
    return [f"{count}: {', '.join(names[:_MOST_NAMES])}{more}"]


async def _summary(api: "EmbeddedApi", runtime: str) -> list[str]:
    """The machine, the queues with their quota, and what to do next."""
    from pykueue.cli import status

    report = await status.read(api.client(), "")
    lines = [status.node_line(node, runtime) for node in report["nodes"][:1]] if runtime in RUN_HERE else []
    queues = [f"queue {queue['name']} ({'; '.join(queue['quotaInUse'])})" for queue in report["queues"]]
    if len(queues) > 1:
        queues = [f"{len(queues)} ClusterQueues; `pykueue status` shows them"]
    next_command = "pykueue submit -f -- echo hello" if queues and runtime in RUN_HERE else "kubectl get clusterqueues"
    return [*lines, *queues, next_command]


def isolation_of(directory: Path) -> "Isolation | None":
    """How jobs are isolated; None if the running `pykueue up` starts no processes."""
    from pykueue.app.running_jobs import CLUSTER_DIRECTORY
    from pykueue.cluster.runtimes import isolation

    return isolation.read(directory / CLUSTER_DIRECTORY)


def _announce_running_jobs(directory: DataDirectory) -> None:
    """Say what still runs after a stop, and how to end it, or that `pykueue down` ends it."""
    from pykueue.app import running_jobs

    is_ended = running_jobs.is_end_announced(directory.path, os.getpid())
    jobs = running_jobs.find(directory.path)
    if jobs and is_ended:
        outputs.echo(f"{running_jobs.count(jobs, ('is ended', 'are ended'))}, because `pykueue down` stopped pykueue.")
    elif jobs:
        it, end = ("it", "it ends") if running_jobs.number(jobs) == 1 else ("them", "they end")
        outputs.echo(
            f"{running_jobs.count(jobs, ('goes on', 'go on'))}. `pykueue up{directory.options}` adopts {it}; "
            f"`pykueue down{directory.options}` ends {it}; with `pykueue up --stop-jobs` {end} when pykueue stops."
        )
