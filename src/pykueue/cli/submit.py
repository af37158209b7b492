"""`pykueue submit --queue Q --cpu 2 -- python train.py`: create a queued Job for a command."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykueue.cli import explain, options
from pykueue.cli import output as outputs
from pykueue.cli.completion import complete_names
from pykueue.cli.connection import ClusterAccess, existing_names, with_cluster

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
_LOCAL = "local"
"""The image of a command that runs on the machine of `pykueue up`."""


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--queue",
    "-q",
    default="",
    help="The LocalQueue. Default: the only one of the namespace.",
    shell_complete=complete_names("localqueue"),
)
@click.option("--name", default="", help="The name of the Job. Default: generated from the command.")
@click.option(
    "--cpu",
    type=options.QuantityOption("2 or 500m"),
    default="1",
    show_default=True,
    help="CPUs of each pod, for example 2 or 500m.",
)
@click.option(
    "--memory",
    type=options.QuantityOption("4Gi or 500Mi"),
    default="",
    help="Memory of each pod, requested and its limit, for example 4Gi. Default: neither.",
)
@click.option("--gpu", type=click.IntRange(min=0), default=0, show_default=True, help="GPUs of each pod.")
@click.option(
    "--priority",
    default="",
    shell_complete=complete_names("priorityclass"),
    help="The WorkloadPriorityClass. Default: none.",
)
@click.option(
    "--parallelism",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many pods run at the same time.",
)
@click.option(
    "--completions",
    type=click.IntRange(min=1),
    help="How many pods must succeed; each finds its number in JOB_COMPLETION_INDEX. Default: as --parallelism.",
)
@click.option(
    "--retries", type=click.IntRange(min=0), default=0, show_default=True, help="How many failed pods are replaced."
)
@click.option("--env", "-e", multiple=True, metavar="NAME=VALUE", help="An environment variable; may be repeated.")
@click.option("--image", default=_LOCAL, show_default=True, help="The container image; used on a real cluster only.")
@click.option("--directory", type=click.Path(path_type=Path), help="The working directory. Default: the current one.")
@click.option(
    "--follow", "-f", is_flag=True, help="Print the output, wait, and exit with the exit code of the command."
)
@outputs.with_object_output
@with_cluster
def submit(*, cluster: ClusterAccess, follow: bool, output: str | None, **request: Any) -> None:
    """Create a Job that runs a command.

    Everything after -- is the command: pykueue submit --queue q --cpu 2 -- python train.py
    """
    _check_directory(request["directory"], request["image"])

    async def run(client: "Client", namespace: str) -> int:
        from pykueue.api import resources as kinds

        request["queue"] = await _queue(client, namespace, request["queue"])
        await _check_priority(client, request["priority"])
        job = await client.create(kinds.JOB, job_of(request), namespace)
        name = job["metadata"]["name"]
        outputs.show(kinds.JOB, job, output, done="created")
        if not follow:
            await explain.warn_if_stuck(client, namespace, job)
            return 0
        from pykueue.cli import logs, wait

        await logs.show(client, namespace, name, follow=True)
        code = await wait.until_finished(client, namespace, name)
        return await _exit_code(client, namespace, name) if code else 0

    sys.exit(cluster.run(run))


def _check_directory(directory: Path | None, image: str) -> None:
    """Refuse a directory that does not exist, unless it may be one of an image."""
    if directory is not None and image == _LOCAL and not directory.is_dir():
        raise click.BadParameter(f"{directory} is not a directory of this machine", param_hint="--directory")


async def _queue(client: "Client", namespace: str, name: str) -> str:
    """The named LocalQueue, or the only one of the namespace."""
    from pykueue.api import objects
    from pykueue.api.errors import ApiError
    from pykueue.api.resources import LOCAL_QUEUE

    try:
        names = sorted(map(objects.name, (await client.list(LOCAL_QUEUE, namespace)).items))
    except ApiError as error:
        if error.code != 403:
            raise
        if name:
            return name
        raise click.ClickException(f"{error.message}\nChoose a queue with --queue, or a namespace with -n.") from None
    if not names:
        raise click.ClickException(
            f"namespace {namespace} has no LocalQueue. Who may create one: "
            f"pykueue create localqueue NAME --clusterqueue QUEUE -n {namespace}"
        )
    if name in names:
        return name
    listed = ", ".join(names)
    if name:
        raise click.ClickException(f"LocalQueue {name} does not exist in namespace {namespace}; existing: {listed}")
    if len(names) == 1:
        return names[0]
    raise click.ClickException(f"namespace {namespace} has several queues, choose one with --queue: {listed}")


async def _check_priority(client: "Client", name: str) -> None:
    from pykueue.api.resources import WORKLOAD_PRIORITY_CLASS

    names = await existing_names(client, WORKLOAD_PRIORITY_CLASS) if name else None
    if names is not None and name not in names:
        raise click.ClickException(
            f"WorkloadPriorityClass {name} does not exist; existing: {', '.join(names) or 'none'}"
        )


async def _exit_code(client: "Client", namespace: str, name: str) -> int:
    """The exit code of the container of a failed Job that ended last with one; else 1."""
    from pykueue.api import objects
    from pykueue.api.resources import POD
    from pykueue.kube.client import ListOptions

    selector = ListOptions(label_selector=f"batch.kubernetes.io/job-name={name}")
    ends = [
        (str(terminated.get("finishedAt") or ""), int(terminated["exitCode"]))
        for pod in (await client.list(POD, namespace, selector)).items
        for status in objects.nested_list(pod, "status", "containerStatuses")
        if (terminated := objects.nested(status, "state", "terminated")).get("exitCode")
    ]
    return max(ends)[1] if ends else 1


def job_of(request: "dict[str, Any]") -> "Object":
    """The Job for the options of `pykueue submit`; suspended, so that only Kueue starts it."""
    requests = {"cpu": request["cpu"]}
    completions = request["completions"] or request["parallelism"]
    if request["memory"]:
        requests["memory"] = request["memory"]
    if request["gpu"]:
        requests["nvidia.com/gpu"] = str(request["gpu"])
    limits = {resource: amount for resource, amount in requests.items() if resource != "cpu"}
    resources: Object = {"requests": requests} | ({"limits": limits} if limits else {})
    container = {
        "name": "main",
        "image": request["image"],
        "command": [_verbatim(word) for word in request["command"]],
        "workingDir": str((request["directory"] or Path()).resolve()),
        "env": [_variable(text) for text in request["env"]],
        "resources": resources,
    }
    labels = {QUEUE_LABEL: request["queue"]} | ({PRIORITY_LABEL: request["priority"]} if request["priority"] else {})
    name = {"name": request["name"]} if request["name"] else {"generateName": f"{_prefix(request['command'])}-"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": name | {"labels": labels},
        "spec": {
            "suspend": True,
            "parallelism": request["parallelism"],
            "completions": completions,
            "completionMode": "Indexed" if max(completions, request["parallelism"]) > 1 else "NonIndexed",
            "backoffLimit": request["retries"],
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def _verbatim(word: str) -> str:
    """The word, escaped so that Kubernetes expands no `$(NAME)` and takes no `$` of `$$`."""
    return re.sub(r"\$(?=[$(])", "$$", word)


def _variable(text: str) -> dict[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--env")
    return {"name": name, "value": _verbatim(value)}


def _prefix(command: tuple[str, ...]) -> str:
    """A name from the script that an interpreter runs, else from the program."""
    program, *rest = command
    chosen = program
    if re.match(r"python|sh$|bash|node|ruby|perl", Path(program).stem) and rest:
        if not rest[0].startswith("-"):
            chosen = rest[0]
        elif rest[0] == "-m" and len(rest) > 1:
            chosen = rest[1]
    return re.sub(r"[^a-z0-9]+", "-", Path(chosen).stem.lower()).strip("-")[:50] or "job"
