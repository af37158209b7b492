"""trainer.kubeflow.org TrainJob: a runtime makes it a JobSet, so it is read as that JobSet.

Its templates stand in the runtime; what an admission gives goes into a runtime patch of Kueue's own, which the Trainer's webhook
lets nobody change while the job runs.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pykueue.api.scheme import Object, Resource
from pykueue.translate.jobs import job_set, training_runtime
from pykueue.translate.jobs.framework import (
    JobDependency,
    JobFramework,
    JobOptions,
    JobResult,
    MissingDependencyError,
    ObjectReference,
    PodSetTemplate,
    finished_by_condition,
    value_at,
)
from pykueue.translate.pod_set_info import PodSetInfo

_GROUP, _VERSION = "trainer.kubeflow.org", "v1alpha1"
RUNTIME = Resource(_GROUP, _VERSION, "trainingruntimes", "TrainingRuntime", namespaced=True)
CLUSTER_RUNTIME = Resource(_GROUP, _VERSION, "clustertrainingruntimes", "ClusterTrainingRuntime", namespaced=False)
_JOB_SET = job_set.FRAMEWORK


def _reference(job: Object) -> ObjectReference | None:
    found = job["spec"].get("runtimeRef") or {}
    name = str(found.get("name", ""))
    if found.get("apiGroup", _GROUP) != _GROUP:
        return None
    match found.get("kind", CLUSTER_RUNTIME.kind):
        case CLUSTER_RUNTIME.kind:
            return ObjectReference(resource=CLUSTER_RUNTIME, name=name)
        case RUNTIME.kind:
            return ObjectReference(resource=RUNTIME, name=name, namespace=job["metadata"]["namespace"])
    return None


def _given(runtime: Object | None) -> JobFramework:
    """TrainJobs of this runtime; None if it is not there."""
    if runtime is None:
        return FRAMEWORK
    return replace(
        FRAMEWORK,
        places=partial(_places, runtime=runtime),
        pods_ready=lambda job: _JOB_SET.pods_ready(_as_job_set(job, runtime)),
        reclaimable=lambda job: _JOB_SET.reclaimable(_as_job_set(job, runtime)),
    )


def _as_job_set(job: Object, runtime: Object) -> Object:
    return {
        "spec": {"replicatedJobs": training_runtime.replicated_jobs(job, runtime)},
        "status": _status_as_job_set(job)["status"],
    }


def _status_as_job_set(job: Object) -> Object:
    return {"status": {"replicatedJobsStatus": (job.get("status") or {}).get("jobsStatus") or []}}


def _places(job: Object, options: JobOptions, *, runtime: Object) -> list[PodSetTemplate]:
    """Without a path into the job itself: see `inject`."""
    rendered = _as_job_set(job, runtime)
    return [
        replace(place, template=value_at(rendered, place.template_path)) for place in _JOB_SET.places(rendered, options)
    ]


def _unknown_places(job: Object, _options: JobOptions) -> list[PodSetTemplate]:
    raise MissingDependencyError(f"runtime '{(job['spec'].get('runtimeRef') or {}).get('name', '')}' not found")


def _own_patch(job: Object) -> Object:
    """Where the patch has its replicated jobs; made by the rules when the job is created."""
    patches: list[Object] = job["spec"].setdefault("runtimePatches", [])
    patch = next((each for each in patches if each.get("manager") == training_runtime.MANAGER), None)
    if patch is None:
        patch = {"manager": training_runtime.MANAGER}
        patches.append(patch)
    for step in ("trainingRuntimeSpec", "template", "spec"):
        patch = patch.setdefault(step, {})
    return patch


def _inject(job: Object, _places: Sequence[PodSetTemplate], infos: Sequence[PodSetInfo]) -> None:
    _own_patch(job)["replicatedJobs"] = [
        {"name": info.name, "template": {"spec": {"template": _pod_template(info)}}} for info in infos
    ]


def _pod_template(info: PodSetInfo) -> Object:
    metadata = {"annotations": dict(info.annotations), "labels": dict(info.labels)}
    spec = {
        "nodeSelector": dict(info.node_selector),
        "tolerations": list(info.tolerations),
        "schedulingGates": list(info.scheduling_gates),
    }
    return {
        "metadata": {name: value for name, value in metadata.items() if value},
        "spec": {name: value for name, value in spec.items() if value},
    }


def _eject(job: Object, _places: Sequence[PodSetTemplate], _infos: Sequence[PodSetInfo]) -> None:
    _own_patch(job).pop("replicatedJobs", None)


def _finished(job: Object) -> JobResult | None:
    return finished_by_condition(job, "Complete", "Failed")


FRAMEWORK = JobFramework(
    name="trainer.kubeflow.org/trainjob",
    resource=Resource(_GROUP, _VERSION, "trainjobs", "TrainJob", namespaced=True),
    suspend_path=("spec", "suspend"),
    places=_unknown_places,
    finished=_finished,
    is_active=lambda job: _JOB_SET.is_active(_status_as_job_set(job)),
    pods_ready=lambda _job: False,
    inject=_inject,
    eject=_eject,
    changes_while_suspended=True,
    dependency=JobDependency(resources=(CLUSTER_RUNTIME, RUNTIME), reference=_reference, given=_given),
)
"""As it is without a runtime: nobody knows its pods."""
