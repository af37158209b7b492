"""The job kinds that Kueue supports: integration name, suspend field, and default controller."""

from collections.abc import Mapping
from typing import Any

import msgspec

from pykueue.api import resources
from pykueue.api.rules import reading
from pykueue.api.scheme import Object, Resource

Path = tuple[str, ...]


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    resource: Resource
    suspend: Path = ("spec", "suspend")
    managed_by: Path = ()
    operator: str = ""
    """The value of `managed_by` that means the default controller of the kind."""
    accepts_prebuilt_workload: bool = True
    can_be_elastic: bool = False
    implies_pods: bool = False

    @property
    def webhook(self) -> str:
        return f"v{self.resource.kind.lower()}.kb.io"

    @property
    def group_version_kind(self) -> str:
        """The group, version and kind as Go prints them."""
        return f"{self.resource.api_version}, Kind={self.resource.kind}"

    def is_suspended(self, job: Object) -> bool:
        return reading.at(job, *self.suspend) is True

    def set_suspended(self, job: Object) -> None:
        set_nested(job, self.suspend, value=True)


def set_nested(job: Object, path: Path, *, value: Any) -> None:
    """Set the value at the path and create missing objects on the way.

    A value of the wrong type is left as it is, because the schema reports it.
    """
    for key in path[:-1]:
        inner = job.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        job = inner
    job[path[-1]] = value


_RUN_POLICY = ("spec", "runPolicy")
_MANAGED_BY = ("spec", "managedBy")


def _kubeflow(kind: str, *, version: str = "v1", operator: str = "training-operator", prebuilt: bool = True) -> JobKind:
    return JobKind(
        name=f"kubeflow.org/{kind.lower()}",
        resource=resources.kubeflow(kind, version),
        suspend=(*_RUN_POLICY, "suspend"),
        managed_by=(*_RUN_POLICY, "managedBy"),
        operator=f"kubeflow.org/{operator}",
        accepts_prebuilt_workload=prebuilt,
    )


def _ray(resource: Resource, suspend: Path = ("spec", "suspend")) -> JobKind:
    return JobKind(
        name=f"ray.io/{resource.kind.lower()}",
        resource=resource,
        suspend=suspend,
        managed_by=_MANAGED_BY,
        operator="ray.io/kuberay-operator",
        can_be_elastic=True,
    )


BATCH_JOB = JobKind(
    name="batch/job",
    resource=resources.JOB,
    managed_by=_MANAGED_BY,
    operator="kubernetes.io/job-controller",
    can_be_elastic=True,
)
JOB_SET = JobKind(
    name="jobset.x-k8s.io/jobset",
    resource=resources.JOB_SET,
    managed_by=_MANAGED_BY,
    operator="jobset.sigs.k8s.io/jobset-controller",
)
MPI_JOB = _kubeflow("MPIJob", version="v2beta1", operator="mpi-operator")
PYTORCH_JOB = _kubeflow("PyTorchJob")
TF_JOB = _kubeflow("TFJob")
XGBOOST_JOB = _kubeflow("XGBoostJob")
PADDLE_JOB = _kubeflow("PaddleJob")
JAX_JOB = _kubeflow("JAXJob", prebuilt=False)
RAY_JOB = _ray(resources.RAY_JOB)
RAY_CLUSTER = _ray(resources.RAY_CLUSTER)
RAY_SERVICE = _ray(resources.RAY_SERVICE, suspend=("spec", "rayClusterConfig", "suspend"))
POD = JobKind(name="pod", resource=resources.POD, suspend=())
DEPLOYMENT = JobKind(
    name="deployment",
    resource=resources.DEPLOYMENT,
    suspend=(),
    accepts_prebuilt_workload=False,
    implies_pods=True,
)
STATEFUL_SET = JobKind(
    name="statefulset",
    resource=resources.STATEFUL_SET,
    suspend=(),
    accepts_prebuilt_workload=False,
    implies_pods=True,
)
TRAIN_JOB = JobKind(
    name="trainer.kubeflow.org/trainjob",
    resource=resources.TRAIN_JOB,
    managed_by=_MANAGED_BY,
    operator="trainer.kubeflow.org/trainjob-controller",
)
APP_WRAPPER = JobKind(
    name="workload.codeflare.dev/appwrapper",
    resource=resources.APP_WRAPPER,
    managed_by=_MANAGED_BY,
    operator="workload.codeflare.dev/appwrapper-controller",
)
SPARK_APPLICATION = JobKind(
    name="sparkoperator.k8s.io/sparkapplication",
    resource=resources.SPARK_APPLICATION,
    accepts_prebuilt_workload=False,
)
LEADER_WORKER_SET = JobKind(
    name="leaderworkerset.x-k8s.io/leaderworkerset",
    resource=resources.LEADER_WORKER_SET,
    suspend=(),
    accepts_prebuilt_workload=False,
    implies_pods=True,
)

JOB_KINDS: Mapping[str, JobKind] = {
    job_kind.name: job_kind
    for job_kind in (
        BATCH_JOB,
        JOB_SET,
        MPI_JOB,
        PYTORCH_JOB,
        TF_JOB,
        XGBOOST_JOB,
        PADDLE_JOB,
        JAX_JOB,
        RAY_JOB,
        RAY_CLUSTER,
        RAY_SERVICE,
        POD,
        DEPLOYMENT,
        STATEFUL_SET,
        TRAIN_JOB,
        APP_WRAPPER,
        SPARK_APPLICATION,
        LEADER_WORKER_SET,
    )
}
_BY_KIND = {(job_kind.resource.group, job_kind.resource.kind): job_kind for job_kind in JOB_KINDS.values()}


def of_owner(api_version: str, kind: str) -> JobKind | None:
    """The job kind of an owner reference, in any version."""
    group, slash, _ = api_version.rpartition("/")
    return _BY_KIND.get((group if slash else "", kind))


def external(kind_version_group: str) -> Resource:
    """The resource of an external framework, which is written as Kind.v1.example.com."""
    kind, version, group = kind_version_group.split(".", 2)
    return Resource(group, version, f"{kind.lower()}s", kind, namespaced=True)
