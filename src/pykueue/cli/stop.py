"""`pykueue stop` and `pykueue resume`: deactivate a workload or hold a queue, and undo it."""

from typing import TYPE_CHECKING, Any

import click

from pykueue.api import objects
from pykueue.cli import completion, options, workload_names
from pykueue.cli import output as outputs
from pykueue.cli.completion import complete_names
from pykueue.cli.connection import ClusterAccess, with_cluster
from pykueue.cli.kinds import RESOURCES, KindGroup

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client


@click.group(cls=KindGroup)
def stop() -> None:
    """Stop a workload, or put a queue on hold."""


@click.group(cls=KindGroup)
def resume() -> None:
    """Resume a stopped workload or queue."""


def _add_queue(singular: str) -> None:
    @stop.command(name=singular, help=f"Put a {RESOURCES[singular].kind} on hold and evict its workloads.")
    @click.argument("name", shell_complete=complete_names(singular, completion.is_not_stopped))
    @click.option(
        "--keep-already-running", is_flag=True, help="Admit no more workloads, but do not evict the admitted ones."
    )
    @options.with_dry_run
    @outputs.with_object_output
    @with_cluster
    def hold(
        *, name: str, keep_already_running: bool, cluster: ClusterAccess, dry_run: str, output: str | None
    ) -> None:
        policy = "Hold" if keep_already_running else "HoldAndDrain"
        _patch(cluster, singular, name, {"stopPolicy": policy}, dry_run=dry_run, output=output)

    @resume.command(name=singular, help=f"Let a {RESOURCES[singular].kind} admit workloads again.")
    @click.argument("name", shell_complete=complete_names(singular, completion.is_stopped))
    @options.with_dry_run
    @outputs.with_object_output
    @with_cluster
    def release(*, name: str, cluster: ClusterAccess, dry_run: str, output: str | None) -> None:
        _patch(cluster, singular, name, {"stopPolicy": "None"}, dry_run=dry_run, output=output)


for _singular in ("clusterqueue", "localqueue"):
    _add_queue(_singular)


@stop.command(name="workload")
@click.argument("name", shell_complete=complete_names("workload", completion.is_active))
@options.with_dry_run
@outputs.with_object_output
@with_cluster
def stop_workload(*, name: str, cluster: ClusterAccess, dry_run: str, output: str | None) -> None:
    """Deactivate a workload.

    Its job is suspended and releases its quota. A workload has its own name, and that of its job.
    """
    _patch(cluster, "workload", name, {"active": False}, dry_run=dry_run, output=output, done="stopped")


@resume.command(name="workload")
@click.argument("name", shell_complete=complete_names("workload", completion.is_inactive))
@options.with_dry_run
@outputs.with_object_output
@with_cluster
def resume_workload(*, name: str, cluster: ClusterAccess, dry_run: str, output: str | None) -> None:
    """Activate a workload: it is queued again.

    A workload has its own name, and that of its job.
    """
    _patch(cluster, "workload", name, {"active": True}, dry_run=dry_run, output=output, done="resumed")


def _patch(
    cluster: ClusterAccess,
    singular: str,
    name: str,
    spec: dict[str, Any],
    *,
    dry_run: str,
    output: str | None,
    done: str = "",
) -> None:
    """Patch the spec and print what kueuectl prints: a verb for workloads, the name for queues."""
    resource = RESOURCES[singular]

    async def write(client: "Client", namespace: str) -> "Object":
        from pykueue.kube.client import WriteOptions

        scope, target = namespace if resource.namespaced else "", name
        if singular == "workload":
            target = objects.name(await workload_names.find(client, namespace, name))
        if dry_run == "client":
            obj = await client.get(resource, target, scope)
            return {**obj, "spec": {**obj["spec"], **spec}}
        options = WriteOptions(dry_run=dry_run == "server")
        return await client.patch(resource, target, scope, {"spec": spec}, options=options)

    changed = cluster.run(write)
    outputs.show(resource, changed, output, done=f"{done}{outputs.dry_run_suffix(dry_run)}")
