"""The configuration for whoever gives none: job kinds as Kueue's release manifests enable them, and Kubeflow's too.

A job without a queue is left alone in any case, so that more kinds cost nothing. `pykueue up` and `pykueue controller` start with it.
"""

from pykueue.api.scheme import Object

FRAMEWORKS = (
    "batch/job",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/jaxjob",
    "kubeflow.org/mpijob",
    "kubeflow.org/paddlejob",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "ray.io/raycluster",
    "ray.io/rayjob",
    "ray.io/rayservice",
    "pod",
    "deployment",
    "statefulset",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "trainer.kubeflow.org/trainjob",
)


def document() -> Object:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "integrations": {"frameworks": list(FRAMEWORKS)},
    }
