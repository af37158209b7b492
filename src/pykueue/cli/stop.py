"""`pykueue stop` and `pykueue resume`: hold back a workload or a whole queue, and let it go on."""

from typing import TYPE_CHECKING, Any

import click

from pykueue.cli.connection import Cluster, connects
from pykueue.cli.nouns import RESOURCES, NounGroup, qualified

if TYPE_CHECKING:
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
    @click.argument("name")
    @click.option("--keep-already-running", is_flag=True, help="Admit nothing more, but let run what runs.")
    @_DRY_RUN
    @connects
    def hold(*, name: str, keep_already_running: bool, cluster: Cluster, dry_run: str) -> None:
        policy = "Hold" if keep_already_running else "HoldAndDrain"
        _patch(cluster, noun, name, {"stopPolicy": policy}, dry_run=dry_run)
        _say(noun, name, "", dry_run)

    @resume.command(name=noun, help=f"Let a {RESOURCES[noun].kind} admit again.")
    @click.argument("name")
    @_DRY_RUN
    @connects
    def release(*, name: str, cluster: Cluster, dry_run: str) -> None:
        _patch(cluster, noun, name, {"stopPolicy": "None"}, dry_run=dry_run)
        _say(noun, name, "", dry_run)


for _noun in ("clusterqueue", "localqueue"):
    _add_queue(_noun)


@stop.command(name="workload")
@click.argument("name")
@_DRY_RUN
@connects
def stop_workload(*, name: str, cluster: Cluster, dry_run: str) -> None:
    """Deactivate a workload: its job is suspended and gives its quota back."""
    _patch(cluster, "workload", name, {"active": False}, dry_run=dry_run)
    _say("workload", name, "stopped", dry_run)


@resume.command(name="workload")
@click.argument("name")
@_DRY_RUN
@connects
def resume_workload(*, name: str, cluster: Cluster, dry_run: str) -> None:
    """Let a workload queue again."""
    _patch(cluster, "workload", name, {"active": True}, dry_run=dry_run)
    _say("workload", name, "resumed", dry_run)


def _patch(cluster: Cluster, noun: str, name: str, spec: dict[str, Any], *, dry_run: str) -> None:
    resource = RESOURCES[noun]

    async def write(client: "Client", namespace: str) -> None:
        from pykueue.kube.client import WriteOptions

        place = namespace if resource.namespaced else ""
        if dry_run == "client":
            await client.get(resource, name, place)
        else:
            await client.patch(resource, name, place, {"spec": spec}, options=WriteOptions(dry_run=dry_run == "server"))

    cluster.run(write)


def _say(noun: str, name: str, done: str, dry_run: str) -> None:
    """As kueuectl: a word for workloads, the bare name for queues."""
    suffix = "" if dry_run == "none" else f"({dry_run} dry run)"
    click.echo(" ".join(filter(None, (qualified(noun, name), done, suffix))))
