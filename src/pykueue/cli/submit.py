"""`pykueue submit --queue Q --cpu 2 -- python train.py`: a command becomes a queued Job in one line."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykueue.cli import output as outputs
from pykueue.cli.completion import completes
from pykueue.cli.connection import Cluster, connects

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--queue",
    "-q",
    default="",
    help="The LocalQueue; may be left out where there is only one.",
    shell_complete=completes("localqueue"),
)
@click.option("--name", default="", help="Default: made from the command.")
@click.option("--cpu", default="1", show_default=True, help="CPUs for each pod, for example 2 or 500m.")
@click.option("--memory", default="", help="Memory for each pod, for example 4Gi.")
@click.option("--gpu", type=click.IntRange(min=0), default=0, help="GPUs for each pod.")
@click.option("--priority", default="", help="A WorkloadPriorityClass.")
@click.option("--parallelism", type=click.IntRange(min=1), default=1, show_default=True, help="Pods at the same time.")
@click.option("--completions", type=click.IntRange(min=1), help="Pods that must succeed. Default: as parallelism.")
@click.option("--retries", type=click.IntRange(min=0), default=0, show_default=True, help="Failed pods to replace.")
@click.option("--env", "-e", multiple=True, metavar="NAME=VALUE", help="A variable for the command; may be repeated.")
@click.option("--image", default="local", show_default=True, help="Only a real cluster looks at it.")
@click.option("--directory", type=click.Path(path_type=Path), help="Where the command runs. Default: here.")
@click.option("--follow", "-f", is_flag=True, help="Show the output and end as the command does.")
@outputs.shows
@connects
def submit(*, cluster: Cluster, follow: bool, output: str | None, **wishes: Any) -> None:
    """Queue COMMAND as a Job.

    Everything after `--` is the command: pykueue submit --queue q --cpu 2 -- python train.py
    """

    async def work(client: "Client", where: str) -> int:
        from pykueue.api import resources as kinds

        wishes["queue"] = wishes["queue"] or await _only_queue(client, where)
        job = await client.create(kinds.JOB, job_of(wishes), where)
        name = job["metadata"]["name"]
        outputs.show(kinds.JOB, job, output, done="created")
        if not follow:
            return 0
        from pykueue.cli import logs, wait

        await logs.show(client, where, name, follow=True)
        return await wait.until_finished(client, where, name)

    sys.exit(cluster.run(work))


async def _only_queue(client: "Client", namespace: str) -> str:
    from pykueue.api.scheme import Resource

    resource = Resource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue", namespaced=True)
    names = sorted(queue["metadata"]["name"] for queue in (await client.list(resource, namespace)).items)
    if len(names) == 1:
        return str(names[0])
    if not names:
        raise click.ClickException(f"namespace {namespace} has no LocalQueue: create one, or name one with --queue")
    raise click.ClickException(f"namespace {namespace} has several queues, choose one with --queue: {', '.join(names)}")


def job_of(wishes: "dict[str, Any]") -> "Object":
    """The Job for a command and its wishes; suspended, so that only the queue starts it."""
    requests = {"cpu": wishes["cpu"]}
    if wishes["memory"]:
        requests["memory"] = wishes["memory"]
    resources: Object = {"requests": requests}
    if wishes["gpu"]:
        requests["nvidia.com/gpu"] = str(wishes["gpu"])
        resources["limits"] = {"nvidia.com/gpu": str(wishes["gpu"])}
    container = {
        "name": "main",
        "image": wishes["image"],
        "command": list(wishes["command"]),
        "workingDir": str((wishes["directory"] or Path()).resolve()),
        "env": [_variable(text) for text in wishes["env"]],
        "resources": resources,
    }
    labels = {QUEUE: wishes["queue"]} | ({PRIORITY: wishes["priority"]} if wishes["priority"] else {})
    name = {"name": wishes["name"]} if wishes["name"] else {"generateName": f"{_prefix(wishes['command'])}-"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": name | {"labels": labels},
        "spec": {
            "suspend": True,
            "parallelism": wishes["parallelism"],
            "completions": wishes["completions"] or wishes["parallelism"],
            "backoffLimit": wishes["retries"],
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def _variable(text: str) -> dict[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--env")
    return {"name": name, "value": value}


def _prefix(command: tuple[str, ...]) -> str:
    """The script if an interpreter runs one, else the program: letters, digits and dashes."""
    program, *rest = command
    chosen = program
    if re.match(r"python|sh$|bash|node|ruby|perl", Path(program).stem) and rest:
        if not rest[0].startswith("-"):
            chosen = rest[0]
        elif rest[0] == "-m" and len(rest) > 1:
            chosen = rest[1]
    return re.sub(r"[^a-z0-9]+", "-", Path(chosen).stem.lower()).strip("-")[:50] or "job"
