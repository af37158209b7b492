"""`pykueue wait NAME…`: wait until Jobs are finished."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from pykueue.cli.completion import complete_names
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from pykueue.kube.client import Client

TIMED_OUT = 124
"""The exit code of `timeout` in coreutils."""


@click.command
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_names("job"))
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    help="How many seconds to wait at most; then the exit code is 124. Default: no limit.",
)
@with_cluster
def wait(*, names: tuple[str, ...], timeout: float | None, cluster: ClusterAccess) -> None:
    """Wait until Jobs are finished.

    The exit code is 1 if one of them failed.
    """

    async def run(client: "Client", namespace: str) -> int:
        try:
            async with asyncio.timeout(timeout):
                codes = await asyncio.gather(
                    *(until_finished(client, namespace, _without_kind(name)) for name in names)
                )
        except TimeoutError:
            click.echo(f"not finished after {timeout:g} s", err=True)
            return TIMED_OUT
        return max(codes)

    sys.exit(cluster.run(run))


def _without_kind(name: str) -> str:
    return name.rpartition("/")[2]


async def until_finished(client: "Client", namespace: str, name: str) -> int:
    """Print how the Job ended, and return 0 if it completed, else 1."""
    from pykueue.api import resources
    from pykueue.cluster.job_controller import job_view

    job = await client.get(resources.JOB, name, namespace)
    while (condition := job_view.finished_condition(job)) is None:
        async for event in client.watch(
            resources.JOB,
            namespace,
            field_selector=f"metadata.name={name}",
            resource_version=job["metadata"]["resourceVersion"],
        ):
            if event.type == "DELETED":
                raise click.ClickException(f"job {name} was deleted before it finished")
            if event.type != "BOOKMARK":
                job = event.object
            if job_view.finished_condition(job) is not None:
                break
    if condition["type"] == "Complete":
        click.echo(f"job.batch/{name} complete")
        return 0
    click.echo(f"job.batch/{name} failed: {condition.get('message', '')}", err=True)
    return 1
