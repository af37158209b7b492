"""Whatever a template of any job kind says, its Workload counts at least what its pods request."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykueue.api import resource_lists
from pykueue.translate import requests, workload
from pykueue.translate.jobs import registry
from pykueue.translate.jobs.framework import JobOptions, pod_sets
from pykueue.translate.requests import RequestRules

AMOUNTS = st.sampled_from(["-1000", "-1900m", "-1", "0", "10m", "1", "2", "100"])
LISTS = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), AMOUNTS, max_size=3)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": LISTS, "limits": LISTS})
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": st.just("c")}, optional={"resources": RESOURCES}), min_size=1, max_size=2
)
INIT_CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.just("i")}, optional={"resources": RESOURCES, "restartPolicy": st.just("Always")}
    ),
    max_size=2,
)
POD_SPECS = st.fixed_dictionaries(
    {"containers": CONTAINERS},
    optional={"initContainers": INIT_CONTAINERS, "resources": RESOURCES, "overhead": LISTS},
)


def kubeflow(field, *roles):
    return lambda template: {field: {role: {"replicas": 2, "template": template} for role in roles}}


def ray_cluster(template):
    workers = [{"groupName": "w", "replicas": 2, "template": template}]
    return {"headGroupSpec": {"template": template}, "workerGroupSpecs": workers}


JOBS = {
    "batch/job": lambda template: {"parallelism": 2, "template": template},
    "jobset.x-k8s.io/jobset": lambda template: {
        "replicatedJobs": [{"name": "a", "replicas": 2, "template": {"spec": {"template": template}}}]
    },
    "kubeflow.org/pytorchjob": kubeflow("pytorchReplicaSpecs", "Master", "Worker"),
    "kubeflow.org/tfjob": kubeflow("tfReplicaSpecs", "Chief", "Worker"),
    "kubeflow.org/xgboostjob": kubeflow("xgbReplicaSpecs", "Master", "Worker"),
    "kubeflow.org/paddlejob": kubeflow("paddleReplicaSpecs", "Master", "Worker"),
    "kubeflow.org/jaxjob": kubeflow("jaxReplicaSpecs", "Worker"),
    "kubeflow.org/mpijob": kubeflow("mpiReplicaSpecs", "Launcher", "Worker"),
    "ray.io/raycluster": ray_cluster,
    "ray.io/rayjob": lambda template: {
        "rayClusterSpec": ray_cluster(template),
        "submissionMode": "K8sJobMode",
        "submitterPodTemplate": template,
    },
    "ray.io/rayservice": lambda template: {"rayClusterConfig": ray_cluster(template)},
    "leaderworkerset.x-k8s.io/leaderworkerset": lambda template: {
        "replicas": 2,
        "leaderWorkerTemplate": {"size": 2, "leaderTemplate": template, "workerTemplate": template},
    },
}


def magnitude(spec):
    """What the containers request at least: negative amounts as nothing, others as they are."""
    bare = {"containers": copy.deepcopy(spec["containers"])}
    for container in bare["containers"]:
        own = container.get("resources", {}).get("requests", {})
        container["resources"] = {"requests": {name: text for name, text in own.items() if not text.startswith("-")}}
    return {name: resource_lists.amount(name, value) for name, value in resource_lists.pod_requests(bare).items()}


@pytest.mark.parametrize("name", JOBS)
@settings(max_examples=60, deadline=None)
@given(spec=POD_SPECS)
def test_no_amount_lowers_what_is_counted(name, spec):
    job = {"metadata": {"name": "j"}, "spec": JOBS[name]({"spec": spec})}
    framework = registry.FRAMEWORKS.get(name)
    if framework is None or not framework.pod_set_templates(job, JobOptions()):
        sets = [{"name": "main", "count": 2, "template": {"spec": spec}}]
    else:
        sets = pod_sets(framework, job, JobOptions())
    obj = {"metadata": {"name": "w", "namespace": "ns"}, "spec": {"podSets": sets}}
    adjusted = requests.adjusted(obj, runtime_classes={}, limit_ranges=())
    counted = requests.requests_of_pod_sets(adjusted, RequestRules())
    least = magnitude(spec)
    for pod_set in counted:
        assert all(amount >= 0 for amount in pod_set.requests.values())
        for resource, amount in least.items():
            assert pod_set.requests.get(resource, 0) >= amount * pod_set.count
    has_negative = any(text.startswith("-") for text in _texts(spec))
    assert (workload.invalid_requests(adjusted, {}) is not None) >= has_negative


def _texts(value):
    if isinstance(value, str):
        return [value]
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for child in children for text in _texts(child)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"overhead": {"cpu": "-1900m"}}, "overhead[cpu]"),
        ({"resources": {"requests": {"cpu": "10m"}}}, "aggregate container requests of 100"),
        ({"initContainers": [{"name": "i", "resources": {"limits": {"memory": "-1"}}}]}, "initContainers[0]"),
    ],
)
def test_an_understated_request_is_a_fault_of_the_workload(fields, expected):
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100"}}}]} | fields
    obj = {"metadata": {}, "spec": {"podSets": [{"name": "main", "count": 1, "template": {"spec": spec}}]}}
    assert expected in workload.invalid_requests(obj, {}).field_errors
    [pod_set] = requests.requests_of_pod_sets(obj, RequestRules())
    assert pod_set.requests["cpu"] >= 100_000
