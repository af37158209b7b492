"""`pykueue apply` and `pykueue simulate --from-cluster` on an API server, over HTTPS."""

import json
import time

import pytest
import yaml

from pykueue.api import resources, times
from pykueue.api.times import SECOND_NS

MINUTE_NS = 60 * SECOND_NS


@pytest.fixture(scope="module")
def queues(cluster):
    cluster.create(resources.RESOURCE_FLAVOR, {"metadata": {"name": "cpus"}, "spec": {}})
    cluster.create(resources.CLUSTER_QUEUE, cluster_queue(4))
    local_queue = {"metadata": {"name": "main", "namespace": "default"}, "spec": {"clusterQueue": "team"}}
    cluster.create(resources.LOCAL_QUEUE, local_queue)
    create_workload(cluster, "first", 4, admitted_minutes_ago=1)
    create_workload(cluster, "second", 4)


def cluster_queue(cpus, **spec):
    quota = {"name": "cpus", "resources": [{"name": "cpu", "nominalQuota": str(cpus)}]}
    spec |= {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "team"}, "spec": spec}


def create_workload(cluster, name, cpus, *, admitted_minutes_ago=None):
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": str(cpus)}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    pod_sets = [{"name": "main", "count": 1, "template": template}]
    spec = {"queueName": "main", "podSets": pod_sets, "maximumExecutionTimeSeconds": 1200}
    cluster.create(resources.WORKLOAD, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    if admitted_minutes_ago is None:
        return
    at = times.from_ns(time.time_ns() - admitted_minutes_ago * MINUTE_NS)
    assignment = {"name": "main", "count": 1, "flavors": {"cpu": "cpus"}, "resourceUsage": {"cpu": str(cpus)}}
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": at}
        for kind in ("QuotaReserved", "Admitted")
    ]
    status = {"admission": {"clusterQueue": "team", "podSetAssignments": [assignment]}, "conditions": conditions}
    cluster.do(
        lambda client: client.patch(resources.WORKLOAD, name, "default", {"status": status}, subresource="status")
    )


def manifest(tmp_path, *objects):
    path = tmp_path / "change.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


@pytest.mark.usefixtures("queues")
def test_a_preview_names_what_would_start_sooner_and_writes_nothing(cluster, tmp_path):
    before = cluster.get(resources.CLUSTER_QUEUE, "team")
    result = cluster.pykueue("apply", "--preview", "-f", manifest(tmp_path, cluster_queue(8)))
    assert result.output.startswith("In the next 1h this change would\n  start default/second 1")
    assert result.output.endswith("sooner, after 0s\n")
    assert cluster.get(resources.CLUSTER_QUEUE, "team") == before


@pytest.mark.usefixtures("queues")
def test_a_preview_names_what_would_be_evicted(cluster, tmp_path):
    path = manifest(tmp_path, cluster_queue(4, stopPolicy="HoldAndDrain"))
    answer = json.loads(cluster.pykueue("apply", "--preview", "-f", path, "-o", "json").output)
    assert [entry["workload"] for entry in answer["evicted"]] == ["default/first"]
    assert answer["blocked"] == [{"workload": "default/second", "why": "ClusterQueue team is not active"}]


@pytest.mark.usefixtures("queues")
def test_the_history_of_a_cluster_is_simulated(cluster):
    report = json.loads(cluster.pykueue("simulate", "--from-cluster", "1", "--run-time", "10m", "-o", "json").output)
    assert report["jobs"] == 2
    assert report["makespan_seconds"] == pytest.approx(1200, abs=5)
    assert report["usage"][0]["utilisation"] == pytest.approx(1, abs=0.01)


def test_apply_creates_and_then_changes_an_object(cluster, tmp_path):
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "spot"}}
    flavor["spec"] = {"nodeLabels": {"kind": "spot"}}
    path = manifest(tmp_path, flavor)
    assert cluster.pykueue("apply", "-f", path).output == "resourceflavor.kueue.x-k8s.io/spot created\n"
    flavor["spec"]["nodeLabels"]["zone"] = "a"
    path = manifest(tmp_path, flavor)
    assert cluster.pykueue("apply", "-f", path).output == "resourceflavor.kueue.x-k8s.io/spot configured\n"
    assert cluster.get(resources.RESOURCE_FLAVOR, "spot")["spec"]["nodeLabels"] == {"kind": "spot", "zone": "a"}
