"""One sync of a RayJob: through Suspended, Initializing, Running to Complete or Failed, as KubeRay words them."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pykueue.api import objects, resources, times
from pykueue.api.scheme import Object
from pykueue.cluster import generated_names, statuses
from pykueue.cluster.job_controller import job_view
from pykueue.cluster.operators.ray import names, submitter
from pykueue.kube.controller import writes

_KEPT_LABELS = "kueue.x-k8s.io/"


@dataclass(slots=True, kw_only=True)
class _Course:
    ray_job: Object
    clusters: list[Object]
    jobs: list[Object]
    now: datetime
    status: Object
    wait: float | None = None

    @property
    def spec(self) -> Object:
        spec: Object = self.ray_job["spec"]
        return spec

    @property
    def phase(self) -> str:
        return str(self.status.get("jobDeploymentStatus", ""))

    def turn(self, phase: str, **fields: str) -> None:
        self.status |= {"jobDeploymentStatus": phase, **fields}

    @property
    def cluster(self) -> Object | None:
        name = self.status.get("rayClusterName")
        return next((found for found in self.clusters if objects.name(found) == name), None)


def sync(ray_job: Object, owned: Sequence[Object], now: datetime) -> writes.Sync:
    """`owned` are the RayCluster and the submitter Job."""
    if objects.is_deleted(ray_job):
        return writes.Done()
    course = _Course(
        ray_job=ray_job,
        clusters=[child for child in owned if child["kind"] == "RayCluster"],
        jobs=[child for child in owned if child["kind"] == "Job"],
        now=now,
        status=copy.deepcopy(ray_job.get("status") or {}),
    )
    before = course.phase
    changes = _STEPS[before](course)
    course.status["observedGeneration"] = ray_job["metadata"].get("generation", 1)
    errors: tuple[Exception, ...] = ()
    if before != course.phase:
        # A new phase is written before anything is done in it: names chosen here must survive a crash.
        errors = yield from statuses.write(resources.RAY_JOB, ray_job, course.status)
        return writes.Done(look_again_after=course.wait, errors=errors)
    if changes:
        results = yield changes
        errors = writes.refusals(results)
    errors += yield from statuses.write(resources.RAY_JOB, ray_job, course.status)
    return writes.Done(look_again_after=course.wait, errors=errors)


def _new(course: _Course) -> list[writes.Write]:
    name = objects.name(course.ray_job)
    if course.spec.get("suspend"):
        course.turn("Suspended")
        return []
    selector = (course.spec.get("clusterSelector") or {}).get("ray.io/cluster")
    course.turn(
        "Initializing",
        jobId=course.spec.get("jobId") or f"{name}-{generated_names.random_suffix()}",
        rayClusterName=selector or f"{name}-raycluster-{generated_names.random_suffix()}",
        startTime=times.to_text(course.now),
    )
    return []


def _initializing(course: _Course) -> list[writes.Write]:
    if _stops(course):
        return []
    cluster = course.cluster
    if cluster is None:
        return [] if course.spec.get("clusterSelector") else [_cluster(course)]
    course.status["rayClusterStatus"] = copy.deepcopy(cluster.get("status") or {})
    if course.status["rayClusterStatus"].get("state") != "ready":
        return []
    host = names.head_service(course.status["rayClusterName"])
    course.turn("Running", dashboardURL=f"{host}.{objects.namespace(course.ray_job)}.svc.cluster.local:8265")
    return []


def _running(course: _Course) -> list[writes.Write]:
    if _stops(course):
        return []
    if course.cluster is not None:
        course.status["rayClusterStatus"] = copy.deepcopy(course.cluster.get("status") or {})
    if not course.jobs:
        job = submitter.job(course.ray_job, course.status)
        message = f"Created Kubernetes Job {objects.namespace(course.ray_job)}/{objects.name(job)}"
        told = writes.Event(about=course.ray_job, type="Normal", reason="CreatedRayJobSubmitter", message=message)
        return [writes.Create(resource=resources.JOB, object=job), told]
    ended = job_view.finished_condition(course.jobs[0])
    if ended is None:
        is_ready = bool((course.jobs[0].get("status") or {}).get("ready"))
        course.status["jobStatus"] = "RUNNING" if is_ready else course.status.get("jobStatus", "PENDING")
    elif ended["type"] == "Complete":
        course.status["succeeded"] = int(course.status.get("succeeded") or 0) + 1
        course.turn(
            "Complete", jobStatus="SUCCEEDED", endTime=times.to_text(course.now), message="Job finished successfully."
        )
    else:
        _fail(course, "AppFailed", f"Job entrypoint command failed: {ended.get('message', '')}")
    return []


def _stops(course: _Course) -> bool:
    """Suspension and the deadline end what runs."""
    if course.spec.get("suspend"):
        course.turn("Suspending")
        return True
    deadline = course.spec.get("activeDeadlineSeconds")
    started = times.parse_optional(course.status.get("startTime"))
    if deadline is None or started is None:
        return False
    left = (started + timedelta(seconds=deadline) - course.now).total_seconds()
    if left > 0:
        course.wait = left
        return False
    message = f"The RayJob has passed the activeDeadlineSeconds. StartTime: {times.to_text(started)}. ActiveDeadlineSeconds: {deadline}"
    _fail(course, "DeadlineExceeded", message)
    return True


def _fail(course: _Course, reason: str, message: str) -> None:
    failed = int(course.status.get("failed") or 0) + 1
    course.status["failed"] = failed
    if reason == "AppFailed" and failed <= int(course.spec.get("backoffLimit") or 0):
        course.turn("Retrying")
        return
    job_status = {"jobStatus": "FAILED"} if reason == "AppFailed" else {}
    course.turn("Failed", reason=reason, message=message, endTime=times.to_text(course.now), **job_status)


def _winding_down(course: _Course) -> list[writes.Write]:
    """Suspending and Retrying: everything goes, then the job is as new."""
    if not course.clusters and not course.jobs:
        phase = "Suspended" if course.phase == "Suspending" else ""
        for field in (
            "jobId",
            "rayClusterName",
            "dashboardURL",
            "jobStatus",
            "startTime",
            "endTime",
            "reason",
            "message",
        ):
            course.status.pop(field, None)
        course.status["rayClusterStatus"] = {}
        course.turn(phase)
    return _removal(course)


def _removal(course: _Course) -> list[writes.Write]:
    return [
        writes.Delete(resource=resource, object=found)
        for resource, some in ((resources.RAY_CLUSTER, course.clusters), (resources.JOB, course.jobs))
        for found in some
        if not objects.is_deleted(found)
    ]


def _suspended(course: _Course) -> list[writes.Write]:
    if not course.spec.get("suspend"):
        course.turn("")
    return []


def _over(course: _Course) -> list[writes.Write]:
    """A finished job frees its cluster, if it was asked to, after its time to live."""
    if not course.spec.get("shutdownAfterJobFinishes") or course.spec.get("clusterSelector") or not course.clusters:
        return []
    ended = times.parse_optional(course.status.get("endTime")) or course.now
    left = (
        ended + timedelta(seconds=int(course.spec.get("ttlSecondsAfterFinished") or 0)) - course.now
    ).total_seconds()
    if left > 0:
        course.wait = left
        return []
    return [
        writes.Delete(resource=resources.RAY_CLUSTER, object=found)
        for found in course.clusters
        if not objects.is_deleted(found)
    ]


def _cluster(course: _Course) -> writes.Create:
    metadata = course.ray_job["metadata"]
    kept = {key: value for key, value in objects.labels(course.ray_job).items() if not key.startswith(_KEPT_LABELS)}
    labels = kept | {"ray.io/originated-from-cr-name": metadata["name"], "ray.io/originated-from-crd": "RayJob"}
    cluster = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": course.status["rayClusterName"],
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [objects.controller_reference(course.ray_job)],
        },
        "spec": copy.deepcopy(course.spec["rayClusterSpec"]) | {"suspend": False},
    }
    return writes.Create(resource=resources.RAY_CLUSTER, object=cluster)


_STEPS: dict[str, Callable[[_Course], list[writes.Write]]] = {
    "": _new,
    "New": _new,
    "Initializing": _initializing,
    "Running": _running,
    "Suspending": _winding_down,
    "Retrying": _winding_down,
    "Suspended": _suspended,
    "Complete": _over,
    "Failed": _over,
}
