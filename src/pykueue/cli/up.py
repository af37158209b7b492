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

if TYPE_CHECKING:
    from pykueue.app.up import RunningServer

RUNTIMES = ("process", "simulated", "none")
DEFAULT_PORT = 6443


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
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Also write the administrator's kubeconfig to this file, when the API is ready.",
)
@options.with_config("the shipped one")
@click.option(
    "--nodes",
    type=options.EXISTING_FILE,
    help="A file with Node and NodePool manifests. Default: nodes that suit the runtime.",
)
@click.option(
    "--runtime",
    type=click.Choice(RUNTIMES),
    default="process",
    show_default=True,
    help="How pods run: as processes of this machine, simulated, or not at all.",
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
@options.with_log_level("warning")
def up(
    *,
    data_dir: Path | None,
    listen: tuple[str, int],
    kubeconfig: Path | None,
    config: Path | None,
    nodes: Path | None,
    runtime: str,
    controllers: bool,
    stop_jobs: bool,
    log_level: str,
) -> None:
    """Start a Kubernetes-compatible API on this machine.

    It serves the API, queues jobs and runs them until Ctrl-C.
    """
    gc.disable()  # `process.tune_collector` enables it again: the start makes no garbage.
    from pykueue.apiserver.embedded import ServerPaths
    from pykueue.apiserver.http.listener import ListenError
    from pykueue.apiserver.security.tokens import TokenFileError
    from pykueue.apiserver.store.log import StoreError
    from pykueue.app import up as up_process

    process.prepare(log_level)
    directory = resolve_data_dir(data_dir)
    _refuse_to_change_runtime(directory, runtime)
    options = up_process.UpOptions(
        paths=ServerPaths(directory=directory, host=listen[0], port=listen[1]),
        configuration=process.load_configuration(config),
        runtime=runtime,
        nodes=nodes,
        has_controllers=controllers,
        stops_jobs=stop_jobs,
    )
    try:
        with asyncio.Runner(loop_factory=process.loop_factory()) as runner:
            runner.run(up_process.serve(options, lambda server: _announce(server, kubeconfig, runtime)))
    except (StoreError, TokenFileError, ListenError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or directory}: {error.strerror or error}") from None
    _announce_running_jobs(directory, data_dir)


def _refuse_to_change_runtime(directory: Path, runtime: str) -> None:
    """Only the process runtime can continue with processes that an earlier one started."""
    if runtime == "process":
        return
    from pykueue.apiserver.store import lock
    from pykueue.app import running_jobs

    if lock.holder(directory) is None and (jobs := running_jobs.find(directory)):
        raise click.ClickException(
            f"{running_jobs.count(jobs, ('still runs', 'still run'))} as processes of this machine. "
            f"Start with `--runtime process`, or end them with `pykueue down --data-dir {directory}`."
        )


def _announce(server: "RunningServer", kubeconfig: Path | None, runtime: str) -> None:
    from pykueue.apiserver.security import kubeconfig as files

    paths = server.api.paths
    path = paths.kubeconfig
    if kubeconfig is not None:
        files.write(kubeconfig, server.access)
        path = kubeconfig.resolve()
    click.echo(f"pykueue is ready at {server.access.server} (data in {paths.directory})")
    click.echo(f"  export KUBECONFIG={path}")
    click.echo("  kubectl get clusterqueues")
    if runtime == "none":
        click.echo("No pod is started, because the runtime is `none`. `pykueue up --runtime process` runs pods here.")


def _announce_running_jobs(directory: Path, option: Path | None) -> None:
    """Say what still runs after a stop, and how to end it."""
    from pykueue.app import running_jobs

    if jobs := running_jobs.find(directory):
        words = f" --data-dir {option}" if option else ""
        click.echo(
            f"{running_jobs.count(jobs, ('goes on', 'go on'))}. `pykueue up{words}` adopts them; "
            f"`pykueue down{words}` ends them; with `pykueue up --stop-jobs` they end when pykueue stops."
        )
