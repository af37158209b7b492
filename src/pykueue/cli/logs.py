"""`pykueue logs NAME`: the output of a Job's pods, or of one pod."""

import sys
from typing import TYPE_CHECKING

import click

from pykueue.api import objects
from pykueue.cli.completion import complete_names
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client


@click.command
@click.argument("name", shell_complete=complete_names("job"))
@click.option("--follow", "-f", is_flag=True, help="Wait until the pod starts, and print its output until it ends.")
@click.option("--tail", type=click.IntRange(min=0), help="Print only this many lines of the end. Default: all.")
@click.option("--container", "-c", default="", help="The container of the pod. Default: its only one.")
@with_cluster
def logs(*, name: str, follow: bool, tail: int | None, container: str, cluster: ClusterAccess) -> None:
    """Print the output of a Job or of a pod.

    NAME is a Job (NAME or job/NAME) or a pod (pod/NAME).
    """

    async def run(client: "Client", namespace: str) -> None:
        await show(client, namespace, name, follow=follow, tail=tail, container=container)

    cluster.run(run)


async def show(
    client: "Client",
    namespace: str,
    name: str,
    *,
    follow: bool = False,
    tail: int | None = None,
    container: str = "",
) -> None:
    """Write the logs to standard output, several pods one after the other under their names."""
    from pykueue.api import resources
    from pykueue.kube.http_client import HttpClient

    assert isinstance(client, HttpClient)
    pods = await _pods(client, namespace, name, wait=follow)
    for pod in pods:
        if len(pods) > 1:
            click.echo(f"==> {objects.name(pod)} <==")
        query = {"container": container, "follow": "true" if follow else ""}
        if tail is not None:
            query["tailLines"] = str(tail)
        path = resources.POD.path(namespace, objects.name(pod), "log")
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
    started = sorted(filter(_has_started, listed.items), key=pods.removal_order, reverse=True)
    if started:
        return started
    if not wait:
        raise click.ClickException(f"job {objects.name(job)} has no pod that has started; -f waits for one")
    async for event in client.watch(
        resources.POD, namespace, label_selector=selector, resource_version=listed.resource_version
    ):
        if event.type != "BOOKMARK" and _has_started(event.object):
            return [event.object]
    return []


def _has_started(pod: "Object") -> bool:
    return any(
        not objects.nested(status, "state").keys().isdisjoint(("running", "terminated"))
        for status in objects.nested_list(pod, "status", "containerStatuses")
    )
