"""The pods of a training job."""

import copy

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.operators.kubeflow.frameworks import (
    Member,
    TrainingFramework,
    counts,
    pod_name,
    specs,
)
from pykueue.cluster.runtimes import port_mapping, simulated

ROLE = "training.kubeflow.org/replica-type"
INDEX = "training.kubeflow.org/replica-index"


def make(member: Member) -> Object:
    spec = specs(member.framework, member.job)[member.role]
    pod = pods.from_template(spec["template"], member.job)
    metadata = pod["metadata"]
    del metadata["generateName"]
    metadata["name"] = member.name
    metadata["labels"] = (metadata.get("labels") or {}) | _labels(member)
    metadata["annotations"] = _local_marks(member.framework, member.job) | (metadata.get("annotations") or {})
    policy = spec.get("restartPolicy", "Never")
    pod["spec"]["restartPolicy"] = "Never" if policy == "ExitCode" else policy
    told = [{"name": name, "value": value} for name, value in member.framework.variables(member).items()]
    for container in pod["spec"]["containers"]:
        given = copy.copy(container.get("env") or [])
        known = {variable["name"] for variable in given}
        container["env"] = [*given, *(variable for variable in told if variable["name"] not in known)]
    if member.role == member.framework.idle_role:
        _idle(pod)
    return pod


def _idle(pod: Object) -> None:
    """A pod that has no command, or would only run an SSH server, waits until it is removed."""
    container = pod["spec"]["containers"][0]
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not words or words[0].rpartition("/")[2] == "sshd":
        container["command"] = ["sleep", "infinity"]
        container.pop("args", None)
        pod["metadata"]["annotations"].setdefault(simulated.RUNTIME, simulated.UNTIL_DELETED)


def _labels(member: Member) -> dict[str, str]:
    labels = {
        "training.kubeflow.org/job-name": objects.name(member.job),
        "training.kubeflow.org/operator-name": member.framework.operator,
        ROLE: member.role.lower(),
        INDEX: str(member.index),
    }
    if member.role in member.framework.leaders:
        labels["training.kubeflow.org/job-role"] = "master"
    return labels


def _local_marks(framework: TrainingFramework, job: Object) -> dict[str, str]:
    """How members find each other when they share one machine."""
    names = [pod_name(job, role, index) for role, count in counts(framework, job).items() for index in range(count)]
    return {
        port_mapping.GROUP: objects.uid(job),
        port_mapping.NAMES: ",".join(names),
        port_mapping.PORTS: str(framework.port),
    }


def place(framework: TrainingFramework, pod: Object) -> tuple[str, int] | None:
    """Role and index of a pod, if it has any."""
    labels = objects.labels(pod)
    role = next((found for found in framework.roles if found.lower() == labels.get(ROLE)), None)
    index = labels.get(INDEX, "")
    return None if role is None or not index.isdecimal() else (role, int(index))
