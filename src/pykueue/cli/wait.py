"""`pykueue wait NAME…`: until Jobs are over; the exit code says how they ended."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from pykueue.cli.completion import completes
from pykueue.cli.connection import Cluster, connects

if TYPE_CHECKING:
    from pykueue.kube.client import Client

TIMED_OUT = 124
"""As `timeout` of coreutils answers."""


@click.command
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=completes("job"))
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait at most; then the exit code is 124.")
@connects
def wait(*, names: tuple[str, ...], timeout: float | None, cluster: Cluster) -> None:
    """Wait until every Job NAME is finished. The exit code is 1 if one of them failed."""

    async def work(client: "Client", namespace: str) -> int:
        try:
            async with asyncio.timeout(timeout):
                codes = await asyncio.gather(*(until_finished(client, namespace, _plain(name)) for name in names))
        except TimeoutError:
            click.echo(f"not finished after {timeout:g} s", err=True)
            return TIMED_OUT
        return max(codes)

    sys.exit(cluster.run(work))


def _plain(name: str) -> str:
    return name.rpartition("/")[2]


async def until_finished(client: "Client", namespace: str, name: str) -> int:
    """Says how the Job ended; 0 if it completed."""
    from pykueue.api import resources
    from pykueue.cluster.job_controller import job_view

    job = await client.get(resources.JOB, name, namespace)
    while (ended := job_view.finished_condition(job)) is None:
        async for event in client.watch(
            resources.JOB,
            namespace,
            field_selector=f"metadata.name={name}",
            resource_version=job["metadata"]["resourceVersion"],
        ):
            if event.type == "DELETED":
                raise click.ClickException(f"job {name} was deleted")
            if event.type != "BOOKMARK":
                job = event.object
            if job_view.finished_condition(job) is not None:
                break
    if ended["type"] == "Complete":
        click.echo(f"job.batch/{name} complete")
        return 0
    click.echo(f"job.batch/{name} failed: {ended.get('message', '')}", err=True)
    return 1
