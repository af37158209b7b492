"""`pykueue wait NAME…`: wait until Jobs are finished."""

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pykueue.cli import job_names, options
from pykueue.cli import output as outputs
from pykueue.cli.completion import complete_names
from pykueue.cli.connection import ClusterAccess, when_back, with_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykueue.api.scheme import Object, Resource
    from pykueue.kube.client import Client

Answer = TypeVar("Answer")

TIMED_OUT = 124
"""The exit code of `timeout` in coreutils."""
_RELEASE_SECONDS = 5.0
"""How long a finished Job may hold its quota: its controllers may not run."""


@click.command
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_names("job"))
@click.option(
    "--timeout",
    type=options.SecondsOption(),
    help="How long to wait at most, in seconds or as 30m; then the exit code is 124. Default: no limit.",
)
@outputs.with_report_output
@with_cluster
def wait(*, names: tuple[str, ...], timeout: float | None, output: str, cluster: ClusterAccess) -> None:
    """Wait until Jobs are finished.

    The exit code is 1 if one of them failed.
    """
    ends: dict[str, dict[str, Any]] = {}

    async def end(client: "Client", job: "Object") -> None:
        from pykueue.api import objects

        condition = await until_finished(client, job)
        ends[objects.name(job)] = await end_of(client, job, condition)
        if output != "json":
            show_end(ends[objects.name(job)])

    async def run(client: "Client", namespace: str) -> int:
        from pykueue.cluster.job_controller import job_view

        try:
            async with asyncio.timeout(timeout):
                jobs = [await job_names.find(client, namespace, name) for name in names]
                is_finished = [job_view.finished_condition(job) is not None for job in jobs]
                for job in (job for job, finished in zip(jobs, is_finished, strict=True) if finished):
                    await end(client, job)
                await asyncio.gather(
                    *(end(client, job) for job, finished in zip(jobs, is_finished, strict=True) if not finished)
                )
        except TimeoutError:
            outputs.echo(f"not finished after {timeout:g} s", err=True)
            return TIMED_OUT
        return max(0 if report["outcome"] == "complete" else 1 for report in ends.values())

    code = cluster.run(run)
    if output == "json":
        ordered = [ends.get(name, {"name": name, "outcome": "unfinished"}) for name in map(job_names.plain, names)]
        outputs.show_json({"jobs": ordered})
    sys.exit(code)


async def until_finished(client: "Client", job: "Object") -> "Object":
    """Wait until the Job is finished and its quota is free; return its condition.

    If the Job does not run after two seconds, the reason is printed.
    """
    from pykueue.api import objects
    from pykueue.cli.explain import explain_if_late

    namespace, name = objects.namespace(job), objects.name(job)
    late = asyncio.create_task(explain_if_late(client, namespace, name))
    try:
        condition = await finished_condition(client, namespace, name)
    finally:
        late.cancel()
    await quota_released(client, job)
    return condition


async def end_of(client: "Client", job: "Object", condition: "Object") -> dict[str, Any]:
    """How a Job ended: complete, or failed and why."""
    from pykueue.api import objects

    report: dict[str, Any] = {"name": objects.name(job), "namespace": objects.namespace(job)}
    if condition["type"] == "Complete":
        return report | {"outcome": "complete"}
    return report | {"outcome": "failed", "cause": await _cause(client, job, condition)}


def show_end(report: dict[str, Any]) -> int:
    """Print how a Job ended, and return 0 if it completed, else 1."""
    if report["outcome"] == "complete":
        outputs.echo(f"job.batch/{report['name']} complete")
        return 0
    outputs.echo(f"job.batch/{report['name']} failed: {report['cause']}", err=True)
    return 1


async def _cause(client: "Client", job: "Object", condition: "Object") -> str:
    """Why a Job failed; the message of its condition if its pods cannot be read."""
    from pykueue.api import objects
    from pykueue.api.errors import ApiError
    from pykueue.api.resources import POD
    from pykueue.kube.client import ListOptions
    from pykueue.translate import failure_causes

    selector = ListOptions(label_selector=f"batch.kubernetes.io/job-name={objects.name(job)}")
    try:
        pods = (await client.list(POD, objects.namespace(job), selector)).items
    except ApiError:
        pods = []
    return failure_causes.of_job(condition, job, pods)


async def quota_released(client: "Client", job: "Object") -> None:
    """Wait until the Workload of a finished Job is finished, which frees its quota.

    That takes milliseconds. A user who may not read Workloads does not wait for it.
    """
    from pykueue.api import conditions, labels, objects, resources
    from pykueue.api.errors import ApiError
    from pykueue.kube.client import ListOptions

    namespace, selector = objects.namespace(job), f"{labels.JOB_UID}={objects.uid(job)}"
    with contextlib.suppress(ApiError, OSError, TimeoutError, click.ClickException):
        async with asyncio.timeout(_RELEASE_SECONDS):
            listed = await client.list(resources.WORKLOAD, namespace, ListOptions(label_selector=selector))
            for workload in listed.items:
                await _until(
                    client, resources.WORKLOAD, workload, lambda obj: conditions.is_true(obj, "Finished") or None
                )


async def finished_condition(client: "Client", namespace: str, name: str) -> "Object":
    """Wait until the Job is finished, and return its condition Complete or Failed.

    The API may be restarted meanwhile.
    """
    from pykueue.cluster.job_controller import job_view

    return await until(client, namespace, name, job_view.finished_condition)


async def until(client: "Client", namespace: str, name: str, answer: "Callable[[Object], Answer | None]") -> Answer:
    """Wait until the Job has an answer, and return it. The API may be restarted meanwhile."""
    from pykueue.api import resources

    job = await client.get(resources.JOB, name, namespace)
    return await _until(client, resources.JOB, job, answer)


async def _until(
    client: "Client", resource: "Resource", obj: "Object", answer: "Callable[[Object], Answer | None]"
) -> Answer:
    from pykueue.api import objects

    async def read() -> "Object":
        return await client.get(resource, objects.name(obj), objects.namespace(obj))

    current = obj
    while (result := answer(current)) is None:
        try:
            current = await _next_change(client, resource, current)
        except OSError:
            current = await when_back(read)
    return result


async def _next_change(client: "Client", resource: "Resource", obj: "Object") -> "Object":
    """The object after its next change; the same if the watch ends without one."""
    from pykueue.api import objects

    async for event in client.watch(
        resource,
        objects.namespace(obj),
        field_selector=f"metadata.name={objects.name(obj)}",
        resource_version=obj["metadata"]["resourceVersion"],
    ):
        if event.type == "DELETED":
            kind = resource.kind.lower()
            raise click.ClickException(f"{kind} {objects.name(obj)} was deleted before it finished")
        if event.type != "BOOKMARK":
            return event.object
    return obj
