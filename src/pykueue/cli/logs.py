"""`pykueue logs NAME`: the output of a Job's pods, or of one pod."""

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING

import click

from pykueue.api import objects, task_indexes
from pykueue.cli import job_names
from pykueue.cli import output as outputs
from pykueue.cli.completion import complete_names
from pykueue.cli.connection import ClusterAccess, when_back, with_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client, ObjectList
    from pykueue.kube.http_client import HttpClient

_PAUSE_SECONDS = 0.1
_NOT_FOUND = 404
_MOST_LISTED = 10


@click.command
@click.argument("name", shell_complete=complete_names("job"))
@click.option(
    "--follow", "-f", is_flag=True, help="Wait until pods start, and print the output of all until the Job ends."
)
@click.option("--tail", type=click.IntRange(min=0), help="Print only this many lines of the end. Default: all.")
@click.option("--index", type=click.IntRange(min=0), help="Print the output of this task of an array. Default: of all.")
@click.option("--container", "-c", default="", help="The container of the pod. Default: its only one.")
@with_cluster
def logs(
    *, name: str, follow: bool, tail: int | None, index: int | None, container: str, cluster: ClusterAccess
) -> None:
    """Print the output of a Job or of a pod.

    NAME is a Job (NAME or job/NAME) or a pod (pod/NAME).
    """

    async def run(client: "Client", namespace: str) -> None:
        await show(client, namespace, name, follow=follow, tail=tail, index=index, container=container)

    cluster.run(run)


async def show(
    client: "Client",
    namespace: str,
    name: str,
    *,
    follow: bool = False,
    tail: int | None = None,
    index: int | None = None,
    container: str = "",
) -> None:
    """Write the logs to standard output, those of several pods under their names or indexes."""
    from pykueue.api import resources
    from pykueue.kube.http_client import HttpClient

    assert isinstance(client, HttpClient)
    output = _PodOutput(client, namespace, _query(follow=follow, tail=tail, container=container))
    kind, slash, plain = name.partition("/")
    if slash and kind in ("pod", "pods", "po"):
        if index is not None:
            raise click.UsageError("a pod runs one task; name the Job, or leave --index out")
        await output.copy(await client.get(resources.POD, plain, namespace))
        return
    job = await job_names.find(client, namespace, name)
    output.indexes = task_indexes.of_job(job)
    _check_index(job, output.indexes, index)
    if follow:
        await _follow(client, output, job, index)
        return
    started = [pod for pod in await _pods(client, job) if _has_started(pod) and output.is_of(pod, index)]
    if not started:
        task = f"job {objects.name(job)}" if index is None else f"index {index} of job {objects.name(job)}"
        raise click.ClickException(f"{task} has no pod that has started; -f waits for one")
    output.has_headers = len(started) > 1
    for pod in started:
        await output.copy(pod)


def _check_index(job: "Object", indexes: "Sequence[int]", index: int | None) -> None:
    """Refuse an index that the Job does not have."""
    if index is None or index in indexes:
        return
    name = objects.name(job)
    if not indexes:
        raise click.ClickException(f"the pods of job {name} have no indexes; `pykueue logs {name}` prints all")
    few = len(indexes) <= _MOST_LISTED or indexes[-1] - indexes[0] >= len(indexes)
    listed = ", ".join(map(str, indexes[:_MOST_LISTED])) if few else f"{indexes[0]} to {indexes[-1]}"
    more = ", …" if few and len(indexes) > _MOST_LISTED else ""
    raise click.ClickException(f"job {name} has no index {index}; it has {listed}{more}")


def _query(*, follow: bool, tail: int | None, container: str) -> dict[str, str]:
    query = {"container": container, "follow": "true" if follow else ""}
    return query if tail is None else query | {"tailLines": str(tail)}


