"""kubeflow.org jobs (PyTorchJob, TFJob, XGBoostJob, PaddleJob,
JAXJob and MPIJob): one pod set for each replica type.

They differ only in the name of the replica specs and in the order of replica types.
"""

from functools import partial

from pykueue.api import conditions, objects
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object
from pykueue.translate.jobs.framework import (
    JobFramework,
    JobOptions,
    JobResult,
    Path,
    PodSetTemplate,
    finished_by_condition,
    value_at,
)

REPLICA_INDEX = "training.kubeflow.org/replica-index"


def _pod_set_templates(
    job: Object, _options: JobOptions, *, specs: str, order: tuple[str, ...]
) -> list[PodSetTemplate]:
    replicas = objects.spec(job).get(specs) or {}
    return [
        PodSetTemplate(
            name=replica_type.lower(),
            template_path=("spec", specs, replica_type, "template"),
            count=int(replicas[replica_type].get("replicas", 1)),
            pod_index_label=REPLICA_INDEX,
        )
        for replica_type in order
        if replicas.get(replica_type) is not None
    ]


def _finished(job: Object) -> JobResult | None:
    return finished_by_condition(job, "Succeeded", "Failed")


def _is_active(job: Object) -> bool:
    statuses = objects.nested(job, "status", "replicaStatuses")
    return any((status or {}).get("active") for status in statuses.values())


def _pods_ready(job: Object) -> bool:
    return conditions.is_true(job, "Running")


def _priority_class(job: Object, *, specs: str, order: tuple[str, ...]) -> str:
    policy: Path = ("spec", "runPolicy", "schedulingPolicy", "priorityClass")
    name = value_at(job, policy)
    for replica_type in order:
        name = name or value_at(job, ("spec", specs, replica_type, "template", "spec", "priorityClassName"))
    return str(name or "")


def _framework(description: job_kinds.JobKind, specs: str, order: tuple[str, ...]) -> JobFramework:
    return JobFramework(
        description=description,
        pod_set_templates=partial(_pod_set_templates, specs=specs, order=order),
        finished=_finished,
        is_active=_is_active,
        pods_ready=_pods_ready,
        priority_class=partial(_priority_class, specs=specs, order=order),
    )


FRAMEWORKS = (
    _framework(job_kinds.PYTORCH_JOB, "pytorchReplicaSpecs", ("Master", "Worker")),
    _framework(job_kinds.TF_JOB, "tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator")),
    _framework(job_kinds.XGBOOST_JOB, "xgbReplicaSpecs", ("Master", "Worker")),
    _framework(job_kinds.PADDLE_JOB, "paddleReplicaSpecs", ("Master", "Worker")),
    _framework(job_kinds.JAX_JOB, "jaxReplicaSpecs", ("Worker",)),
    _framework(job_kinds.MPI_JOB, "mpiReplicaSpecs", ("Launcher", "Worker")),
)
