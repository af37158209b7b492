"""`pykueue up`: a Kubernetes API with queues on this machine. The process itself is `app.up`.

Expected errors (data in use, port taken, damaged file) are printed as one line with a hint.
"""

import asyncio
import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykueue.app import process
from pykueue.cli import options
from pykueue.cli import output as outputs

if TYPE_CHECKING:
    from pykueue.app.up import RunningServer
    from pykueue.cluster.runtimes.isolation import Isolation

RUNTIMES = ("process", "podman", "simulated", "none")
DEFAULT_PORT = 6443
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - refused without a name


def default_data_dir() -> Path:
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(os.environ.get("PYKUEUE_DATA_DIR") or Path(home) / "pykueue")


def resolve_data_dir(option: Path | None) -> Path:
    return (option or default_data_dir()).expanduser().resolve()


class ListenOption(click.ParamType[tuple[str, int]]):
    name = "HOST:PORT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        if not port.isdecimal() or int(port) > 65535:
            self.fail(f"{value!r} is not HOST:PORT, for example 127.0.0.1:6443 (port 0 takes any free one)", param, ctx)
        return host.strip("[]") or "127.0.0.1", int(port)


def _host_names(_ctx: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    from pykueue.api.rules import syntax

    for name in names:
        if not _is_address(name) and syntax.dns_subdomain(name):
            raise click.BadParameter(f"{name!r} is neither the name of a host nor an IP address")
    return names


def _is_address(name: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


with_data_dir = click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    help="The directory of all data. Default: PYKUEUE_DATA_DIR, else ~/.local/share/pykueue.",
)


@click.command()
@with_data_dir
@click.option(
    "--listen",
    type=ListenOption(),
    default=("127.0.0.1", DEFAULT_PORT),
    help="The address of the API; port 0 takes any free one. Default: 127.0.0.1:6443.",
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
@options.with_log_level("warning")
def up(
    *,
    data_dir: Path | None,
    listen: tuple[str, int],
    names: tuple[str, ...],
    kubeconfig: Path | None,
    config: Path | None,
    nodes: Path | None,
    runtime: str,
    controllers: bool,
    stop_jobs: bool,
    isolation: bool,
    run_as: tuple[str, ...],
    first_uid: int | None,
    max_log_size: int,
    dashboard: bool,
    dashboard_port: int | None,
    log_level: str,
) -> None:
    """Start a Kubernetes-compatible API on this machine.

    It serves the API, queues jobs and runs them until Ctrl-C.
    """
    gc.disable()  # `process.tune_collector` enables it again: the start makes no garbage.
    from pykueue.apiserver.embedded import ServerPaths
    from pykueue.apiserver.http.listener import ListenError
    from pykueue.apiserver.security.files import UnsafeDirectoryError
    from pykueue.apiserver.security.tokens import TokenFileError
    from pykueue.apiserver.store.log import StoreError
    from pykueue.app import components
    from pykueue.app import up as up_process

    process.prepare(log_level)
    directory = resolve_data_dir(data_dir)
    _refuse_to_be_unnamed(listen[0], names)
    _refuse_to_change_runtime(directory, runtime)
    options = up_process.UpOptions(
        paths=ServerPaths(directory=directory, host=listen[0], port=listen[1], names=names),
        configuration=process.load_configuration(config),
        runtime=runtime,
        nodes=nodes,
        has_controllers=controllers,
        stops_jobs=stop_jobs,
        process=components.ProcessOptions(
            is_isolated=isolation, run_as=run_as, first_uid=first_uid, log_bytes=max_log_size << 20
        ),
        dashboard=components.DashboardOptions(is_served=dashboard, port=dashboard_port),
    )
    try:
        with asyncio.Runner(loop_factory=process.loop_factory()) as runner:
            runner.run(up_process.serve(options, lambda server: _announce(server, kubeconfig, runtime)))
    except (StoreError, TokenFileError, ListenError, UnsafeDirectoryError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or directory}: {error.strerror or error}") from None
    _announce_running_jobs(directory, data_dir)


def _refuse_to_be_unnamed(host: str, names: tuple[str, ...]) -> None:
    """A client cannot verify the certificate of an address that stands for all addresses."""
    if host in _WILDCARDS and not names:
        import socket

        raise click.UsageError(
            f"--listen {host} accepts connections from other machines, which need a name for this one: "
            f"add --reachable-as NAME, for example --reachable-as {socket.gethostname()}"
        )


def _refuse_to_change_runtime(directory: Path, runtime: str) -> None:
    """Only the runtime that started processes or containers can continue with them."""
    from pykueue.apiserver.store import lock
    from pykueue.app import running_jobs

    jobs = running_jobs.find(directory)
    starter = "podman" if any(job.has_podman for job in jobs) else "process"
    if lock.holder(directory) is None and jobs and runtime != starter:
        it = "it" if running_jobs.number(jobs) == 1 else "them"
        raise click.ClickException(
            f"{running_jobs.count(jobs, ('still runs', 'still run'))} on this machine. "
            f"Start with `--runtime {starter}`, or end {it} with `pykueue down --data-dir {directory}`."
        )


def _announce(server: "RunningServer", kubeconfig: Path | None, runtime: str) -> None:
    from pykueue.apiserver.security import kubeconfig as files

    paths = server.api.paths
    path = paths.kubeconfig
    if kubeconfig is not None:
        files.write(kubeconfig, server.access)
        path = kubeconfig.resolve()
    outputs.echo(f"pykueue is ready at {server.access.server} (data in {paths.directory})")
    outputs.echo(f"  export KUBECONFIG={path}")
    outputs.echo("  kubectl get clusterqueues")
    if server.dashboard is not None:
        outputs.echo(f"  The page: {server.dashboard.link()}")
    if runtime == "process" and (isolation := isolation_of(paths.directory)):
        outputs.echo(isolation.sentence())
        outputs.echo(isolation.limits())
    if runtime == "podman":
        outputs.echo("Jobs run in containers of podman, without root. See docs/isolation.md.")
    if runtime == "none":
        outputs.echo("No pod is started, because the runtime is `none`. `pykueue up --runtime process` runs pods here.")


def isolation_of(directory: Path) -> "Isolation | None":
    """How jobs are isolated; None if the running `pykueue up` starts no processes."""
    from pykueue.app.components import CLUSTER_DIRECTORY
    from pykueue.cluster.runtimes import isolation

    return isolation.read(directory / CLUSTER_DIRECTORY)


def _announce_running_jobs(directory: Path, option: Path | None) -> None:
    """Say what still runs after a stop, and how to end it, or that `pykueue down` ends it."""
    from pykueue.app import running_jobs

    is_ended = running_jobs.is_end_announced(directory, os.getpid())
    jobs = running_jobs.find(directory)
    if jobs and is_ended:
        outputs.echo(f"{running_jobs.count(jobs, ('is ended', 'are ended'))}, because `pykueue down` stopped pykueue.")
    elif jobs:
        words = f" --data-dir {option}" if option else ""
        it, end = ("it", "it ends") if running_jobs.number(jobs) == 1 else ("them", "they end")
        outputs.echo(
            f"{running_jobs.count(jobs, ('goes on', 'go on'))}. `pykueue up{words}` adopts {it}; "
            f"`pykueue down{words}` ends {it}; with `pykueue up --stop-jobs` {end} when pykueue stops."
        )
