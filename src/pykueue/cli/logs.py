"""`pykueue logs NAME`: what the pods of a Job (or one pod) wrote."""

import sys
from typing import TYPE_CHECKING

import click

from pykueue.api import objects
from pykueue.cli.completion import completes
from pykueue.cli.connection import Cluster, connects

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client


@click.command
@click.argument("name", shell_complete=completes("job"))
@click.option("--follow", "-f", is_flag=True, help="Wait for the pod to start, and for more output until it ends.")
@click.option("--tail", type=click.IntRange(min=0), help="Only so many lines of the end.")
@click.option("--container", "-c", default="", help="Which container of the pod.")
@connects
def logs(*, name: str, follow: bool, tail: int | None, container: str, cluster: Cluster) -> None:
    """Show the output of NAME: a Job (or job/NAME), or a pod (pod/NAME)."""

    async def work(client: "Client", namespace: str) -> None:
        await show(client, namespace, name, follow=follow, tail=tail, container=container)

    cluster.run(work)


async def show(
    client: "Client",
    namespace: str,
    name: str,
    *,
    follow: bool = False,
    tail: int | None = None,
    container: str = "",
) -> None:
    """Writes the log to standard output; several pods one after the other, each under its name."""
    from pykueue.api import resources
    from pykueue.kube.http_client import HttpClient

    assert isinstance(client, HttpClient)
    found = await _pods(client, namespace, name, wait=follow)
    for pod in found:
        if len(found) > 1:
            click.echo(f"==> {pod['metadata']['name']} <==")
        query = {"container": container, "follow": "true" if follow else ""}
        if tail is not None:
            query["tailLines"] = str(tail)
        path = resources.POD.path(namespace, pod["metadata"]["name"], "log")
        async for chunk in client.stream(path, query):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()


async def _pods(client: "Client", namespace: str, name: str, *, wait: bool) -> "list[Object]":
    from pykueue.api import resources
    from pykueue.cluster import pods
    from pykueue.kube.client import ListOptions

    kind, slash, plain = name.partition("/")
    if slash and kind in ("pod", "pods", "po"):
        return [await client.get(resources.POD, plain, namespace)]
    job = await client.get(resources.JOB, plain or kind, namespace)
    selector = f"batch.kubernetes.io/job-name={objects.name(job)}"
    listed = await client.list(resources.POD, namespace, ListOptions(label_selector=selector))
    found = sorted(filter(_has_begun, listed.items), key=pods.removal_order, reverse=True)
    if found or not wait:
        if not found:
            raise click.ClickException(f"job {objects.name(job)} has no pod that has started; -f waits for one")
        return found
    async for event in client.watch(
        resources.POD, namespace, label_selector=selector, resource_version=listed.resource_version
    ):
        if event.type != "BOOKMARK" and _has_begun(event.object):
            return [event.object]
    return []


def _has_begun(pod: "Object") -> bool:
    return any(
        "running" in (status.get("state") or {}) or "terminated" in (status.get("state") or {})
        for status in pod.get("status", {}).get("containerStatuses") or ()
    )
