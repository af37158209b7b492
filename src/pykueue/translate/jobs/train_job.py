"""trainer.kubeflow.org TrainJob: the Trainer turns it into a JobSet, so it is read as that JobSet.

Its templates are in the runtime that it refers to. The pod set infos of an admission go into
Kueue's own runtime patch, which the Trainer's webhook does not allow to change while the job runs.
"""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from pykueue.api import objects
from pykueue.api.resources import CLUSTER_TRAINING_RUNTIME, TRAINING_RUNTIME
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object
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

_JOB_SET = job_set.FRAMEWORK


def _reference(job: Object) -> ObjectReference | None:
    reference = objects.nested(job, "spec", "runtimeRef")
    name = str(reference.get("name", ""))
    if reference.get("apiGroup", TRAINING_RUNTIME.group) != TRAINING_RUNTIME.group:
        return None
    match reference.get("kind", CLUSTER_TRAINING_RUNTIME.kind):
        case CLUSTER_TRAINING_RUNTIME.kind:
            return ObjectReference(resource=CLUSTER_TRAINING_RUNTIME, name=name)
        case TRAINING_RUNTIME.kind:
            return ObjectReference(resource=TRAINING_RUNTIME, name=name, namespace=job["metadata"]["namespace"])
    return None


def _framework_for(runtime: Object | None) -> JobFramework:
    """The framework for TrainJobs of this runtime (None: it does not exist)."""
    if runtime is None:
        return FRAMEWORK
    return replace(
        FRAMEWORK,
        pod_set_templates=partial(_pod_set_templates, runtime=runtime),
        pods_ready=lambda job: _JOB_SET.pods_ready(_as_job_set(job, runtime)),
        reclaimable=lambda job: _JOB_SET.reclaimable(_as_job_set(job, runtime)),
    )


def _as_job_set(job: Object, runtime: Object) -> Object:
    return {
        "spec": {"replicatedJobs": training_runtime.replicated_jobs(job, runtime)},
        "status": _status_as_job_set(job)["status"],
    }


def _status_as_job_set(job: Object) -> Object:
    return {"status": {"replicatedJobsStatus": objects.status(job).get("jobsStatus") or []}}


def _pod_set_templates(job: Object, options: JobOptions, *, runtime: Object) -> list[PodSetTemplate]:
    """The templates of the JobSet; they have no path in the TrainJob itself."""
    rendered = _as_job_set(job, runtime)
    return [
        replace(template, template=value_at(rendered, template.template_path))
        for template in _JOB_SET.pod_set_templates(rendered, options)
    ]


def _missing_runtime(job: Object, _options: JobOptions) -> list[PodSetTemplate]:
    raise MissingDependencyError(f"runtime '{objects.nested(job, 'spec', 'runtimeRef').get('name', '')}' not found")


def _kueue_patch(job: Object) -> Object:
    """The JobSet spec in Kueue's runtime patch, which the admission rules add."""
    patches: list[Object] = job["spec"].setdefault("runtimePatches", [])
    patch = next((candidate for candidate in patches if candidate.get("manager") == training_runtime.MANAGER), None)
    if patch is None:
        patch = {"manager": training_runtime.MANAGER}
        patches.append(patch)
    for step in ("trainingRuntimeSpec", "template", "spec"):
        patch = patch.setdefault(step, {})
    return patch


def _inject(job: Object, _templates: Sequence[PodSetTemplate], infos: Sequence[PodSetInfo]) -> None:
    _kueue_patch(job)["replicatedJobs"] = [
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


def _eject(job: Object, _templates: Sequence[PodSetTemplate], _infos: Sequence[PodSetInfo]) -> None:
    _kueue_patch(job).pop("replicatedJobs", None)


def _finished(job: Object) -> JobResult | None:
    return finished_by_condition(job, "Complete", "Failed")


FRAMEWORK = JobFramework(
    description=job_kinds.TRAIN_JOB,
    pod_set_templates=_missing_runtime,
    finished=_finished,
    is_active=lambda job: _JOB_SET.is_active(_status_as_job_set(job)),
    pods_ready=lambda _job: False,
    inject=_inject,
    eject=_eject,
    changes_while_suspended=True,
    dependency=JobDependency(
        resources=(CLUSTER_TRAINING_RUNTIME, TRAINING_RUNTIME), reference=_reference, framework_for=_framework_for
    ),
)
"""The framework without a runtime: its pod sets are unknown."""
