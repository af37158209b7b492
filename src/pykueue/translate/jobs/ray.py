"""ray.io RayCluster, RayJob and RayService: a head, worker groups, and for a RayJob perhaps a submitter.

KubeRay adds containers of its own when it builds pods (autoscaler, submitter); what they ask for is counted here.
A RayJob's default submitter is not counted unless the Configuration says so; one that the user describes is.
"""

from typing import Any

from pykueue.api import quantity
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object, Resource
from pykueue.translate.jobs.framework import (
    JobFramework,
    JobOptions,
    JobResult,
    Path,
    PodSetTemplate,
    condition_true,
    is_elastic,
    value_at,
)

SUBMITTER_CONTAINER = "ray-job-submitter"
SUBMITTER_RESOURCES = {
    "limits": {"cpu": "1", "memory": "1Gi"},
    "requests": {"cpu": "500m", "memory": "200Mi"},
}
AUTOSCALER_RESOURCES = {
    "limits": {"cpu": "500m", "memory": "512Mi"},
    "requests": {"cpu": "500m", "memory": "512Mi"},
}
REDIS_CLEANUP_REQUESTS = {"cpu": "200m", "memory": "256Mi"}
FAULT_TOLERANCE_ANNOTATION = "ray.io/ft-enabled"


def _cluster_places(
    job: Object, path: Path, options: JobOptions, *, extra_head_container: Object | None = None
) -> list[PodSetTemplate]:
    cluster = value_at(job, path) or {}
    scaled = _scaled_counts(job, cluster, options)
    head_path: Path = (*path, "headGroupSpec", "template")
    places = [
        PodSetTemplate(
            name="head",
            template_path=head_path,
            count=1,
            template=_head_template(job, cluster, extra_head_container),
        )
    ]
    for index, group in enumerate(cluster.get("workerGroupSpecs") or ()):
        name = _pod_set_name(group)
        places.append(
            PodSetTemplate(
                name=name,
                template_path=(*path, "workerGroupSpecs", index, "template"),
                count=scaled.get(name, _count(group)),
            )
        )
    return places


def _pod_set_name(group: Object) -> str:
    return str(group.get("groupName", "")).lower()


def _count(group: Object) -> int:
    replicas = group.get("replicas")
    return (1 if replicas is None else int(replicas)) * max(int(group.get("numOfHosts", 1)), 1)


def _scaled_counts(job: Object, cluster: Object, options: JobOptions) -> dict[str, int]:
    """An autoscaler changes the RayCluster, not the RayJob or RayService that it was made of."""
    if options.scaled is None or not is_elastic(job, options) or not cluster.get("enableInTreeAutoscaling"):
        return {}
    groups = options.scaled["spec"].get("workerGroupSpecs") or ()
    return {_pod_set_name(group): _count(group) for group in groups if group.get("replicas") is not None}


def _head_template(job: Object, cluster: Object, extra_container: Object | None) -> Object:
    template: Object = copied((cluster.get("headGroupSpec") or {}).get("template") or {})
    containers: list[Object] = template.setdefault("spec", {}).setdefault("containers", [])
    if containers and _has_redis_cleanup(job, cluster):
        resources = containers[0].setdefault("resources", {})
        resources["requests"] = _larger(resources.get("requests") or {}, REDIS_CLEANUP_REQUESTS)
    if cluster.get("enableInTreeAutoscaling"):
        chosen = (cluster.get("autoscalerOptions") or {}).get("resources") or AUTOSCALER_RESOURCES
        containers.append({"name": "autoscaler", "resources": copied(chosen)})
    if extra_container is not None:
        containers.append(copied(extra_container))
    return template


def _has_redis_cleanup(job: Object, cluster: Object) -> bool:
    annotations = job["metadata"].get("annotations") or {}
    return annotations.get(FAULT_TOLERANCE_ANNOTATION, "").lower() == "true" or bool(
        cluster.get("gcsFaultToleranceOptions")
    )


def _larger(own: dict[str, Any], least: dict[str, str]) -> dict[str, Any]:
    merged = dict(own)
    for name, amount in least.items():
        if name not in merged or quantity.parse(str(merged[name])).nano < quantity.parse(amount).nano:
            merged[name] = amount
    return merged


