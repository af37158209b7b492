"""`pykueue delete workload`: workloads together with the jobs that they belong to."""

import sys
from typing import TYPE_CHECKING

import click

from pykueue.cli import completion
from pykueue.cli.completion import completes
from pykueue.cli.connection import Cluster, connects
from pykueue.cli.kinds import RESOURCES, NounGroup, qualified

if TYPE_CHECKING:
    from pykueue.api.scheme import Object, Resource
    from pykueue.kube.client import Client

    Doomed = tuple[Object, list[tuple[Resource, str]]]


@click.group(cls=NounGroup)
def delete() -> None:
    """Delete workloads and their jobs."""


@delete.command()
@click.argument("names", nargs=-1, shell_complete=completes("workload", completion.is_active))
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--all", "everything", is_flag=True, help="All workloads of the namespace.")
@click.option("--all-namespaces", "-A", is_flag=True, help="With --all: of all namespaces.")
@click.option("--dry-run", type=click.Choice(["none", "client", "server"]), default="none", show_default=True)
@connects
def workload(
    *, names: tuple[str, ...], yes: bool, everything: bool, all_namespaces: bool, dry_run: str, cluster: Cluster
) -> None:
    """Delete workloads by name; the jobs that own them are deleted, and the workloads with them."""
    _check(names, everything=everything, all_namespaces=all_namespaces)

    async def find(client: "Client", namespace: str) -> "list[Doomed]":
        chosen = await _chosen(client, "" if all_namespaces else namespace, names)
        return [(obj, await _jobs(client, obj)) for obj in chosen]

    doomed = cluster.run(find)
    if not yes and dry_run == "none" and any(jobs for _, jobs in doomed):
        click.echo(_warning(doomed, everything=everything), nl=False)
        if not _is_confirmed():
            click.echo("Deletion is canceled")
            return

    async def remove(client: "Client", _namespace: str) -> None:
        for obj, jobs in doomed:
            await _delete(client, obj, jobs, dry_run)

    cluster.run(remove)


def _check(names: tuple[str, ...], *, everything: bool, all_namespaces: bool) -> None:
    if not everything and not names:
        raise click.ClickException("requires at least 1 arg(s), only received 0: give names of workloads, or --all")
    if everything and names:
        raise click.ClickException("name cannot be provided when a selector is specified")
    if all_namespaces and names:
        raise click.ClickException("a resource cannot be retrieved by name across all namespaces")


def _add_kind(noun: str) -> None:
    resource = RESOURCES[noun]

    @delete.command(name=noun, help=f"Delete {resource.kind}s by name.")
    @click.argument("names", nargs=-1, required=True, shell_complete=completes(noun))
    @connects
    def remove(*, names: tuple[str, ...], cluster: Cluster) -> None:
        async def write(client: "Client", namespace: str) -> None:
            for name in names:
                await client.delete(resource, name, namespace if resource.namespaced else "")
                click.echo(f"{qualified(noun, name)} deleted")

        cluster.run(write)


for _noun in ("clusterqueue", "localqueue", "resourceflavor"):
    _add_kind(_noun)


async def _chosen(client: "Client", namespace: str, names: tuple[str, ...]) -> "list[Object]":
    from pykueue.api.errors import ApiError

    if not names:
        return (await client.list(RESOURCES["workload"], namespace)).items
    found = []
    for name in names:
        try:
            found.append(await client.get(RESOURCES["workload"], name, namespace))
        except ApiError as error:
            if error.code != 404:
                raise
            click.echo(error.message, err=True)
    return found


async def _jobs(client: "Client", obj: "Object") -> "list[tuple[Resource, str]]":
    """The owners, with the address that the cluster gives their kind."""
    from pykueue.cli import discovery

    found = []
    for reference in obj["metadata"].get("ownerReferences") or ():
        resource = await discovery.of_kind(client, reference["apiVersion"], reference["kind"])
        if resource is not None:
            found.append((resource, str(reference["name"])))
    return found


def _warning(doomed: "list[Doomed]", *, everything: bool) -> str:
    if everything:
        return "This operation will also delete the jobs associated with these workloads.\n"
    lines = []
    for obj, jobs in doomed:
        if jobs:
            named = ", ".join(_named(resource, name) for resource, name in jobs)
            metadata = obj["metadata"]
            lines.append(f"  - {named} associated with the {metadata['namespace']}/{metadata['name']} workload\n")
    return "This operation will also delete:\n" + "\n".join(lines)


def _is_confirmed() -> bool:
    click.echo("Do you want to proceed (y/n)? ", nl=False)
    answer = sys.stdin.readline().split()
    return bool(answer) and answer[0].lower() == "y"


def _named(resource: "Resource", name: str) -> str:
    return f"{resource.plural}.{resource.group}/{name}" if resource.group else f"{resource.plural}/{name}"


async def _delete(client: "Client", obj: "Object", jobs: "list[tuple[Resource, str]]", dry_run: str) -> None:
    """A workload without a job goes itself; otherwise it goes with its job."""
    from pykueue.api.errors import ApiError
    from pykueue.kube.client import DeleteOptions

    namespace, own = obj["metadata"]["namespace"], RESOURCES["workload"]
    suffix = "" if dry_run == "none" else f" ({dry_run} dry run)"
    for resource, name in jobs or [(own, obj["metadata"]["name"])]:
        if dry_run != "client":
            options = DeleteOptions(propagation_policy="Background", dry_run=dry_run == "server")
            try:
                await client.delete(resource, name, namespace, options)
            except ApiError as error:
                if error.code != 404:
                    raise
        told = _named(resource, name) if jobs else qualified("workload", name)
        click.echo(f"{told} deleted{suffix}")
