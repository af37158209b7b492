"""What stands around the cluster of a RayService: the Job that deploys its applications, and its Services."""

import copy
import hashlib

import yaml

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster.operators.ray import commands, names
from pykueue.cluster.operators.ray import pods as ray_pods
from pykueue.cluster.runtimes import simulated

_RETRIES = 100
_SIMULATED_SECONDS = "0.2"


def applications(service: Object) -> list[str]:
    """Names of the applications in `serveConfigV2`; none if it cannot be read."""
    try:
        config = yaml.safe_load(service["spec"].get("serveConfigV2") or "")
    except yaml.YAMLError:
        return []
    listed = config.get("applications") if isinstance(config, dict) else None
    return [str(each.get("name", "default")) for each in listed or () if isinstance(each, dict)]


def job_name(service: Object, cluster: str) -> str:
    """Another configuration, or another cluster, is another deployment."""
    text = f"{cluster}\0{service['spec'].get('serveConfigV2', '')}"
    return f"{objects.name(service)}-serve-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def job(service: Object, cluster: str) -> Object:
    head = service["spec"]["rayClusterConfig"]["headGroupSpec"].get("template", {}).get("spec", {})
    first = (head.get("containers") or [{}])[0]
    container: Object = {
        "name": "serve-deployer",
        "image": first.get("image", "rayproject/ray"),
        "command": ["/bin/sh", "-c"],
        "args": [commands.DEPLOY],
        "env": [
            *commands.variables(cluster, "submitter"),
            {"name": "SERVE_CONFIG", "value": service["spec"].get("serveConfigV2", "")},
        ],
    }
    if first.get("volumeMounts"):
        container["volumeMounts"] = copy.deepcopy(first["volumeMounts"])
    pod: Object = {"restartPolicy": "Never", "containers": [container]}
    if head.get("volumes"):
        pod["volumes"] = copy.deepcopy(head["volumes"])
    marks = ray_pods.local_marks(cluster, ray_pods.group(objects.namespace(service), cluster))
    metadata = _metadata(service, job_name(service, cluster))
    template = {"metadata": {"annotations": marks | {simulated.RUNTIME: _SIMULATED_SECONDS}}, "spec": pod}
    spec = {"backoffLimit": _RETRIES, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def services(service: Object, cluster: str) -> list[Object]:
    head = {"ray.io/cluster": names.label(cluster), "ray.io/node-type": "head"}
    everybody = {"ray.io/cluster": names.label(cluster), "ray.io/serve": "true"}
    dashboard = [{"name": "dashboard", "port": 8265}, {"name": "serve", "port": 8000}]
    return [
        _service(service, names.head_service(objects.name(service)), head, dashboard),
        _service(service, f"{objects.name(service)}-serve-svc", everybody, [{"name": "serve", "port": 8000}]),
    ]


def _service(owner: Object, name: str, selector: dict[str, str], ports: list[Object]) -> Object:
    spec = {"selector": selector, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(owner, name), "spec": spec}


def _metadata(owner: Object, name: str) -> Object:
    labels = {
        "ray.io/originated-from-cr-name": names.label(objects.name(owner)),
        "ray.io/originated-from-crd": "RayService",
    }
    return {
        "name": name,
        "namespace": objects.namespace(owner),
        "labels": labels,
        "ownerReferences": [objects.controller_reference(owner)],
    }
