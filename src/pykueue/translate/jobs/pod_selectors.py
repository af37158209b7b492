"""How to select the pods of a job: every operator sets labels of its own.

Used by `pykueue list pods` and by explanations.
"""

from collections.abc import Callable

from pykueue.api import objects
from pykueue.api.scheme import Object


def _by_label(key: str) -> Callable[[Object], str]:
    return lambda job: f"{key}={objects.name(job)}"


def _training(job: Object) -> str:
    name, operator = objects.name(job), f"{job['kind'].lower()}-controller"
    return f"training.kubeflow.org/job-name={name},training.kubeflow.org/operator-name={operator}"


def _mpi(job: Object) -> str:
    name = objects.name(job)
    return f"training.kubeflow.org/job-name={name},training.kubeflow.org/operator-name=mpi-operator"


def _ray_job(job: Object) -> str:
    cluster = objects.status(job).get("rayClusterName")
    return f"ray.io/cluster={cluster}" if cluster else ""


def _ray_service(service: Object) -> str:
    cluster = objects.nested(service, "status", "activeServiceStatus").get("rayClusterName")
    return f"ray.io/cluster={cluster}" if cluster else ""


def _pod_group(pod: Object) -> str:
    key = "kueue.x-k8s.io/pod-group-name"
    return f"{key}={objects.labels(pod).get(key, '')}"


SELECTORS: dict[tuple[str, str], Callable[[Object], str]] = {
    ("batch", "Job"): _by_label("batch.kubernetes.io/job-name"),
    ("", "Pod"): _pod_group,
    ("jobset.x-k8s.io", "JobSet"): _by_label("jobset.sigs.k8s.io/jobset-name"),
    ("trainer.kubeflow.org", "TrainJob"): _by_label("jobset.sigs.k8s.io/jobset-name"),
    ("ray.io", "RayCluster"): _by_label("ray.io/cluster"),
    ("ray.io", "RayJob"): _ray_job,
    ("ray.io", "RayService"): _ray_service,
    ("sparkoperator.k8s.io", "SparkApplication"): _by_label("sparkoperator.k8s.io/app-name"),
    ("kubeflow.org", "MPIJob"): _mpi,
    **{("kubeflow.org", kind): _training for kind in ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob")},
}


def of_job(job: Object) -> str:
    """The label selector of the job's pods; empty if the kind has none."""
    group = str(job["apiVersion"]).rpartition("/")[0]
    selector_of = SELECTORS.get((group, job["kind"]))
    return "" if selector_of is None else selector_of(job)
