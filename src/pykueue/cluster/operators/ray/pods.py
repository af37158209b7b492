"""The pods of a RayCluster, made from its group templates."""

import copy
from collections.abc import Callable

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.operators.ray import commands, names
from pykueue.cluster.runtimes import port_mapping
from pykueue.cluster.runtimes.process import LIMITS
from pykueue.cluster.runtimes.simulated import RUNTIME, UNTIL_DELETED

HEAD_GROUP = "headgroup"


def head(cluster: Object) -> Object:
    spec = cluster["spec"]["headGroupSpec"]
    name = objects.name(cluster)
    pod = _pod(cluster, spec, "head", group_name=HEAD_GROUP, command=commands.start_head)
    pod["metadata"]["generateName"] = names.head_prefix(name)
    return pod


def worker(cluster: Object, spec: Object) -> Object:
    pod = _pod(cluster, spec, "worker", group_name=spec["groupName"], command=commands.start_worker)
    pod["metadata"]["generateName"] = names.worker_prefix(objects.name(cluster), spec["groupName"])
    return pod


def _pod(
    cluster: Object, spec: Object, role: str, *, group_name: str, command: Callable[[Object, Object], str]
) -> Object:
    name = objects.name(cluster)
    pod = pods.from_template(spec["template"], cluster)
    metadata = pod["metadata"]
    metadata["labels"] = (metadata.get("labels") or {}) | _labels(name, role, group_name)
    metadata["annotations"] = local_marks(name, group(objects.namespace(cluster), name)) | (
        metadata.get("annotations") or {}
    )
    container = pod["spec"]["containers"][0]
    start = command(spec.get("rayStartParams") or {}, container.get("resources") or {})
    if "ray.io/overwrite-container-cmd" not in objects.annotations(cluster):
        own = [*(container.get("command") or ()), *(container.get("args") or ())]
        words = " ".join(own)
        container["command"] = ["/bin/sh", "-c"]
        container["args"] = [f"{words} && {start}" if own and own[0] not in ("/bin/sh", "/bin/bash") else start]
    given = copy.copy(container.get("env") or [])
    known = {variable["name"] for variable in given}
    container["env"] = [
        *(variable for variable in commands.variables(name, role) if variable["name"] not in known),
        *given,
    ]
    return pod


def _labels(cluster: str, role: str, group_name: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/created-by": "kuberay-operator",
        "app.kubernetes.io/name": "kuberay",
        "ray.io/cluster": names.label(cluster),
        "ray.io/group": names.label(group_name),
        "ray.io/identifier": names.label(f"{cluster}-{role}"),
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": role,
    }


def group(namespace: str, cluster: str) -> str:
    """The name under which the pods of a cluster, and a submitter to it, meet on one machine."""
    return f"{namespace}.{cluster}"


def local_marks(cluster: str, group_name: str) -> dict[str, str]:
    """How the pods of one cluster find each other on one machine, and that they run until they are removed."""
    return {
        port_mapping.GROUP: group_name,
        port_mapping.NAMES: names.head_service(cluster),
        port_mapping.PORTS: ",".join(commands.PORTS.values()),
        RUNTIME: UNTIL_DELETED,
        LIMITS: "ignore",
    }
