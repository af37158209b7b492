"""`pykueue cancel NAME…`: end Jobs, whether they wait or run."""

import sys
from typing import TYPE_CHECKING

import click

from pykueue.cli import output as outputs
from pykueue.cli.completion import complete_names
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from pykueue.kube.client import Client


@click.command
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_names("job"))
@with_cluster
def cancel(*, names: tuple[str, ...], cluster: ClusterAccess) -> None:
    """Delete Jobs that wait or run.

    Their pods are stopped as Kubernetes stops pods. The exit code is 1 if a Job does not exist.
    """

    async def run(client: "Client", namespace: str) -> int:
        from pykueue.api import resources
        from pykueue.api.errors import ApiError
        from pykueue.kube.client import DeleteOptions

        code = 0
        for name in (name.rpartition("/")[2] for name in names):
            try:
                await client.delete(resources.JOB, name, namespace, DeleteOptions(propagation_policy="Background"))
                outputs.echo(f"job.batch/{name} cancelled")
            except ApiError as error:
                if error.code != 404:
                    raise
                outputs.echo(f"job.batch/{name} does not exist", err=True)
                code = 1
        return code

    sys.exit(cluster.run(run))
