"""`pykueue wait NAME…`: wait until Jobs are finished."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from pykueue.cli import options
from pykueue.cli import output as outputs
from pykueue.cli.completion import complete_names
from pykueue.cli.connection import ClusterAccess, when_back, with_cluster

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client

TIMED_OUT = 124
"""The exit code of `timeout` in coreutils."""


@click.command
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_names("job"))
@click.option(
    "--timeout",
    type=options.SecondsOption(),
    help="How long to wait at most, in seconds or as 30m; then the exit code is 124. Default: no limit.",
)
@with_cluster
def wait(*, names: tuple[str, ...], timeout: float | None, cluster: ClusterAccess) -> None:
    """Wait until Jobs are finished.

    The exit code is 1 if one of them failed.
    """

    async def run(client: "Client", namespace: str) -> int:
        try:
            async with asyncio.timeout(timeout):
                codes: list[int | None] = [await _if_finished(client, namespace, _without_kind(name)) for name in names]
                codes += await asyncio.gather(
                    *(
                        until_finished(client, namespace, _without_kind(name))
                        for name, code in zip(names, codes, strict=True)
                        if code is None
                    )
                )
        except TimeoutError:
            outputs.echo(f"not finished after {timeout:g} s", err=True)
            return TIMED_OUT
        return max(code for code in codes if code is not None)

    sys.exit(cluster.run(run))


def _without_kind(name: str) -> str:
    return name.rpartition("/")[2]


async def _if_finished(client: "Client", namespace: str, name: str) -> int | None:
    """Print how a Job ended that is finished already; None if it is not."""
    from pykueue.api import resources
    from pykueue.cluster.job_controller import job_view

    condition = job_view.finished_condition(await client.get(resources.JOB, name, namespace))
    return None if condition is None else show_end(name, condition)


async def until_finished(client: "Client", namespace: str, name: str) -> int:
    """Print how the Job ended, and return 0 if it completed, else 1.

    If the Job does not run after two seconds, the reason is printed.
    """
    from pykueue.cli.explain import explain_if_late

    late = asyncio.create_task(explain_if_late(client, namespace, name))
    try:
        condition = await finished_condition(client, namespace, name)
    finally:
        late.cancel()
    return show_end(name, condition)


def show_end(name: str, condition: "Object") -> int:
    if condition["type"] == "Complete":
        outputs.echo(f"job.batch/{name} complete")
        return 0
    outputs.echo(f"job.batch/{name} failed: {condition.get('message', '')}", err=True)
    return 1


async def finished_condition(client: "Client", namespace: str, name: str) -> "Object":
    """Wait until the Job is finished, and return its condition Complete or Failed.

    The API may be restarted meanwhile.
    """
    from pykueue.api import resources
    from pykueue.cluster.job_controller import job_view

    async def read() -> "Object":
        return await client.get(resources.JOB, name, namespace)

    job = await read()
    while (condition := job_view.finished_condition(job)) is None:
        try:
            job = await _next_change(client, job)
        except OSError:
            job = await when_back(read)
    return condition


async def _next_change(client: "Client", job: "Object") -> "Object":
    """The Job after its next change; the same if the watch ends without one."""
    from pykueue.api import objects, resources

    async for event in client.watch(
        resources.JOB,
        objects.namespace(job),
        field_selector=f"metadata.name={objects.name(job)}",
        resource_version=job["metadata"]["resourceVersion"],
    ):
        if event.type == "DELETED":
            raise click.ClickException(f"job {objects.name(job)} was deleted before it finished")
        if event.type != "BOOKMARK":
            return event.object
    return job
