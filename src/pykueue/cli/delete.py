"""`pykueue delete`: workloads together with the jobs that own them; queues and flavors."""

import sys
from typing import TYPE_CHECKING

import click

from pykueue.api import objects
from pykueue.cli import completion, job_names, options, workload_names
from pykueue.cli import output as outputs
from pykueue.cli.completion import complete_names
from pykueue.cli.connection import ClusterAccess, with_cluster
from pykueue.cli.kinds import RESOURCES, KindGroup, qualified

if TYPE_CHECKING:
    from pykueue.api.scheme import Object, Resource
    from pykueue.kube.client import Client

    Owners = list[tuple[Resource, str]]
    """The jobs of a workload: resource and name."""


@click.group(cls=KindGroup)
def delete() -> None:
    """Delete jobs, workloads, queues or flavors."""


@delete.command()
@click.argument("names", nargs=-1, shell_complete=complete_names("workload", completion.is_active))
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--all", "everything", is_flag=True, help="Delete all workloads of the namespace.")
@click.option("--all-namespaces", "-A", is_flag=True, help="With --all: in all namespaces.")
@options.with_dry_run
@outputs.with_report_output
@with_cluster
def workload(
    *,
    names: tuple[str, ...],
    yes: bool,
    everything: bool,
    all_namespaces: bool,
    dry_run: str,
    output: str,
    cluster: ClusterAccess,
) -> None:
    """Delete workloads, and the jobs that own them.

    A workload has its own name, and that of its job.
    """
    _check(names, everything=everything, all_namespaces=all_namespaces)

    async def select(client: "Client", namespace: str) -> "list[tuple[Object, Owners]]":
        workloads = await _workloads(client, "" if all_namespaces else namespace, names)
        return [(obj, await _owners(client, obj)) for obj in workloads]

    selected = cluster.run(select)
    is_json = output == "json"
    if not yes and dry_run == "none" and any(jobs for _, jobs in selected):
        outputs.echo(_warning(selected, everything=everything), nl=False, err=is_json)
        if not _is_confirmed(err=is_json):
            outputs.echo("Deletion is canceled", err=is_json)
            return

    async def remove(client: "Client", _namespace: str) -> list[str]:
        return [name for obj, jobs in selected for name in await _delete(client, obj, jobs, dry_run)]

    _report(cluster.run(remove), output, dry_run)
    if len(selected) < len(set(names)):
        sys.exit(1)


def _check(names: tuple[str, ...], *, everything: bool, all_namespaces: bool) -> None:
    if not everything and not names:
        raise click.ClickException("requires at least 1 arg(s), only received 0: give names of workloads, or --all")
    if everything and names:
        raise click.ClickException("name cannot be provided when a selector is specified")
    if all_namespaces and names:
        raise click.ClickException("a resource cannot be retrieved by name across all namespaces")


def _add_kind(singular: str) -> None:
    resource = RESOURCES[singular]

    @delete.command(name=singular, help=f"Delete {resource.kind}s by name.")
    @click.argument("names", nargs=-1, required=True, shell_complete=complete_names(singular))
    @outputs.with_report_output
    @with_cluster
    def remove(*, names: tuple[str, ...], output: str, cluster: ClusterAccess) -> None:
        deleted: list[str] = []

        async def write(client: "Client", namespace: str) -> None:
            for name in names:
                await client.delete(resource, name, namespace if resource.namespaced else "")
                deleted.append(qualified(singular, name))

        try:
            cluster.run(write)
        finally:
            _report(deleted, output)


for _singular in ("clusterqueue", "localqueue", "resourceflavor"):
    _add_kind(_singular)


@delete.command()
@click.argument("names", nargs=-1, required=True, shell_complete=complete_names("job"))
@outputs.with_report_output
@with_cluster
def job(*, names: tuple[str, ...], output: str, cluster: ClusterAccess) -> None:
    """Delete Jobs and their output."""
    deleted: list[str] = []

    async def write(client: "Client", namespace: str) -> None:
        from pykueue.api import resources
        from pykueue.kube.client import DeleteOptions

        for obj in [await job_names.find(client, namespace, name) for name in names]:
            await client.delete(
                resources.JOB, objects.name(obj), namespace, DeleteOptions(propagation_policy="Background")
            )
            deleted.append(f"job.batch/{objects.name(obj)}")

    try:
        cluster.run(write)
    finally:
        _report(deleted, output)


def _report(deleted: list[str], output: str, dry_run: str = "none") -> None:
    if output == "json":
        outputs.show_json({"deleted": deleted, "dryRun": dry_run})
        return
    for name in deleted:
        outputs.echo(f"{name} deleted{outputs.dry_run_suffix(dry_run)}")


async def _workloads(client: "Client", namespace: str, names: tuple[str, ...]) -> "list[Object]":
    if not names:
        return (await client.list(RESOURCES["workload"], namespace)).items
    workloads = []
    for name in names:
        try:
            workloads.append(await workload_names.find(client, namespace, name))
        except click.ClickException as error:
            outputs.echo(error.message, err=True)
    return workloads


async def _owners(client: "Client", obj: "Object") -> "Owners":
    """The owners of a workload, with the resource under which the cluster serves their kind."""
    from pykueue.cli import discovery

    owners = []
    for reference in objects.owner_references(obj):
        resource = await discovery.of_kind(client, reference["apiVersion"], reference["kind"])
        if resource is not None:
            owners.append((resource, str(reference["name"])))
    return owners


def _warning(selected: "list[tuple[Object, Owners]]", *, everything: bool) -> str:
    if everything:
        return "This operation will also delete the jobs associated with these workloads.\n"
    lines = []
    for obj, jobs in selected:
        if jobs:
            names = ", ".join(_plural_name(resource, name) for resource, name in jobs)
            lines.append(f"  - {names} associated with the {objects.namespace(obj)}/{objects.name(obj)} workload\n")
    return "This operation will also delete:\n" + "\n".join(lines)


def _is_confirmed(*, err: bool) -> bool:
    outputs.echo("Do you want to proceed (y/n)? ", nl=False, err=err)
    line = "" if sys.stdin is None else sys.stdin.readline()
    if not line:
        raise click.ClickException("Deletion is canceled: there is no answer. --yes deletes without the question.")
    answer = line.split()
    return bool(answer) and answer[0].lower() == "y"


def _plural_name(resource: "Resource", name: str) -> str:
    return f"{resource.plural}.{resource.group}/{name}" if resource.group else f"{resource.plural}/{name}"


async def _delete(client: "Client", obj: "Object", jobs: "Owners", dry_run: str) -> list[str]:
    """Delete the jobs, and so the workload, or a workload that has no job; return their names."""
    from pykueue.api.errors import ApiError
    from pykueue.kube.client import DeleteOptions

    namespace, deleted = objects.namespace(obj), []
    for resource, name in jobs or [(RESOURCES["workload"], objects.name(obj))]:
        if dry_run != "client":
            options = DeleteOptions(propagation_policy="Background", dry_run=dry_run == "server")
            try:
                await client.delete(resource, name, namespace, options)
            except ApiError as error:
                if error.code != 404:
                    raise
        deleted.append(_plural_name(resource, name) if jobs else qualified("workload", name))
    return deleted
