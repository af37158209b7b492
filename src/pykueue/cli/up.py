"""`pykueue up`: a Kubernetes API on this machine, with queues, until Ctrl-C.

Starts the embedded API and then the parts, in order; stops them in reverse order. What goes wrong in an expected way
(data in use, port taken, damaged file) is one line with a hint.
"""

import asyncio
import gc
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykueue.app import serving

if TYPE_CHECKING:
    from pykueue.apiserver.embedded import EmbeddedApi
    from pykueue.apiserver.security.kubeconfig import ClusterCredentials
    from pykueue.app.components import Component

RUNTIMES = ("process", "simulated", "none")
DEFAULT_PORT = 6443


def default_data_dir() -> Path:
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(os.environ.get("PYKUEUE_DATA_DIR") or Path(home) / "pykueue")


class Address(click.ParamType[tuple[str, int]]):
    name = "HOST:PORT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        if not port.isdecimal() or int(port) > 65535:
            self.fail(f"{value!r} is not HOST:PORT, for example 127.0.0.1:6443 (port 0 takes any free one)", param, ctx)
        return host.strip("[]") or "127.0.0.1", int(port)


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="Where everything is kept.")
@click.option(
    "--listen", type=Address(), default=("127.0.0.1", DEFAULT_PORT), help="Address; port 0 takes any free one."
)
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Also write the kubeconfig here, when ready.")
@click.option("--config", type=click.Path(path_type=Path, exists=True), help="Kueue Configuration or Helm values.")
@click.option("--nodes", type=click.Path(path_type=Path, exists=True), help="A fleet of nodes, from a file.")
@click.option("--runtime", type=click.Choice(RUNTIMES), default="none", show_default=True, help="How pods run.")
@click.option(
    "--controllers/--no-controllers", default=True, help="Without: another process runs `pykueue controller`."
)
@click.option("--log-level", type=click.Choice(serving.LOG_LEVELS), default="warning", show_default=True)
def up(
    *,
    data_dir: Path | None,
    listen: tuple[str, int],
    kubeconfig: Path | None,
    config: Path | None,
    nodes: Path | None,
    runtime: str,
    controllers: bool,
    log_level: str,
) -> None:
    """Start a Kubernetes-compatible API with queues on this machine."""
    gc.disable()  # what a start makes is no garbage; `serving.tune_collector` turns the collector on again
    from pykueue.api import registry
    from pykueue.apiserver.embedded import EmbeddedApi, ServerPaths
    from pykueue.apiserver.http.listener import ListenError
    from pykueue.apiserver.security.tokens import TokenFileError
    from pykueue.apiserver.store.log import StoreError
    from pykueue.app.components import PARTS, UpContext
    from pykueue.controllers.settings import admission_settings

    logging.basicConfig(level=log_level.upper(), format=serving.LOG_FORMAT)
    configuration = serving.load_configuration(config).document
    directory = (data_dir or default_data_dir()).expanduser().resolve()

    async def run() -> None:
        place = ServerPaths(directory=directory, host=listen[0], port=listen[1])
        api = EmbeddedApi(place, registry.scheme(), admission_settings(configuration))
        surroundings = UpContext(
            api=api,
            data_dir=directory,
            runtime=runtime,
            configuration=configuration,
            nodes=nodes,
            has_controllers=controllers,
        )
        parts = [part for build in PARTS if (part := build(surroundings)) is not None]
        await _serve(api, parts, kubeconfig)

    try:
        with asyncio.Runner(loop_factory=serving.loop_factory()) as runner:
            runner.run(run())
    except (StoreError, TokenFileError, ListenError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or directory}: {error.strerror or error}") from None


async def _serve(api: "EmbeddedApi", parts: "list[Component]", kubeconfig: Path | None) -> None:
    """Run until a signal asks to stop; whatever was started is stopped, the last first."""
    stopping = serving.stop_signal()
    started: list[Component | EmbeddedApi] = []
    try:
        started.append(api)
        access = await api.start()
        for part in parts:
            started.append(part)
            await part.start()
        _announce(api, access, kubeconfig)
        serving.tune_collector()
        await stopping.wait()
    finally:
        for each in reversed(started):
            await each.stop()


def _announce(api: "EmbeddedApi", access: "ClusterCredentials", kubeconfig: Path | None) -> None:
    from pykueue.apiserver.security import kubeconfig as files

    where = api.paths.kubeconfig
    if kubeconfig is not None:
        files.write(kubeconfig, access)
        where = kubeconfig.resolve()
    click.echo(f"pykueue is ready at {access.server} (data in {api.paths.directory})")
    click.echo(f"  export KUBECONFIG={where}")
    click.echo("  kubectl get clusterqueues")
