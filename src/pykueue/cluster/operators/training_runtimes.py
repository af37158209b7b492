"""What an installation of Kubeflow Trainer brings besides its controller: the runtimes of common
frameworks, and the ConfigMap in which the Kubeflow SDK looks for the version.

Runtimes that a user has changed stay as they are. MPI and its runtimes are not there: the
embedded cluster has no MPI for TrainJobs.
"""

from pykueue.api import resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.kube.client import Client

NAMESPACE = "kubeflow-system"
TRAINER_VERSION = "v2.1.0"
"""The version whose API the embedded cluster has."""
_CONFIG_MAP = "kubeflow-trainer-public"
_FRAMEWORKS: dict[str, tuple[str, Object, str]] = {
    "torch-distributed": ("torch", {"torch": {}}, "pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime"),
    "jax-distributed": ("jax", {"jax": {}}, "nvcr.io/nvidia/jax:25.10-py3"),
    "plainml-distributed": ("plainml", {}, "python:3.12"),
}
"""Framework, machine learning policy and image of each runtime."""


def runtime(name: str) -> Object:
    framework, policy, image = _FRAMEWORKS[name]
    pod_template = {"spec": {"containers": [{"name": "node", "image": image}]}}
    job_template = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": pod_template},
    }
    return {
        "apiVersion": resources.CLUSTER_TRAINING_RUNTIME.api_version,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": framework}},
        "spec": {
            "mlPolicy": {"numNodes": 1} | policy,
            "template": {"spec": {"replicatedJobs": [{"name": "node", "template": job_template}]}},
        },
    }


async def ensure(client: Client) -> None:
    """Create the namespace, the ConfigMap and the runtimes that do not exist yet."""
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _CONFIG_MAP, "namespace": NAMESPACE},
        "data": {"kubeflow_trainer_version": TRAINER_VERSION},
    }
    installed = [
        (resources.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, ""),
        (resources.CONFIG_MAP, config_map, NAMESPACE),
        *((resources.CLUSTER_TRAINING_RUNTIME, runtime(name), "") for name in _FRAMEWORKS),
    ]
    for resource, obj, namespace in installed:
        try:
            await client.create(resource, obj, namespace)
        except ApiError as error:
            if error.code != 409:
                raise
