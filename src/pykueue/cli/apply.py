"""`pykueue apply`: write manifests to a cluster, or say first what they would do."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykueue.cli import output as outputs
from pykueue.cli.connection import ClusterAccess, with_cluster
from pykueue.cli.simulate import DURATION, named_faults, read_files

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
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
    from pykueue.app import previews
    from pykueue.simulate.sources import manifests

    with named_faults():
        changes = manifests.load(read_files(names))

        async def look(client: "Client", _namespace: str) -> "Preview":
            return await previews.preview(client, changes, horizon)

        async def write(client: "Client", namespace: str) -> list[str]:
            return await _write(client, namespace, names)

        if is_preview:
            answer = cluster.run(look)
            if output == "json":
                outputs.show_json(answer.as_json())
                return
            lines = list(answer.lines())
        else:
            lines = cluster.run(write)
            if output == "json":
                outputs.show_json({"applied": lines})
                return
    for line in lines:
        outputs.echo(line)


async def _write(client: "Client", namespace: str, names: tuple[str, ...]) -> list[str]:
    """Create each object as it is written, or merge it into the one that exists."""
    from pykueue.api import manifests, objects, registry
    from pykueue.kube.client import get_or_none

    lines = []
    scheme = registry.scheme()
    for name, data in read_files(names):
        for document in manifests.read(data, name)[0]:
            obj: Object = document.object
            kind = scheme.for_kind(obj["apiVersion"], obj["kind"])
            if kind is None:
                raise click.ClickException(f"{Path(name)}:{document.line}: unknown kind {obj['kind']}")
            resource = kind.resource
            target = (objects.namespace(obj) or namespace) if resource.namespaced else ""
            existing = await get_or_none(client, resource, objects.name(obj), target)
            if existing is None:
                written, done = await client.create(resource, obj, target), "created"
            else:
                patch = {part: obj[part] for part in obj if part not in ("apiVersion", "kind", "status")}
                written, done = await client.patch(resource, objects.name(obj), target, patch), "configured"
            lines.append(f"{outputs.qualified(resource, written)} {done}")
    return lines
