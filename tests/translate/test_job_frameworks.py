import pytest

from pykueue.translate.jobs import registry
from pykueue.translate.jobs.framework import JobOptions, pod_sets, restored, started
from pykueue.translate.pod_set_info import PodSetInfo, from_pod_set

TEMPLATE = {"spec": {"containers": [{"name": "c"}]}}


def ray_cluster(**spec):
    workers = [{"groupName": "Small", "replicas": 2, "numOfHosts": 3, "template": TEMPLATE}]
    return {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": workers, **spec}


def ray_job(**spec):
    return {"metadata": {}, "spec": {"rayClusterSpec": ray_cluster(), "submissionMode": "K8sJobMode", **spec}}


def names(framework, job, options=None):
    sets = pod_sets(registry.FRAMEWORKS[framework], job, options or JobOptions())
    return [(pod_set["name"], pod_set["count"]) for pod_set in sets]


def test_ray_worker_groups_count_their_hosts():
    assert names("ray.io/raycluster", {"metadata": {}, "spec": ray_cluster()}) == [("head", 1), ("small", 6)]


def test_the_default_submitter_of_a_ray_job_is_not_counted():
    assert names("ray.io/rayjob", ray_job()) == [("head", 1), ("small", 6)]


def test_the_default_submitter_is_counted_when_so_configured():
    assert names("ray.io/rayjob", ray_job(), JobOptions(count_default_submitter=True))[-1] == ("submitter", 1)


def test_a_described_submitter_is_counted():
    assert names("ray.io/rayjob", ray_job(submitterPodTemplate=TEMPLATE))[-1] == ("submitter", 1)


def test_a_submitter_beside_the_head_is_counted_with_it():
    head = pod_sets(registry.FRAMEWORKS["ray.io/rayjob"], ray_job(submissionMode="SidecarMode"), JobOptions())[0]
    submitter = head["template"]["spec"]["containers"][-1]
    assert (submitter["name"], submitter["resources"]["requests"]["cpu"]) == ("ray-job-submitter", "500m")


def test_the_autoscaler_is_counted_with_the_head():
    job = {"metadata": {}, "spec": ray_cluster(enableInTreeAutoscaling=True)}
    head = pod_sets(registry.FRAMEWORKS["ray.io/raycluster"], job, JobOptions())[0]
    assert [container["name"] for container in head["template"]["spec"]["containers"]] == ["c", "autoscaler"]


def test_replica_types_keep_their_order():
    specs = {"Worker": {"replicas": 3, "template": TEMPLATE}, "Chief": {"template": TEMPLATE}}
    job = {"metadata": {}, "spec": {"tfReplicaSpecs": specs}}
    assert names("kubeflow.org/tfjob", job) == [("chief", 1), ("worker", 3)]


def test_labels_of_the_job_controller_are_not_copied():
    labels = {"controller-uid": "u", "batch.kubernetes.io/job-name": "a", "mine": "yes"}
    job = {"metadata": {}, "spec": {"template": {"metadata": {"labels": labels}, "spec": {}}}}
    [pod_set] = pod_sets(registry.FRAMEWORKS["batch/job"], job, JobOptions())
    assert set(pod_set["template"]["metadata"]["labels"]) == {"batch.kubernetes.io/job-name", "mine"}


@pytest.mark.parametrize("framework", ["ray.io/rayjob", "batch/job"])
def test_what_was_injected_is_taken_out_again(framework):
    kind = registry.FRAMEWORKS[framework]
    job = ray_job() if framework == "ray.io/rayjob" else {"metadata": {}, "spec": {"template": TEMPLATE}}
    before = pod_sets(kind, job, JobOptions())
    running = started(kind, job, [PodSetInfo(node_selector={"a": "b"})] * len(before), JobOptions())
    assert pod_sets(kind, running, JobOptions()) != before
    back = restored(kind, running, [from_pod_set(pod_set) for pod_set in before], JobOptions())
    assert [pod_set["template"]["spec"] for pod_set in pod_sets(kind, back, JobOptions())] == [
        pod_set["template"]["spec"] for pod_set in before
    ]
