"""kubeflow.org jobs (PyTorchJob, TFJob, XGBoostJob, PaddleJob, JAXJob and MPIJob): one pod set a replica type.

They differ only in the name of the replica specs and in the order of replica types.
"""

from functools import partial

from pykueue.api.scheme import Object, Resource
from pykueue.translate.jobs.framework import (
    JobFramework,
    JobOptions,
    JobResult,
    Path,
    PodSetTemplate,
    condition_true,
    finished_by_condition,
    value_at,
)

REPLICA_INDEX = "training.kubeflow.org/replica-index"


def _places(job: Object, _options: JobOptions, *, specs: str, order: tuple[str, ...]) -> list[PodSetTemplate]:
    replicas = job["spec"].get(specs) or {}
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
    statuses = (job.get("status") or {}).get("replicaStatuses") or {}
    return any((status or {}).get("active") for status in statuses.values())


def _pods_ready(job: Object) -> bool:
    return condition_true(job, "Running") is not None


def _priority_class(job: Object, *, specs: str, order: tuple[str, ...]) -> str:
    policy: Path = ("spec", "runPolicy", "schedulingPolicy", "priorityClass")
    chosen = value_at(job, policy)
    for replica_type in order:
        chosen = chosen or value_at(job, ("spec", specs, replica_type, "template", "spec", "priorityClassName"))
    return str(chosen or "")


def _framework(kind: str, version: str, specs: str, order: tuple[str, ...]) -> JobFramework:
    return JobFramework(
        name=f"kubeflow.org/{kind.lower()}",
        resource=Resource("kubeflow.org", version, f"{kind.lower()}s", kind, namespaced=True),
        suspend_path=("spec", "runPolicy", "suspend"),
        places=partial(_places, specs=specs, order=order),
        finished=_finished,
        is_active=_is_active,
        pods_ready=_pods_ready,
        priority_class=partial(_priority_class, specs=specs, order=order),
    )


FRAMEWORKS = (
    _framework("PyTorchJob", "v1", "pytorchReplicaSpecs", ("Master", "Worker")),
    _framework("TFJob", "v1", "tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator")),
    _framework("XGBoostJob", "v1", "xgbReplicaSpecs", ("Master", "Worker")),
    _framework("PaddleJob", "v1", "paddleReplicaSpecs", ("Master", "Worker")),
    _framework("JAXJob", "v1", "jaxReplicaSpecs", ("Worker",)),
    _framework("MPIJob", "v2beta1", "mpiReplicaSpecs", ("Launcher", "Worker")),
)
