"""`pykueue apply`: write manifests to a cluster, or say first what they would do."""

from typing import TYPE_CHECKING

import click

from pykueue.cli import output as outputs
from pykueue.cli.connection import ClusterAccess, with_cluster
from pykueue.cli.simulate import DURATION, named_faults, read_files

if TYPE_CHECKING:
    from pykueue.api.manifests import Document
    from pykueue.api.scheme import Object, Resource
    from pykueue.kube.client import Client
    from pykueue.simulate.preview import Preview


@click.command
@click.option("-f", "--filename", "names", multiple=True, required=True, help="A file or folder; may be repeated.")
@click.option(
    "--preview", "is_preview", is_flag=True, help="Write nothing: say what would be admitted, evicted or blocked."
)
@click.option("--horizon", type=DURATION, default="1h", show_default=True, help="How far the preview looks ahead.")
@outputs.with_report_output
@with_cluster
def apply(*, names: tuple[str, ...], is_preview: bool, horizon: int, output: str, cluster: ClusterAccess) -> None:
    """Apply manifests, or preview what they would do.

    The preview forks the cluster's queues and Workloads and runs them in virtual time, with and
    without the change:

        pykueue apply --preview -f queues.yaml
    """
    if is_preview:
        _show_preview(names, horizon, output, cluster)
        return
    lines: list[str] = []

    async def write(client: "Client", namespace: str) -> None:
        resources: dict[tuple[str, str], Resource] = {}
        for document in documents:
            line = await _write(client, namespace, document, resources)
            lines.append(line)
            if output == "text":
                outputs.echo(line)

    documents = _read(names)
    cluster.run(write)
    if output == "json":
        outputs.show_json({"applied": lines})


def _show_preview(names: tuple[str, ...], horizon: int, output: str, cluster: ClusterAccess) -> None:
    from pykueue.app import previews
    from pykueue.simulate.sources import manifests

    with named_faults():
        changes = manifests.load(read_files(names))

        async def look(client: "Client", _namespace: str) -> "Preview":
            return await previews.preview(client, changes, horizon)

        answer = cluster.run(look)
    if output == "json":
        outputs.show_json(answer.as_json())
        return
    for line in answer.lines():
        outputs.echo(line)


def _read(names: tuple[str, ...]) -> "list[Document]":
    """All documents. Nothing is written if one of them cannot be read."""
    from pykueue.cli import manifest_files

    documents, faults = manifest_files.read(names)
    for document in documents:
        obj = document.object
        missing = [field for field in ("apiVersion", "kind") if not isinstance(obj.get(field), str)]
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
            missing.append("metadata.name")
        if missing:
            raise click.ClickException(f"{document.file}:{document.line}: {', '.join(missing)} is missing")
    if faults:
        raise click.ClickException("\n".join(map(str, faults)))
    if not documents:
        raise click.ClickException(f"no object in {', '.join(names)}; files end in .yaml, .yml or .json")
    return documents


async def _write(
    client: "Client", namespace: str, document: "Document", resources: "dict[tuple[str, str], Resource]"
) -> str:
    """Create the object as it is written, or merge it into the one that exists."""
    from pykueue.api import objects
    from pykueue.api.errors import ApiError
    from pykueue.kube.client import STRICT, get_or_none

    obj: Object = document.object
    place = f"{document.file}:{document.line}"
    try:
        resource = await _resource_of(client, obj, resources)
        if resource is None:
            raise click.ClickException(f"{place}: the cluster has no kind {obj['kind']} in {obj['apiVersion']}")
        target = (objects.namespace(obj) or namespace) if resource.namespaced else ""
        name = obj["metadata"].get("name", "")
        if not name or await get_or_none(client, resource, name, target) is None:
            written, done = await client.create(resource, obj, target, STRICT), "created"
        else:
            patch = {part: obj[part] for part in obj if part not in ("apiVersion", "kind", "status")}
            written, done = await client.patch(resource, name, target, patch, options=STRICT), "configured"
    except ApiError as error:
        remedy = ""
        if error.code == 404 and error.message == f'namespaces "{objects.namespace(obj)}" not found':
            remedy = f"; `kubectl create namespace {objects.namespace(obj)}` creates it"
        raise click.ClickException(f"{place}: {error.message}{remedy}") from None
    return f"{outputs.qualified(resource, written)} {done}"


async def _resource_of(
    client: "Client", obj: "Object", resources: "dict[tuple[str, str], Resource]"
) -> "Resource | None":
    """The resource type, as the cluster serves it; `resources` has those that were asked for."""
    from pykueue.api.errors import ApiError
    from pykueue.cli import discovery

    key = (obj["apiVersion"], obj["kind"])
    if key not in resources:
        try:
            resource = await discovery.of_kind(client, *key)
        except ApiError as error:
            if error.code != 404:
                raise
            return None
        if resource is None:
            return None
        resources[key] = resource
    return resources[key]
