"""`pykueue stop` and `pykueue resume`: hold back a workload or a whole queue, and let it go on."""

from typing import TYPE_CHECKING, Any

import click

from pykueue.cli import completion
from pykueue.cli import output as outputs
from pykueue.cli.completion import completes
from pykueue.cli.connection import Cluster, connects
from pykueue.cli.kinds import RESOURCES, NounGroup

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client


@click.group(cls=NounGroup)
def stop() -> None:
    """Stop a workload, or hold a queue."""


@click.group(cls=NounGroup)
def resume() -> None:
    """Let a stopped workload or queue go on."""


_DRY_RUN = click.option("--dry-run", type=click.Choice(["none", "client", "server"]), default="none", show_default=True)


def _add_queue(noun: str) -> None:
    @stop.command(name=noun, help=f"Put a {RESOURCES[noun].kind} on hold; what runs in it is stopped too.")
    @click.argument("name", shell_complete=completes(noun, completion.is_going))
    @click.option("--keep-already-running", is_flag=True, help="Admit nothing more, but let run what runs.")
    @_DRY_RUN
    @outputs.shows
    @connects
    def hold(*, name: str, keep_already_running: bool, cluster: Cluster, dry_run: str, output: str | None) -> None:
        policy = "Hold" if keep_already_running else "HoldAndDrain"
        _patch(cluster, noun, name, {"stopPolicy": policy}, dry_run=dry_run, output=output)

    @resume.command(name=noun, help=f"Let a {RESOURCES[noun].kind} admit again.")
    @click.argument("name", shell_complete=completes(noun, completion.is_stopped))
    @_DRY_RUN
    @outputs.shows
    @connects
    def release(*, name: str, cluster: Cluster, dry_run: str, output: str | None) -> None:
        _patch(cluster, noun, name, {"stopPolicy": "None"}, dry_run=dry_run, output=output)


for _noun in ("clusterqueue", "localqueue"):
    _add_queue(_noun)


@stop.command(name="workload")
@click.argument("name", shell_complete=completes("workload", completion.is_active))
@_DRY_RUN
@outputs.shows
@connects
def stop_workload(*, name: str, cluster: Cluster, dry_run: str, output: str | None) -> None:
    """Deactivate a workload: its job is suspended and gives its quota back."""
    _patch(cluster, "workload", name, {"active": False}, dry_run=dry_run, output=output, done="stopped")


@resume.command(name="workload")
@click.argument("name", shell_complete=completes("workload", completion.is_inactive))
@_DRY_RUN
@outputs.shows
@connects
def resume_workload(*, name: str, cluster: Cluster, dry_run: str, output: str | None) -> None:
    """Let a workload queue again."""
    _patch(cluster, "workload", name, {"active": True}, dry_run=dry_run, output=output, done="resumed")


def _patch(
    cluster: Cluster,
    noun: str,
    name: str,
    spec: dict[str, Any],
    *,
    dry_run: str,
    output: str | None,
    done: str = "",
) -> None:
    """Told as kueuectl tells it: a word for workloads, the bare name for queues."""
    resource = RESOURCES[noun]

    async def write(client: "Client", namespace: str) -> "Object":
        from pykueue.kube.client import WriteOptions

        place = namespace if resource.namespaced else ""
        if dry_run == "client":
            found = await client.get(resource, name, place)
            return {**found, "spec": {**found["spec"], **spec}}
        options = WriteOptions(dry_run=dry_run == "server")
        return await client.patch(resource, name, place, {"spec": spec}, options=options)

    changed = cluster.run(write)
    suffix = "" if dry_run == "none" else f" ({dry_run} dry run)"
    outputs.show(resource, changed, output, done=f"{done}{suffix}")
