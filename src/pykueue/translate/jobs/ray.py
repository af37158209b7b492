"""ray.io RayCluster, RayJob and RayService: a head, worker groups, and the submitter of a RayJob.

KubeRay adds its own containers when it builds pods (autoscaler, submitter). Their requests are
counted here. The default submitter of a RayJob counts only if the Configuration says so; one that
the user describes always counts.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from pykueue.api import conditions, objects, quantity, resources
from pykueue.api.json_copy import copied
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object
from pykueue.translate.jobs.framework import (
    JobDependency,
    JobFramework,
    JobOptions,
    JobResult,
    ObjectReference,
    Path,
    PodSetTemplate,
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


def _cluster_templates(
    job: Object, path: Path, options: JobOptions, *, extra_head_container: Object | None = None
) -> list[PodSetTemplate]:
    cluster = value_at(job, path) or {}
    scaled = _scaled_counts(job, cluster, options)
    head_path: Path = (*path, "headGroupSpec", "template")
    templates = [
        PodSetTemplate(
            name="head",
            template_path=head_path,
            count=1,
            template=_head_template(job, cluster, extra_head_container),
        )
    ]
    for index, group in enumerate(cluster.get("workerGroupSpecs") or ()):
        name = _pod_set_name(group)
        templates.append(
            PodSetTemplate(
                name=name,
                template_path=(*path, "workerGroupSpecs", index, "template"),
                count=scaled.get(name, worker_count(group)),
            )
        )
    return templates


def _pod_set_name(group: Object) -> str:
    return str(group.get("groupName", "")).lower()


def worker_count(group: Object) -> int:
    replicas = group.get("replicas")
    return (1 if replicas is None else int(replicas)) * max(int(group.get("numOfHosts", 1)), 1)


def _scaled_counts(job: Object, cluster: Object, options: JobOptions) -> dict[str, int]:
    """The counts in the RayCluster of an elastic job, which the autoscaler changes."""
    if options.scaled is None or not is_elastic(job, options) or not cluster.get("enableInTreeAutoscaling"):
        return {}
    groups = objects.spec(options.scaled).get("workerGroupSpecs") or ()
    return {_pod_set_name(group): worker_count(group) for group in groups if group.get("replicas") is not None}


def _head_template(job: Object, cluster: Object, extra_container: Object | None) -> Object:
    template: Object = copied(objects.nested(cluster, "headGroupSpec", "template"))
    containers: list[Object] = template.setdefault("spec", {}).setdefault("containers", [])
    if containers and _has_redis_cleanup(job, cluster):
        resources = containers[0].setdefault("resources", {})
        resources["requests"] = _at_least(resources.get("requests") or {}, REDIS_CLEANUP_REQUESTS)
    if cluster.get("enableInTreeAutoscaling"):
        resources = objects.nested(cluster, "autoscalerOptions", "resources") or AUTOSCALER_RESOURCES
        containers.append({"name": "autoscaler", "resources": copied(resources)})
    if extra_container is not None:
        containers.append(copied(extra_container))
    return template


def _has_redis_cleanup(job: Object, cluster: Object) -> bool:
    is_annotated = objects.annotations(job).get(FAULT_TOLERANCE_ANNOTATION, "").lower() == "true"
    return is_annotated or bool(cluster.get("gcsFaultToleranceOptions"))


def _rayservice_cleans_redis(job: Object) -> bool:
    """A job that cleans up Redis runs after the RayService is deleted, and needs its quota."""
    return _has_redis_cleanup(job, objects.nested(job, "spec", "rayClusterConfig"))


def _at_least(requests: dict[str, Any], minimum: dict[str, str]) -> dict[str, Any]:
    merged = dict(requests)
    for name, amount in minimum.items():
        if name not in merged or quantity.parse(str(merged[name])).nano < quantity.parse(amount).nano:
            merged[name] = amount
    return merged


# RayCluster


def _raycluster_templates(job: Object, options: JobOptions) -> list[PodSetTemplate]:
    return _cluster_templates(job, ("spec",), options)


def _state(job: Object) -> str:
    return str(objects.status(job).get("state", ""))


def _raycluster_is_ready(job: Object) -> bool:
    return _state(job) == "ready"


def _never_finished(_job: Object) -> JobResult | None:
    return None


# RayJob

_CLUSTER_SPEC: Path = ("spec", "rayClusterSpec")
_SUBMITTER: Path = ("spec", "submitterPodTemplate")


def _rayjob_templates(job: Object, options: JobOptions) -> list[PodSetTemplate]:
    mode = objects.spec(job).get("submissionMode", "")
    sidecar = {"name": SUBMITTER_CONTAINER, "resources": SUBMITTER_RESOURCES} if mode == "SidecarMode" else None
    templates = _cluster_templates(job, _CLUSTER_SPEC, options, extra_head_container=sidecar)
    submitter = value_at(job, _SUBMITTER)
    if mode == "K8sJobMode" and (submitter is not None or options.count_default_submitter):
        template = submitter if submitter is not None else _default_submitter(job)
        templates.append(PodSetTemplate(name="submitter", template_path=_SUBMITTER, count=1, template=template))
    return templates


def _default_submitter(job: Object) -> Object:
    container: Object = {"name": SUBMITTER_CONTAINER, "resources": copied(SUBMITTER_RESOURCES)}
    image = value_at(job, (*_CLUSTER_SPEC, "headGroupSpec", "template", "spec", "containers", 0, "image"))
    if image:
        container["image"] = image
    return {"spec": {"containers": [container], "restartPolicy": "Never"}}


def _deployment_status(job: Object) -> str:
    return str(objects.status(job).get("jobDeploymentStatus", ""))


def _rayjob_finished(job: Object) -> JobResult | None:
    if _deployment_status(job) not in ("Failed", "Complete"):
        return None
    status = job["status"]
    return JobResult(is_success=status.get("jobStatus") == "SUCCEEDED", message=str(status.get("message", "")))


def _rayjob_is_active(job: Object) -> bool:
    return _deployment_status(job) not in ("", "Suspended")


def _rayjob_is_ready(job: Object) -> bool:
    return objects.nested(job, "status", "rayClusterStatus").get("state") == "ready"


def _rayjob_skips(job: Object) -> bool:
    return bool(objects.spec(job).get("clusterSelector"))


def _rayjob_is_on_hold(job: Object) -> bool:
    return _deployment_status(job) == "ValidationFailed"


# RayService


def _rayservice_templates(job: Object, options: JobOptions) -> list[PodSetTemplate]:
    return _cluster_templates(job, ("spec", "rayClusterConfig"), options)


def _rayservice_is_ready(job: Object) -> bool:
    return conditions.is_true(job, "Ready")


def _autoscaled(framework: JobFramework, cluster_spec: Path, cluster_name: Callable[[Object], str]) -> JobFramework:
    """The framework with the sizes of the RayCluster that an in-tree autoscaler changes."""

    def reference(job: Object) -> ObjectReference | None:
        name = cluster_name(job)
        is_autoscaled = bool((value_at(job, cluster_spec) or {}).get("enableInTreeAutoscaling"))
        if not name or not is_autoscaled or not is_elastic(job, JobOptions()):
            return None
        return ObjectReference(resource=resources.RAY_CLUSTER, name=name, namespace=objects.namespace(job))

    def framework_for(cluster: Object | None) -> JobFramework:
        if cluster is None:
            return framework
        return replace(
            framework,
            pod_set_templates=lambda job, options: framework.pod_set_templates(job, replace(options, scaled=cluster)),
            slice_name_suffix=f"_{cluster['metadata'].get('generation', '')}",
        )

    dependency = JobDependency(
        resources=(resources.RAY_CLUSTER,), reference=reference, framework_for=framework_for, is_optional=True
    )
    return replace(framework, dependency=dependency)


FRAMEWORKS = (
    JobFramework(
        description=job_kinds.RAY_CLUSTER,
        pod_set_templates=_raycluster_templates,
        finished=_never_finished,
        is_active=_raycluster_is_ready,
        pods_ready=_raycluster_is_ready,
    ),
    _autoscaled(
        JobFramework(
            description=job_kinds.RAY_JOB,
            pod_set_templates=_rayjob_templates,
            finished=_rayjob_finished,
            is_active=_rayjob_is_active,
            pods_ready=_rayjob_is_ready,
            skips=_rayjob_skips,
            is_on_hold=_rayjob_is_on_hold,
            runs_without_suspend=True,
        ),
        _CLUSTER_SPEC,
        lambda job: str(objects.status(job).get("rayClusterName", "")),
    ),
    _autoscaled(
        JobFramework(
            description=job_kinds.RAY_SERVICE,
            pod_set_templates=_rayservice_templates,
            finished=_never_finished,
            is_active=_rayservice_is_ready,
            pods_ready=_rayservice_is_ready,
            finalizes_late=_rayservice_cleans_redis,
        ),
        ("spec", "rayClusterConfig"),
        lambda job: str(objects.nested(job, "status", "activeServiceStatus").get("rayClusterName", "")),
    ),
)
