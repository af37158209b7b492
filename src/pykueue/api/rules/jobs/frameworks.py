"""The job kinds that Kueue knows: name of the integration, where a job is suspended, and who runs it by default."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pykueue.api.rules import reading
from pykueue.api.scheme import Object, Resource

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    name: str
    resource: Resource
    suspend: Path = ("spec", "suspend")
    managed_by: Path = ()
    operator: str = ""
    """The value of `managed_by` that means the kind's own controller."""
    accepts_prebuilt_workload: bool = True
    can_be_elastic: bool = False
    implies_pods: bool = False

    @property
    def webhook(self) -> str:
        return f"v{self.resource.kind.lower()}.kb.io"

    @property
    def group_version_kind(self) -> str:
        """As Go prints it."""
        return f"{self.resource.api_version}, Kind={self.resource.kind}"

    def is_suspended(self, job: Object) -> bool:
        return reading.at(job, *self.suspend) is True

    def set_suspended(self, job: Object) -> None:
        put(job, self.suspend, value=True)


def put(job: Object, path: Path, *, value: Any) -> None:
    """Set a value, making the objects on the way; a part of the wrong type is left to the schema's complaint."""
    for key in path[:-1]:
        inner = job.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        job = inner
    job[path[-1]] = value


_RUN_POLICY = ("spec", "runPolicy")
_MANAGED_BY = ("spec", "managedBy")


def _kubeflow(
    kind: str, *, version: str = "v1", operator: str = "training-operator", prebuilt: bool = True
) -> Framework:
    return Framework(
        name=f"kubeflow.org/{kind.lower()}",
        resource=Resource("kubeflow.org", version, f"{kind.lower()}s", kind, namespaced=True),
        suspend=(*_RUN_POLICY, "suspend"),
        managed_by=(*_RUN_POLICY, "managedBy"),
        operator=f"kubeflow.org/{operator}",
        accepts_prebuilt_workload=prebuilt,
    )


def _ray(kind: str, suspend: Path = ("spec", "suspend")) -> Framework:
    return Framework(
        name=f"ray.io/{kind.lower()}",
        resource=Resource("ray.io", "v1", f"{kind.lower()}s", kind, namespaced=True),
        suspend=suspend,
        managed_by=_MANAGED_BY,
        operator="ray.io/kuberay-operator",
        can_be_elastic=True,
    )


BATCH_JOB = Framework(
    name="batch/job",
    resource=Resource("batch", "v1", "jobs", "Job", namespaced=True),
    managed_by=_MANAGED_BY,
    operator="kubernetes.io/job-controller",
    can_be_elastic=True,
)
JOB_SET = Framework(
    name="jobset.x-k8s.io/jobset",
    resource=Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", namespaced=True),
    managed_by=_MANAGED_BY,
    operator="jobset.sigs.k8s.io/jobset-controller",
)
MPI_JOB = _kubeflow("MPIJob", version="v2beta1", operator="mpi-operator")
PYTORCH_JOB = _kubeflow("PyTorchJob")
TF_JOB = _kubeflow("TFJob")
XGBOOST_JOB = _kubeflow("XGBoostJob")
PADDLE_JOB = _kubeflow("PaddleJob")
JAX_JOB = _kubeflow("JAXJob", prebuilt=False)
RAY_JOB = _ray("RayJob")
RAY_CLUSTER = _ray("RayCluster")
RAY_SERVICE = _ray("RayService", suspend=("spec", "rayClusterConfig", "suspend"))
POD = Framework(name="pod", resource=Resource("", "v1", "pods", "Pod", namespaced=True), suspend=())
DEPLOYMENT = Framework(
    name="deployment",
    resource=Resource("apps", "v1", "deployments", "Deployment", namespaced=True),
    suspend=(),
    accepts_prebuilt_workload=False,
    implies_pods=True,
)
STATEFUL_SET = Framework(
    name="statefulset",
    resource=Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True),
    suspend=(),
    accepts_prebuilt_workload=False,
    implies_pods=True,
)
TRAIN_JOB = Framework(
    name="trainer.kubeflow.org/trainjob",
    resource=Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob", namespaced=True),
    managed_by=_MANAGED_BY,
    operator="trainer.kubeflow.org/trainjob-controller",
)
APP_WRAPPER = Framework(
    name="workload.codeflare.dev/appwrapper",
    resource=Resource("workload.codeflare.dev", "v1beta2", "appwrappers", "AppWrapper", namespaced=True),
    managed_by=_MANAGED_BY,
    operator="workload.codeflare.dev/appwrapper-controller",
)
SPARK_APPLICATION = Framework(
    name="sparkoperator.k8s.io/sparkapplication",
    resource=Resource("sparkoperator.k8s.io", "v1beta2", "sparkapplications", "SparkApplication", namespaced=True),
    accepts_prebuilt_workload=False,
)
LEADER_WORKER_SET = Framework(
    name="leaderworkerset.x-k8s.io/leaderworkerset",
    resource=Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", namespaced=True),
    suspend=(),
    accepts_prebuilt_workload=False,
    implies_pods=True,
)

FRAMEWORKS: Mapping[str, Framework] = {
    framework.name: framework
    for framework in (
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
_BY_KIND = {(each.resource.group, each.resource.kind): each for each in FRAMEWORKS.values()}


def of_owner(api_version: str, kind: str) -> Framework | None:
    """The framework of an owner reference; versions of one group are one kind."""
    group, slash, _ = api_version.rpartition("/")
    return _BY_KIND.get((group if slash else "", kind))
