"""One sync of a RayJob through KubeRay's phases, from Initializing to Complete or Failed.

`_STEPS` is the table of phases and their functions.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pykueue.api import generated_names, objects, resources, times
from pykueue.api.scheme import Object
from pykueue.api.yaml_reader import YamlError
from pykueue.cluster import statuses
from pykueue.cluster.job_controller import job_view
from pykueue.cluster.operators.ray import commands, names
from pykueue.cluster.operators.ray import pods as ray_pods
from pykueue.cluster.runtimes import simulated
from pykueue.kube.controller import writes

_DEFAULT_RETRIES = 2
_RESOURCES = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}}
_OWN_PREFIX = "pykueue.dev/"


@dataclass(slots=True, kw_only=True)
class _RayJobSync:
    """The state of one sync: the RayJob, what it owns, and the status to write."""

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

    def set_phase(self, phase: str, **fields: str) -> None:
        self.status |= {"jobDeploymentStatus": phase, **fields}

    @property
    def cluster(self) -> Object | None:
        name = self.status.get("rayClusterName")
        return next((cluster for cluster in self.clusters if objects.name(cluster) == name), None)


def sync(ray_job: Object, owned: Sequence[Object], now: datetime) -> writes.Sync:
    """`owned` are the RayCluster and the submitter Job."""
    if objects.is_deleted(ray_job):
        return writes.Done()
    state = _RayJobSync(
        ray_job=ray_job,
        clusters=[child for child in owned if child["kind"] == "RayCluster"],
        jobs=[child for child in owned if child["kind"] == "Job"],
        now=now,
        status=copy.deepcopy(objects.status(ray_job)),
    )
    before = state.phase
    changes = _STEPS.get(before, _none)(state) if _is_valid(state) else []
    state.status["observedGeneration"] = ray_job["metadata"].get("generation", 1)
    errors: tuple[Exception, ...] = ()
    if before != state.phase:
        # The status is written before anything is created: generated names must survive a crash.
        errors = yield from statuses.write(resources.RAY_JOB, ray_job, state.status)
        return writes.Done(requeue_after_ns=writes.after_seconds(state.wait), errors=errors)
    if changes:
        results = yield changes
        errors = writes.refusals(results)
    errors += yield from statuses.write(resources.RAY_JOB, ray_job, state.status)
    return writes.Done(requeue_after_ns=writes.after_seconds(state.wait), errors=errors)


def _is_valid(state: _RayJobSync) -> bool:
    """Whether a job that begins, or is to be submitted, can be; KubeRay's state if it cannot."""
    if state.phase not in ("", "New", "Running") or state.jobs:
        return True
    try:
        commands.runtime_environment(state.spec)
    except YamlError as error:
        message = f"failed to unmarshal RuntimeEnvYAML: {error}"
        state.set_phase("ValidationFailed", reason="ValidationFailed", message=message)
        return False
    return True


def _none(_state: _RayJobSync) -> list[writes.Action]:
    return []


def _new(state: _RayJobSync) -> list[writes.Action]:
    name = objects.name(state.ray_job)
    if state.spec.get("suspend"):
        state.set_phase("Suspended")
        return []
    selector = objects.nested(state.spec, "clusterSelector").get(names.CLUSTER)
    state.set_phase(
        "Initializing",
        jobId=state.spec.get("jobId") or f"{name}-{generated_names.random_suffix()}",
        rayClusterName=selector or f"{name}-raycluster-{generated_names.random_suffix()}",
        startTime=times.to_text(state.now),
    )
    return []


def _initializing(state: _RayJobSync) -> list[writes.Action]:
    if _stops(state):
        return []
    cluster = state.cluster
    if cluster is None:
        return [] if state.spec.get("clusterSelector") else [_cluster(state)]
    state.status["rayClusterStatus"] = copy.deepcopy(objects.status(cluster))
    if state.status["rayClusterStatus"].get("state") != "ready":
        return []
    host = names.head_service(state.status["rayClusterName"])
    state.set_phase("Running", dashboardURL=f"{host}.{objects.namespace(state.ray_job)}.svc.cluster.local:8265")
    return []