class _PodOutput:
    """Copies the logs of pods to standard output, line by line.

    With headers, a line `==> POD <==` stands where the output of another pod begins. In an array
    it has the index of the task: `==> index 3 (POD) <==`.
    """

    def __init__(self, client: "HttpClient", namespace: str, query: dict[str, str]) -> None:
        self._client = client
        self._namespace = namespace
        self._query = query
        self._last_pod = ""
        self._copied_bytes: dict[str, int] = {}
        """By the name of the pod."""
        self._titles: dict[str, str] = {}
        self.indexes: Sequence[int] = ()
        """Those of the tasks of the Job."""
        self.has_headers = False

    def is_of(self, pod: "Object", index: int | None) -> bool:
        """Whether the pod runs the task with this index; None is all tasks."""
        return index is None or task_indexes.of_pod(self.indexes, pod) == index

    async def copy(self, pod: "Object") -> None:
        from pykueue.api import resources
        from pykueue.api.errors import ApiError

        name = objects.name(pod)
        index = task_indexes.of_pod(self.indexes, pod)
        self._titles[name] = name if index is None else f"index {index} ({name})"
        failure = _start_failure(pod)
        if failure:
            outputs.echo(f"{self._titles[name]}: {failure}", err=True)
            return

        async def read() -> "Object":
            return await self._client.get(resources.POD, name, self._namespace)

        while True:
            try:
                await self._copy_rest(name)
                if not self._can_continue or not _is_running(await read()):
                    return
                await asyncio.sleep(_PAUSE_SECONDS)
            except OSError:
                if not self._can_continue:
                    raise
                await when_back(read)
            except ApiError as error:
                if error.code != _NOT_FOUND or not self._can_continue:
                    raise
                return  # the pod was deleted, as those of a Job whose time is over

    @property
    def _can_continue(self) -> bool:
        """Whether the output is followed from a place that is known after a restart of the API."""
        return bool(self._query["follow"]) and "tailLines" not in self._query

    async def _copy_rest(self, name: str) -> None:
        """Copy what the log has beyond the lines that were copied already."""
        from pykueue.api import resources

        skip, rest = self._copied_bytes.get(name, 0), b""
        async for chunk in self._client.stream(resources.POD.path(self._namespace, name, "log"), self._query):
            skipped = min(skip, len(chunk))
            skip -= skipped
            *lines, rest = (rest + chunk[skipped:]).split(b"\n")
            self._write(name, b"".join(line + b"\n" for line in lines))
        self._write(name, rest)

    def _write(self, pod: str, data: bytes) -> None:
        if not data:
            return
        if self.has_headers and pod != self._last_pod:
            sys.stdout.buffer.write(f"==> {self._titles[pod]} <==\n".encode())
        self._last_pod = pod
        self._copied_bytes[pod] = self._copied_bytes.get(pod, 0) + len(data)
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


async def _follow(client: "Client", output: _PodOutput, job: "Object", index: int | None) -> None:
    """Copy the output of every pod of the Job, or of one task, until it is finished."""
    from pykueue.cli import wait
    from pykueue.cli.explain import explain_if_late

    namespace, name = objects.namespace(job), objects.name(job)
    is_single = objects.spec(job).get("completions") == 1 and objects.spec(job).get("parallelism") == 1
    output.has_headers = index is None and not is_single
    copies: dict[str, asyncio.Task[None]] = {}

    def copy(pod: "Object") -> None:
        if _has_started(pod) and output.is_of(pod, index) and objects.uid(pod) not in copies:
            copies[objects.uid(pod)] = asyncio.create_task(output.copy(pod))

    followers = [
        asyncio.create_task(explain_if_late(client, namespace, name)),
        asyncio.create_task(_watch_pods(client, job, copy)),
    ]
    try:
        await wait.until(client, namespace, name, lambda job: _has_ended(job, output.indexes, index) or None)
        for pod in await _pods(client, job):
            copy(pod)
        await asyncio.gather(*copies.values())
    finally:
        for task in (*followers, *copies.values()):
            task.cancel()


def _has_ended(job: "Object", indexes: "Sequence[int]", index: int | None) -> bool:
    from pykueue.cluster.job_controller import job_view

    if index is not None:
        view = job_view.JobView(job)
        if list(indexes).index(index) in view.completed_indexes() | view.failed_indexes():
            return True
    return job_view.finished_condition(job) is not None


async def _watch_pods(client: "Client", job: "Object", handle: "Callable[[Object], None]") -> None:
    from pykueue.api import resources

    while True:
        with contextlib.suppress(OSError):  # others wait for an API that is restarted
            listed = await _list_pods(client, job)
            for pod in listed.items:
                handle(pod)
            async for event in client.watch(
                resources.POD,
                objects.namespace(job),
                label_selector=_selector(job),
                resource_version=listed.resource_version,
            ):
                if event.type in ("ADDED", "MODIFIED"):
                    handle(event.object)
        await asyncio.sleep(_PAUSE_SECONDS)


def _selector(job: "Object") -> str:
    return f"batch.kubernetes.io/job-name={objects.name(job)}"


async def _list_pods(client: "Client", job: "Object") -> "ObjectList":
    from pykueue.api import resources
    from pykueue.kube.client import ListOptions

    return await client.list(resources.POD, objects.namespace(job), ListOptions(label_selector=_selector(job)))


async def _pods(client: "Client", job: "Object") -> "list[Object]":
    """The pods of the Job, by index and then by age."""

    def order(pod: "Object") -> tuple[int, str, str, str]:
        index = str(objects.annotations(pod).get(task_indexes.COMPLETION_INDEX, ""))
        return len(index), index, str(pod["metadata"].get("creationTimestamp", "")), objects.name(pod)

    return sorted((await _list_pods(client, job)).items, key=order)


def _start_failure(pod: "Object") -> str:
    """Why the only container of a pod could not be started; such a container has no log."""
    for status in objects.nested_list(pod, "status", "containerStatuses"):
        terminated = objects.nested(status, "state", "terminated")
        if terminated.get("reason") == "StartError":
            return f"the command did not start: {terminated.get('message', '')}"
    return ""


def _is_running(pod: "Object") -> bool:
    statuses = objects.nested_list(pod, "status", "containerStatuses")
    return any("running" in objects.nested(status, "state") for status in statuses)


def _has_started(pod: "Object") -> bool:
    return any(
        not objects.nested(status, "state").keys().isdisjoint(("running", "terminated"))
        for status in objects.nested_list(pod, "status", "containerStatuses")
    )
