"""Published tutorials, played on a cluster: any that PYKUEUE_E2E_KUBECONFIG names, else the embedded API in another process.

A cluster of one's own needs `pykueue manifests`, a running `pykueue controller` and the definitions of PyTorchJobs.
"""

import json
import os
from pathlib import Path

import pytest
from tests.cluster.conftest import Cluster, wait_for
from tests.e2e.conftest import KUBECTL, Kubectl, start_server, stop_server

SEEDS = Path(__file__).parents[1] / "seeds"
GIVEN = os.environ.get("PYKUEUE_E2E_KUBECONFIG")
FRAMEWORKS = {"frameworks": ["batch/job", "kubeflow.org/pytorchjob"]}


@pytest.fixture
def cluster(tmp_path):
    if KUBECTL is None:
        pytest.skip("kubectl is not on PATH")
    if GIVEN:
        kubectl = Kubectl(kubeconfig=Path(GIVEN), namespace="", home=tmp_path)
        yield Cluster(kubeconfig=Path(GIVEN), kubectl=kubectl, directory=tmp_path)
        return
    config = tmp_path / "up.yaml"
    document = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "integrations": FRAMEWORKS}
    config.write_text(json.dumps(document))
    server = start_server(tmp_path / "data", "--no-controllers", "--config", str(config))
    kubectl = Kubectl(kubeconfig=server.kubeconfig, namespace="", home=tmp_path)
    made = Cluster(kubeconfig=server.kubeconfig, kubectl=kubectl, directory=tmp_path)
    controller = made.start_leader(integrations=FRAMEWORKS)
    yield made
    controller.stop()
    stop_server(server)


def apply(cluster, *prefixes):
    for path in (path for prefix in prefixes for path in sorted(SEEDS.glob(f"{prefix}*"))):
        cluster.kubectl("apply", "-f", str(path))


def is_suspended(cluster, kind, name, namespace):
    spec = cluster.kubectl.json("get", kind, name, "--namespace", namespace)["spec"]
    return bool(spec.get("suspend", spec.get("runPolicy", {}).get("suspend", False)))


def runs(cluster, kind, name, namespace):
    wait_for(lambda: not is_suspended(cluster, kind, name, namespace), f"{kind} {name} runs")


def remove(cluster, kind, namespace, *names):
    cluster.kubectl("delete", kind, *names, "--namespace", namespace, "--ignore-not-found")


def test_a_team_takes_its_quota_back(cluster):
    """Team B borrows, team A needs its own: B's job is suspended again and A's runs."""
    apply(cluster, "003-0", "003-10")
    remove(cluster, "job", "team-b", "team-b-job")
    remove(cluster, "job", "team-a", "team-a-job")
    apply(cluster, "003-11")
    runs(cluster, "job", "team-b-job", "team-b")
    apply(cluster, "003-12")
    runs(cluster, "job", "team-a-job", "team-a")
    wait_for(lambda: is_suspended(cluster, "job", "team-b-job", "team-b"), "team B's job waits again")


def test_a_pytorch_job_runs_from_a_queue_of_gpus(cluster):
    """The flavor says nodeSelector and the queue does not say what it covers, as the tutorial prints them."""
    apply(cluster, "003-01", "001-02", "001-03", "001-04")
    remove(cluster, "pytorchjob", "team-a", "mnist")
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
    remove(cluster, "job", "default", "urgent")
    job = cluster.job("urgent", queue="user-queue")
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "prod-priority"
    job["metadata"]["namespace"] = "default"
    cluster.kubectl.apply(job)
    runs(cluster, "job", "urgent", "default")
    priority = "jsonpath={.items[?(@.metadata.ownerReferences[0].name=='urgent')].spec.priority}"
    expected = cluster.kubectl.json("get", "workloadpriorityclass", "prod-priority")["value"]
    assert int(cluster.kubectl("get", "workloads", "--namespace", "default", "-o", priority)) == expected
