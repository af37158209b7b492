"""`pykueue run -- COMMAND`: wait in the queue, then run a command at this terminal."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykueue.api import objects
from pykueue.cli import job_names, job_request, submit, terminal
from pykueue.cli import output as outputs
from pykueue.cli.completion import complete_names
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client


_INTERACTIVE = ("bash", "fish", "ipython", "python", "python3", "sh", "zsh")


@click.command(cls=submit.SubmitCommand)
@submit.with_job_options
@click.option("--pty", is_flag=True, help="Give the command a terminal, for example for a shell.")
@with_cluster
def run(*, cluster: ClusterAccess, pty: bool, **request: Any) -> None:
    r"""Queue a command, then run it at this terminal.

    It gets what is typed here, and its output is printed here. The exit code is that of the command.
    Ctrl-C cancels it while it waits and, without --pty, also while it runs: the Job is deleted.

    \b
    pykueue run --pty -- bash
    """
    submit.check_options(request)
    if request["array"] or request["items"] or request["parallelism"] > 1 or request["completions"]:
        raise click.UsageError("run has one pod, which has the terminal; use submit for several")

    program, *arguments = request["command"]
    if not pty and not arguments and sys.stdin.isatty() and Path(program).name in _INTERACTIVE:
        outputs.echo("Note: without --pty it has no terminal: no prompt, and Ctrl-C cancels it.", err=True)

    async def work(client: "Client", namespace: str) -> int:
        from pykueue.api import resources

        await submit.complete(client, namespace, request)
        job = job_request.job_of(request)
        container = job["spec"]["template"]["spec"]["containers"][0]
        container |= {"stdin": True, "stdinOnce": True} | ({"tty": True} if pty else {})
        job = await client.create(resources.JOB, job, namespace)
        try:
            return await _run_attached(client, job)
        except asyncio.CancelledError:
            await asyncio.shield(_cancel(client, job))
            raise

    sys.exit(cluster.run(work))


@click.command
@click.argument("name", shell_complete=complete_names("job"))
@with_cluster
def attach(*, name: str, cluster: ClusterAccess) -> None:
    """Connect this terminal with a running Job.

    The command gets what is typed here if it was started with a terminal or with input, as by
    `pykueue run`.
    """

    async def work(client: "Client", namespace: str) -> None:
        from pykueue.kube.http_client import HttpClient

        job = await job_names.find(client, namespace, name)
        assert isinstance(client, HttpClient)
        await terminal.attach(client, await _pod_to_attach(client, job))

    cluster.run(work)


async def _pod_to_attach(client: "Client", job: "Object") -> "Object":
    """The running pod of a Job, which may have to wait for it first."""
    from pykueue.cli import wait
    from pykueue.cli.explain import explain_if_late

    namespace, name = objects.namespace(job), objects.name(job)
    late = asyncio.create_task(explain_if_late(client, namespace, name))
    finished = asyncio.create_task(wait.finished_condition(client, namespace, name))
    starting = asyncio.create_task(_running_pod(client, job))
    try:
        await asyncio.wait([starting, finished], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            raise click.ClickException(f"job {name} has ended; `pykueue logs {name}` prints its output")
        return starting.result()
    finally:
        for task in (late, finished, starting):
            task.cancel()


async def _run_attached(client: "Client", job: "Object") -> int:
    """Wait for the pod, connect the terminal, and return the exit code of the command."""
    from pykueue.cli import logs, wait
    from pykueue.cli.explain import explain_if_late
    from pykueue.kube.http_client import HttpClient

    namespace, name = objects.namespace(job), objects.name(job)
    assert isinstance(client, HttpClient)
    late = asyncio.create_task(explain_if_late(client, namespace, name))
    finished = asyncio.create_task(wait.finished_condition(client, namespace, name))
    starting = asyncio.create_task(_running_pod(client, job))
    try:
        await asyncio.wait([starting, finished], return_when=asyncio.FIRST_COMPLETED)
        late.cancel()
        if starting.done():
            await terminal.attach(client, starting.result())
            condition = await finished
        else:  # it ended before it was seen running
            condition = await finished
            await logs.show(client, namespace, name)
    finally:
        for task in (late, finished, starting):
            task.cancel()
    await wait.quota_released(client, job)
    if condition["type"] == "Complete":
        return 0
    wait.show_end(await wait.end_of(client, job, condition))
    return await submit.exit_code(client, namespace, name)


async def _running_pod(client: "Client", job: "Object") -> "Object":
    """Wait until a pod of the Job runs."""
    from pykueue.api import resources
    from pykueue.kube.client import ListOptions

    selector = f"batch.kubernetes.io/job-name={objects.name(job)}"
    while True:
        listed = await client.list(resources.POD, objects.namespace(job), ListOptions(label_selector=selector))
        for pod in listed.items:
            if objects.status(pod).get("phase") == "Running":
                return pod
        async for event in client.watch(
            resources.POD,
            objects.namespace(job),
            label_selector=selector,
            resource_version=listed.resource_version,
        ):
            if event.type != "BOOKMARK" and objects.status(event.object).get("phase") == "Running":
                return event.object


async def _cancel(client: "Client", job: "Object") -> None:
    from pykueue.api import resources
    from pykueue.kube.client import DeleteOptions

    options = DeleteOptions(propagation_policy="Background")
    await client.delete(resources.JOB, objects.name(job), objects.namespace(job), options)
    outputs.echo(f"job.batch/{objects.name(job)} cancelled", err=True)
