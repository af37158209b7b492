"""`pykueue delete workload`: workloads together with the jobs that they belong to."""

from typing import TYPE_CHECKING

import click

from pykueue.cli.connection import Cluster, connects
from pykueue.cli.nouns import RESOURCES, NounGroup, qualified

if TYPE_CHECKING:
    from pykueue.api.scheme import Object, Resource
    from pykueue.kube.client import Client


@click.group(cls=NounGroup)
def delete() -> None:
    """Delete workloads and their jobs."""


@delete.command()
@click.argument("names", nargs=-1)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--all", "everything", is_flag=True, help="All workloads of the namespace.")
@click.option("--all-namespaces", "-A", is_flag=True, help="With --all: of all namespaces.")
@click.option("--dry-run", type=click.Choice(["none", "client", "server"]), default="none", show_default=True)
@connects
def workload(
    *, names: tuple[str, ...], yes: bool, everything: bool, all_namespaces: bool, dry_run: str, cluster: Cluster
) -> None:
    """Delete workloads by name; the jobs that own them are deleted too."""
    if everything == bool(names):
        raise click.UsageError("give the names of workloads, or --all")
    if all_namespaces and names:
        raise click.UsageError("a resource cannot be retrieved by name across all namespaces")

    async def find(client: "Client", namespace: str) -> "list[tuple[Object, list[tuple[Resource, str]]]]":
        chosen = await _chosen(client, "" if all_namespaces else namespace, names)
        return [(obj, await _jobs(client, obj)) for obj in chosen]

    doomed = cluster.run(find)
    if not yes and dry_run == "none" and any(jobs for _, jobs in doomed):
        _list_jobs(doomed)
        if not click.confirm("Do you want to proceed"):
            click.echo("Deletion is canceled")
            return
    suffix = "" if dry_run == "none" else f" ({dry_run} dry run)"

    async def remove(client: "Client", _namespace: str) -> None:
        for obj, jobs in doomed:
            if dry_run == "none":
                await _delete(client, obj, jobs)
            click.echo(f"{qualified('workload', obj['metadata']['name'])} deleted{suffix}")

    cluster.run(remove)


def _add_kind(noun: str) -> None:
    resource = RESOURCES[noun]

    @delete.command(name=noun, help=f"Delete {resource.kind}s by name.")
    @click.argument("names", nargs=-1, required=True)
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
    from pykueue.api.scheme import Resource

    found = []
    for reference in obj["metadata"].get("ownerReferences") or ():
        group, _, version = reference["apiVersion"].rpartition("/")
        path = f"/apis/{reference['apiVersion']}" if group else f"/api/{version}"
        listed = await client.raw("GET", path)
        for entry in listed.get("resources") or ():
            if entry["kind"] == reference["kind"] and "/" not in entry["name"]:
                resource = Resource(group, version, entry["name"], entry["kind"], bool(entry["namespaced"]))
                found.append((resource, str(reference["name"])))
    return found


def _list_jobs(doomed: "list[tuple[Object, list[tuple[Resource, str]]]]") -> None:
    click.echo("This operation will also delete:")
    for obj, jobs in doomed:
        if jobs:
            named = ", ".join(f"{_qualified_plural(resource)}/{name}" for resource, name in jobs)
            metadata = obj["metadata"]
            click.echo(f"  - {named} associated with the {metadata['namespace']}/{metadata['name']} workload")


def _qualified_plural(resource: "Resource") -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


async def _delete(client: "Client", obj: "Object", jobs: "list[tuple[Resource, str]]") -> None:
    from pykueue.api.errors import ApiError
    from pykueue.kube.client import DeleteOptions

    namespace = obj["metadata"]["namespace"]
    targets = jobs or [(RESOURCES["workload"], obj["metadata"]["name"])]
    for resource, name in targets:
        try:
            await client.delete(resource, name, namespace, DeleteOptions(propagation_policy="Background"))
        except ApiError as error:
            if error.code != 404:
                raise
