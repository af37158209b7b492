"""Finds a Workload by its own name or by the name of its job, for every command that names one."""

from typing import TYPE_CHECKING

import click

from pykueue.api import objects
from pykueue.cli import job_names
from pykueue.cli.kinds import RESOURCES

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client


async def find(client: "Client", namespace: str, name: str) -> "Object":
    """The Workload of this name, else that of the job of this name.

    ClickException if there is neither, or if jobs of several kinds have the name.
    """
    from pykueue.api.errors import ApiError

    resource = RESOURCES["workload"]
    try:
        return await client.get(resource, name, namespace)
    except ApiError as error:
        if error.code != 404:
            raise
        message = error.message
    all_workloads = (await client.list(resource, namespace)).items
    workloads = [obj for obj in all_workloads if _is_of_job(obj, name)]
    if not workloads:
        jobs = [str(owner["name"]) for obj in all_workloads for owner in objects.owner_references(obj)]
        hint = job_names.hint(name, [*jobs, *map(objects.name, all_workloads)])
        raise click.ClickException(f"{message}{hint}")
    if len(workloads) > 1:
        names = ", ".join(sorted(map(objects.name, workloads)))
        raise click.ClickException(f"{message}\njob {name} has several workloads; name one of them: {names}")
    return workloads[0]


def _is_of_job(workload: "Object", job: str) -> bool:
    return any(reference["name"] == job for reference in objects.owner_references(workload))
