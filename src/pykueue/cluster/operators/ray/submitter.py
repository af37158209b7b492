"""The Kubernetes Job that submits a RayJob's entrypoint to its cluster and follows it to the end."""

import copy

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster.operators.ray import commands, names
from pykueue.cluster.operators.ray import pods as ray_pods
from pykueue.cluster.runtimes import simulated

_DEFAULT_RETRIES = 2
_RESOURCES = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}}
_OWN_PREFIX = "pykueue.dev/"


def job(ray_job: Object, status: Object) -> Object:
    spec = ray_job["spec"]
    template = _template(ray_job, status["rayClusterName"])
    container = template["spec"]["containers"][0]
    if not container.get("command"):
        container["command"] = ["/bin/sh", "-c"]
        container["args"] = [commands.submit(ray_job, status["jobId"])]
    given = container.get("env") or []
    container["env"] = [
        *commands.variables(status["rayClusterName"], "submitter"),
        {"name": "RAY_JOB_SUBMISSION_ID", "value": status["jobId"]},
        *given,
    ]
    labels = {
        "ray.io/originated-from-cr-name": names.label(objects.name(ray_job)),
        "ray.io/originated-from-crd": "RayJob",
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": objects.name(ray_job),
            "namespace": objects.namespace(ray_job),
            "labels": labels,
            "ownerReferences": [objects.controller_reference(ray_job)],
        },
        "spec": {
            "backoffLimit": (spec.get("submitterConfig") or {}).get("backoffLimit", _DEFAULT_RETRIES),
            "template": template,
        },
    }


def _template(ray_job: Object, cluster: str) -> Object:
    spec = ray_job["spec"]
    template = copy.deepcopy(spec.get("submitterPodTemplate") or {})
    pod_spec = template.setdefault("spec", {})
    pod_spec.setdefault("restartPolicy", "Never")
    if not pod_spec.get("containers"):
        pod_spec |= _default_pod(spec)
    metadata = template.setdefault("metadata", {})
    own = {key: value for key, value in objects.annotations(ray_job).items() if key.startswith(_OWN_PREFIX)}
    marks = ray_pods.local_marks(cluster, ray_pods.group(objects.namespace(ray_job), cluster)) | {
        simulated.RUNTIME: _duration(spec)
    }
    metadata["annotations"] = marks | own | (metadata.get("annotations") or {})
    return template


def _default_pod(spec: Object) -> Object:
    """KubeRay's default submitter; it also sees the head's files, so that paths in the entrypoint can be found."""
    head = (spec.get("rayClusterSpec") or {}).get("headGroupSpec", {}).get("template", {}).get("spec", {})
    first = (head.get("containers") or [{}])[0]
    container: Object = {
        "name": "ray-job-submitter",
        "image": first.get("image", "rayproject/ray"),
        "resources": _RESOURCES,
    }
    if first.get("volumeMounts"):
        container["volumeMounts"] = copy.deepcopy(first["volumeMounts"])
    return {"containers": [container]} | ({"volumes": copy.deepcopy(head["volumes"])} if head.get("volumes") else {})


def _duration(spec: Object) -> str:
    """How long the entrypoint seems to run where nothing really runs: as long as its `sleep` says."""
    seconds = simulated.seconds_of_text(spec.get("entrypoint", ""))
    return simulated.UNTIL_DELETED if seconds is None else f"{seconds:g}"
