"""`pykueue cancel NAME…`: end Jobs, whether they wait or run."""

import sys
from typing import TYPE_CHECKING

import click

from pykueue.cli import job_names
from pykueue.cli import output as outputs
from pykueue.cli.completion import complete_names
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykueue.kube.client import Client


@click.command
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_names("job"))
@outputs.with_report_output
@with_cluster
def cancel(*, names: tuple[str, ...], output: str, cluster: ClusterAccess) -> None:
    """Delete Jobs that wait or run.

    Their pods are stopped as Kubernetes stops pods. A Job that has ended stays, with its output:
    `pykueue delete job` deletes it. The exit code is 1 if a Job does not exist.
    """
    results: list[dict[str, str]] = []

    def report(name: str, result: str, text: str) -> None:
        results.append({"name": name, "result": result})
        if output != "json":
            outputs.echo(text, err=result == "missing")

    async def run(client: "Client", namespace: str) -> None:
        for name in map(job_names.plain, names):
            await _cancel(client, namespace, name, report)

    cluster.run(run)
    if output == "json":
        outputs.show_json({"jobs": results})
    sys.exit(int(any(result["result"] == "missing" for result in results)))


async def _cancel(client: "Client", namespace: str, name: str, report: "Callable[[str, str, str], None]") -> None:
    from pykueue.api import resources
    from pykueue.cluster.job_controller import job_view
    from pykueue.kube.client import DeleteOptions, get_or_none

    job = await get_or_none(client, resources.JOB, name, namespace)
    if job is None:
        report(name, "missing", await job_names.not_found(client, namespace, name))
        return
    condition = job_view.finished_condition(job)
    if condition is not None:
        text = (
            f"job.batch/{name} has already ended ({condition['type'].lower()}); `pykueue delete job {name}` deletes it"
        )
        report(name, "ended", text)
        return
    await client.delete(resources.JOB, name, namespace, DeleteOptions(propagation_policy="Background"))
    report(name, "cancelled", f"job.batch/{name} cancelled")
