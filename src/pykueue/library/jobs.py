"""The Job that `submit` creates."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pykueue.api import labels
from pykueue.api.scheme import Object
from pykueue.cluster.runtimes.simulated import EXIT_CODE, RUNTIME

_LOCAL_IMAGE = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions:
    command: str | Sequence[str]
    name: str
    queue: str
    cpu: str
    memory: str
    gpus: int
    parallelism: int
    completions: int
    priority: str
    duration: str
    exit_code: int


def job_of(options: SubmitOptions) -> Object:
    """Suspended, so that only Kueue starts it."""
    job_labels = {labels.QUEUE_NAME: options.queue}
    if options.priority:
        job_labels[labels.PRIORITY_CLASS] = options.priority
    annotations = {RUNTIME: options.duration} if options.duration else {}
    if options.exit_code:
        annotations[EXIT_CODE] = str(options.exit_code)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": ({"name": options.name} if options.name else {"generateName": "job-"}) | {"labels": job_labels},
        "spec": {
            "suspend": True,
            "parallelism": options.parallelism,
            "completions": options.completions,
            "backoffLimit": 0,
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {"restartPolicy": "Never", "containers": [_container(options)]},
            },
        },
    }


def _container(options: SubmitOptions) -> Object:
    requests = {"cpu": options.cpu}
    if options.memory:
        requests["memory"] = options.memory
    if options.gpus:
        requests["nvidia.com/gpu"] = str(options.gpus)
    limits = {resource: amount for resource, amount in requests.items() if resource != "cpu"}
    command = shlex.split(options.command) if isinstance(options.command, str) else list(options.command)
    return {
        "name": "main",
        "image": _LOCAL_IMAGE,
        "command": command,
        "workingDir": str(Path.cwd()),
        "resources": {"requests": requests, "limits": limits},
    }
