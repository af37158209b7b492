"""The pods of a RayCluster, from its group templates."""

import copy
from collections.abc import Callable

from pykueue.api import objects, reserved_keys
from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.operators.ray import commands, names
from pykueue.cluster.runtimes.simulated import RUNTIME, UNTIL_DELETED


def head(cluster: Object) -> Object:
    spec = objects.nested(cluster, "spec", "headGroupSpec")
    name = objects.name(cluster)
    pod = _pod(cluster, spec, "head", group_name=names.HEAD_GROUP, command=commands.start_head)
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
    pod = pods.from_template(objects.nested(spec, "template"), cluster, labels=_labels(name, role, group_name))
    pod["metadata"]["annotations"] = local_annotations(objects.namespace(cluster), name) | objects.annotations(pod)
    if not pod["spec"].get("containers"):
        return pod  # the API refuses it, and says why
    container = pod["spec"]["containers"][0]
    start = command(objects.nested(spec, "rayStartParams"), objects.nested(container, "resources"))
    if "ray.io/overwrite-container-cmd" not in objects.annotations(cluster):
        own_words = [*(container.get("command") or ()), *(container.get("args") or ())]
        own_command = " ".join(own_words)
        container["command"] = ["/bin/sh", "-c"]
        container["args"] = [
            f"{own_command} && {start}" if own_words and own_words[0] not in ("/bin/sh", "/bin/bash") else start
        ]
        container.setdefault("startupProbe", copy.deepcopy(commands.STARTUP_PROBE))
    variables = container.get("env") or []
    names_in_use = {variable["name"] for variable in variables}
    container["env"] = [
        *(variable for variable in commands.variables(name, role) if variable["name"] not in names_in_use),
        *variables,
    ]
    return pod


def _labels(cluster: str, role: str, group_name: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/created-by": "kuberay-operator",
        "app.kubernetes.io/name": "kuberay",
        names.CLUSTER: names.label(cluster),
        names.GROUP: names.label(group_name),
        "ray.io/identifier": names.label(f"{cluster}-{role}"),
        "ray.io/is-ray-node": "yes",
        names.NODE_TYPE: role,
    }


def local_annotations(namespace: str, cluster: str) -> dict[str, str]:
    """Annotations for this machine: the port mapping of the cluster, and an endless runtime."""
    return {
        reserved_keys.PORT_GROUP: f"{namespace}.{cluster}",
        reserved_keys.LOCAL_NAMES: names.head_service(cluster),
        reserved_keys.LOCAL_PORTS: ",".join(commands.PORTS.values()),
        RUNTIME: UNTIL_DELETED,
        reserved_keys.MEMORY_LIMIT: "ignore",
    }


def spec_like_head(head: Object, container_name: str) -> Object:
    """A pod spec with one container that has the image and the volumes of the head."""
    first = (head.get("containers") or [{}])[0]
    container: Object = {"name": container_name, "image": first.get("image", "rayproject/ray")}
    if first.get("volumeMounts"):
        container["volumeMounts"] = copy.deepcopy(first["volumeMounts"])
    return {"containers": [container]} | ({"volumes": copy.deepcopy(head["volumes"])} if head.get("volumes") else {})
