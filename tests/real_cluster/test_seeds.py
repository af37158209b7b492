"""Published tutorials on a cluster with a controller in a process of its own."""

from pathlib import Path

import pytest
from tests.e2e.conftest import CONFIGURATION
from tests.e2e.controller_process import wait_for
from tests.e2e.external_cluster import EXTERNAL_KUBECONFIG

SEEDS = Path(__file__).parents[1] / "seeds"


@pytest.fixture
def cluster(cluster):
    """With a controller; the tutorials say where things go."""
    cluster.start_leader(**CONFIGURATION)
    cluster.kubectl = cluster.kubectl.everywhere()
    return cluster


def apply(cluster, *prefixes):
    for path in (path for prefix in prefixes for path in sorted(SEEDS.glob(f"{prefix}*"))):
        cluster.kubectl("apply", "-f", str(path))


def is_suspended(cluster, kind, name, namespace):
    spec = cluster.kubectl.json("get", kind, name, "--namespace", namespace)["spec"]
    return bool(spec.get("suspend", spec.get("runPolicy", {}).get("suspend", False)))


def runs(cluster, kind, name, namespace):
    wait_for(lambda: not is_suspended(cluster, kind, name, namespace), f"{kind} {name} runs")


def test_a_team_takes_its_quota_back(cluster):
    """Team B borrows, team A needs its own: B's job is suspended again and A's runs."""
    apply(cluster, "003-0", "003-10", "003-11")
    runs(cluster, "job", "team-b-job", "team-b")
    apply(cluster, "003-12")
    runs(cluster, "job", "team-a-job", "team-a")
    wait_for(lambda: is_suspended(cluster, "job", "team-b-job", "team-b"), "team B's job waits again")


@pytest.mark.skipif(
    not EXTERNAL_KUBECONFIG, reason="the embedded API makes pods where it runs them, and here it runs none"
)
def test_pods_follow_the_decisions(cluster):
    def living_pods(team):
        pods = cluster.kubectl.json("get", "pods", "--namespace", team)["items"]
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    apply(cluster, "003-0", "003-10", "003-11")
    wait_for(lambda: living_pods("team-b"), "team B's job has pods")
    apply(cluster, "003-12")
    wait_for(lambda: living_pods("team-a"), "team A's job has pods")
    wait_for(lambda: not living_pods("team-b"), "team B's pods go")


def test_a_pytorch_job_runs_from_a_queue_of_gpus(cluster):
    """As in the tutorial, the flavor has nodeSelector and the queue no coveredResources."""
    apply(cluster, "003-01", "001-02", "001-03", "001-04")
    container = {"name": "pytorch", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    replica = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    metadata = {"name": "mnist", "namespace": "team-a", "labels": {"kueue.x-k8s.io/queue-name": "team-a-queue"}}
    cluster.kubectl.apply(
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": metadata,
            "spec": {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": {"Master": replica, "Worker": replica}},
        }
    )
    runs(cluster, "pytorchjob", "mnist", "team-a")


def test_a_user_queue_admits_by_its_priority_class(cluster):
    apply(cluster, "004-01")
    job = cluster.job("urgent", queue="user-queue")
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "prod-priority"
    job["metadata"]["namespace"] = "default"
    cluster.kubectl.apply(job)
    runs(cluster, "job", "urgent", "default")
    priority = "jsonpath={.items[?(@.metadata.ownerReferences[0].name=='urgent')].spec.priority}"
    expected = cluster.kubectl.json("get", "workloadpriorityclass", "prod-priority")["value"]
    assert int(cluster.kubectl("get", "workloads", "--namespace", "default", "-o", priority)) == expected