def _running(state: _RayJobSync) -> list[writes.Action]:
    if _stops(state):
        return []
    if state.cluster is not None:
        state.status["rayClusterStatus"] = copy.deepcopy(objects.status(state.cluster))
    if not state.jobs:
        job = _submitter(state.ray_job, state.status)
        message = f"Created Kubernetes Job {objects.namespace(state.ray_job)}/{objects.name(job)}"
        event = writes.Event(about=state.ray_job, type="Normal", reason="CreatedRayJobSubmitter", message=message)
        return [writes.Create(resource=resources.JOB, object=job), event]
    ended = job_view.finished_condition(state.jobs[0])
    if ended is None:
        is_ready = bool(objects.status(state.jobs[0]).get("ready"))
        state.status["jobStatus"] = "RUNNING" if is_ready else state.status.get("jobStatus", "PENDING")
    elif ended["type"] == "Complete":
        state.status["succeeded"] = int(state.status.get("succeeded") or 0) + 1
        state.set_phase(
            "Complete", jobStatus="SUCCEEDED", endTime=times.to_text(state.now), message="Job finished successfully."
        )
    else:
        _fail(state, "AppFailed", f"Job entrypoint command failed: {ended.get('message', '')}")
    return []


def _stops(state: _RayJobSync) -> bool:
    """Whether suspension or the deadline ends the running job."""
    if state.spec.get("suspend"):
        state.set_phase("Suspending")
        return True
    deadline = state.spec.get("activeDeadlineSeconds")
    started = times.parse_optional(state.status.get("startTime"))
    if deadline is None or started is None:
        return False
    remaining = (started + times.span(deadline) - state.now).total_seconds()
    if remaining > 0:
        state.wait = remaining
        return False
    message = f"The RayJob has passed the activeDeadlineSeconds. StartTime: {times.to_text(started)}. ActiveDeadlineSeconds: {deadline}"
    _fail(state, "DeadlineExceeded", message)
    return True


def _fail(state: _RayJobSync, reason: str, message: str) -> None:
    failed = int(state.status.get("failed") or 0) + 1
    state.status["failed"] = failed
    if reason == "AppFailed" and failed <= int(state.spec.get("backoffLimit") or 0):
        state.set_phase("Retrying")
        return
    job_status = {"jobStatus": "FAILED"} if reason == "AppFailed" else {}
    state.set_phase("Failed", reason=reason, message=message, endTime=times.to_text(state.now), **job_status)


def _deleting(state: _RayJobSync) -> list[writes.Action]:
    """Suspending and Retrying: delete the cluster and the submitter, then reset the status."""
    if not state.clusters and not state.jobs:
        phase = "Suspended" if state.phase == "Suspending" else ""
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
            state.status.pop(field, None)
        state.status["rayClusterStatus"] = {}
        state.set_phase(phase)
    return _removal(state)


def _removal(state: _RayJobSync) -> list[writes.Action]:
    return [
        writes.Delete(resource=resource, object=child)
        for resource, children in ((resources.RAY_CLUSTER, state.clusters), (resources.JOB, state.jobs))
        for child in children
        if not objects.is_deleted(child)
    ]


def _suspended(state: _RayJobSync) -> list[writes.Action]:
    if not state.spec.get("suspend"):
        state.set_phase("")
    return []


def _finished(state: _RayJobSync) -> list[writes.Action]:
    """With shutdownAfterJobFinishes, delete the cluster after ttlSecondsAfterFinished."""
    if not state.spec.get("shutdownAfterJobFinishes") or state.spec.get("clusterSelector") or not state.clusters:
        return []
    ended = times.parse_optional(state.status.get("endTime")) or state.now
    ttl = times.span(state.spec.get("ttlSecondsAfterFinished") or 0)
    remaining = (ended + ttl - state.now).total_seconds()
    if remaining > 0:
        state.wait = remaining
        return []
    return [
        writes.Delete(resource=resources.RAY_CLUSTER, object=cluster)
        for cluster in state.clusters
        if not objects.is_deleted(cluster)
    ]