# RayCluster


def _raycluster_places(job: Object, options: JobOptions) -> list[PodSetTemplate]:
    return _cluster_places(job, ("spec",), options)


def _state(job: Object) -> str:
    return str((job.get("status") or {}).get("state", ""))


def _raycluster_is_ready(job: Object) -> bool:
    return _state(job) == "ready"


def _never_finished(_job: Object) -> JobResult | None:
    return None


# RayJob

_CLUSTER_SPEC: Path = ("spec", "rayClusterSpec")
_SUBMITTER: Path = ("spec", "submitterPodTemplate")


def _rayjob_places(job: Object, options: JobOptions) -> list[PodSetTemplate]:
    mode = job["spec"].get("submissionMode", "")
    sidecar = {"name": SUBMITTER_CONTAINER, "resources": SUBMITTER_RESOURCES} if mode == "SidecarMode" else None
    places = _cluster_places(job, _CLUSTER_SPEC, options, extra_head_container=sidecar)
    given = value_at(job, _SUBMITTER)
    if mode == "K8sJobMode" and (given is not None or options.count_default_submitter):
        template = given if given is not None else _default_submitter(job)
        places.append(PodSetTemplate(name="submitter", template_path=_SUBMITTER, count=1, template=template))
    return places


def _default_submitter(job: Object) -> Object:
    container: Object = {"name": SUBMITTER_CONTAINER, "resources": copied(SUBMITTER_RESOURCES)}
    image = value_at(job, (*_CLUSTER_SPEC, "headGroupSpec", "template", "spec", "containers", 0, "image"))
    if image:
        container["image"] = image
    return {"spec": {"containers": [container], "restartPolicy": "Never"}}


def _deployment_status(job: Object) -> str:
    return str((job.get("status") or {}).get("jobDeploymentStatus", ""))


def _rayjob_finished(job: Object) -> JobResult | None:
    if _deployment_status(job) not in ("Failed", "Complete"):
        return None
    status = job["status"]
    return JobResult(is_success=status.get("jobStatus") == "SUCCEEDED", message=str(status.get("message", "")))


def _rayjob_is_active(job: Object) -> bool:
    return _deployment_status(job) not in ("", "Suspended")


def _rayjob_is_ready(job: Object) -> bool:
    return ((job.get("status") or {}).get("rayClusterStatus") or {}).get("state") == "ready"


def _rayjob_skips(job: Object) -> bool:
    return bool(job["spec"].get("clusterSelector"))


def _rayjob_is_on_hold(job: Object) -> bool:
    return _deployment_status(job) == "ValidationFailed"


# RayService


def _rayservice_places(job: Object, options: JobOptions) -> list[PodSetTemplate]:
    return _cluster_places(job, ("spec", "rayClusterConfig"), options)


def _rayservice_is_ready(job: Object) -> bool:
    return condition_true(job, "Ready") is not None


FRAMEWORKS = (
    JobFramework(
        name="ray.io/raycluster",
        resource=Resource("ray.io", "v1", "rayclusters", "RayCluster", namespaced=True),
        suspend_path=("spec", "suspend"),
        places=_raycluster_places,
        finished=_never_finished,
        is_active=_raycluster_is_ready,
        pods_ready=_raycluster_is_ready,
    ),
    JobFramework(
        name="ray.io/rayjob",
        resource=Resource("ray.io", "v1", "rayjobs", "RayJob", namespaced=True),
        suspend_path=("spec", "suspend"),
        places=_rayjob_places,
        finished=_rayjob_finished,
        is_active=_rayjob_is_active,
        pods_ready=_rayjob_is_ready,
        skips=_rayjob_skips,
        is_on_hold=_rayjob_is_on_hold,
        runs_without_suspend=True,
    ),
    JobFramework(
        name="ray.io/rayservice",
        resource=Resource("ray.io", "v1", "rayservices", "RayService", namespaced=True),
        suspend_path=("spec", "rayClusterConfig", "suspend"),
        places=_rayservice_places,
        finished=_never_finished,
        is_active=_rayservice_is_ready,
        pods_ready=_rayservice_is_ready,
    ),
)