def _cluster(state: _RayJobSync) -> writes.Create:
    metadata = state.ray_job["metadata"]
    cluster = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": state.status["rayClusterName"],
            "namespace": metadata["namespace"],
            "labels": names.cluster_labels(state.ray_job),
            "annotations": dict(objects.annotations(state.ray_job)),
            "ownerReferences": [objects.controller_reference(state.ray_job)],
        },
        "spec": copy.deepcopy(objects.nested(state.spec, "rayClusterSpec")) | {"suspend": False},
    }
    return writes.Create(resource=resources.RAY_CLUSTER, object=cluster)


def _submitter(ray_job: Object, status: Object) -> Object:
    """The Kubernetes Job that submits the entrypoint to the cluster and follows it to its end."""
    spec = ray_job["spec"]
    template = _submitter_template(ray_job, status["rayClusterName"])
    container = template["spec"]["containers"][0]
    if not container.get("command"):
        container["command"] = ["/bin/sh", "-c"]
        container["args"] = [commands.submit(ray_job, status["jobId"])]
    variables = container.get("env") or []
    container["env"] = [
        *commands.variables(status["rayClusterName"], "submitter"),
        {"name": "RAY_JOB_SUBMISSION_ID", "value": status["jobId"]},
        *variables,
    ]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": objects.name(ray_job),
            "namespace": objects.namespace(ray_job),
            "labels": names.origin_labels(ray_job),
            "ownerReferences": [objects.controller_reference(ray_job)],
        },
        "spec": {
            "backoffLimit": objects.nested(spec, "submitterConfig").get("backoffLimit", _DEFAULT_RETRIES),
            "template": template,
        },
    }


def _submitter_template(ray_job: Object, cluster: str) -> Object:
    spec = ray_job["spec"]
    template = copy.deepcopy(spec.get("submitterPodTemplate") or {})
    pod_spec = template.setdefault("spec", {})
    pod_spec.setdefault("restartPolicy", "Never")
    if not pod_spec.get("containers"):
        pod_spec |= _default_submitter_pod(spec)
    metadata = template.setdefault("metadata", {})
    own = {key: value for key, value in objects.annotations(ray_job).items() if key.startswith(_OWN_PREFIX)}
    annotations = ray_pods.local_annotations(objects.namespace(ray_job), cluster)
    annotations[simulated.RUNTIME] = _simulated_duration(spec)
    metadata["annotations"] = annotations | own | (metadata.get("annotations") or {})
    return template


def _default_submitter_pod(spec: Object) -> Object:
    """KubeRay's default submitter, with the volumes of the head for paths in the entrypoint."""
    head = objects.nested(spec, "rayClusterSpec", "headGroupSpec", "template", "spec")
    pod_spec = ray_pods.spec_like_head(head, "ray-job-submitter")
    pod_spec["containers"][0]["resources"] = _RESOURCES
    return pod_spec


def _simulated_duration(spec: Object) -> str:
    """How long the simulated submitter runs: as long as a `sleep` in the entrypoint."""
    seconds = simulated.seconds_of_text(spec.get("entrypoint", ""))
    return simulated.UNTIL_DELETED if seconds is None else f"{seconds:g}"


_STEPS: dict[str, Callable[[_RayJobSync], list[writes.Action]]] = {
    "": _new,
    "New": _new,
    "Initializing": _initializing,
    "Running": _running,
    "Suspending": _deleting,
    "Retrying": _deleting,
    "Suspended": _suspended,
    "Complete": _finished,
    "Failed": _finished,
}
