import json

import pytest
from click.testing import CliRunner

from pykueue.api import registry
from pykueue.cli.main import cli
from pykueue.controllers import kinds

JOBS = registry.scheme().for_path("batch", "v1", "jobs").resource
CONTAINER = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "6"}}}
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
QUOTA = {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": "4"}]}


@pytest.fixture(scope="module")
def explain(cluster):
    cluster.create(kinds.RESOURCE_FLAVOR, {"metadata": {"name": "spot"}, "spec": {}})
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [QUOTA]}]}
    cluster.create(kinds.CLUSTER_QUEUE, {"metadata": {"name": "team-a"}, "spec": spec})
    place = {"namespace": "default"}
    cluster.create(kinds.LOCAL_QUEUE, {"metadata": {"name": "main", **place}, "spec": {"clusterQueue": "team-a"}})
    job = {"metadata": {"name": "train", **place}, "spec": {"suspend": True, "template": TEMPLATE}}
    uid = cluster.create(JOBS, job)["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    pod_sets = [{"name": "main", "count": 1, "template": TEMPLATE}]
    workload = {"metadata": {"name": "large", "ownerReferences": [owner], **place}}
    cluster.create(kinds.WORKLOAD, workload | {"spec": {"queueName": "main", "podSets": pod_sets}})
    return lambda *words: cluster.pykueue("explain", *words)


def test_a_workload_is_explained_by_name(explain):
    result = explain("large")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Workload default/large is pending in ClusterQueue team-a, 1 of 1 (priority 0).\n")
    assert "cpu: 6 asked, 4 unused, 2 short (nominal 4, at most 4)" in result.output


@pytest.mark.parametrize("words", [["job", "train"], ["job/train"], ["jobs", "train"]])
def test_a_workload_is_found_by_its_job(explain, words):
    assert explain(*words).output.startswith("Workload default/large")


def test_json_has_quantities(explain):
    found = json.loads(explain("large", "-o", "json").output)
    assert found["remedies"] == [{"kind": "MoreQuota", "amounts": {"spot": {"cpu": "2"}}}]


def test_an_unknown_name_is_one_line(explain):
    result = explain("job", "nobody")
    assert (result.exit_code, result.output) == (1, 'Error: workload of job "nobody" not found in namespace default\n')


def test_a_missing_kubeconfig_is_one_line(tmp_path):
    result = CliRunner().invoke(cli, ["explain", "x", "--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert result.output.startswith("Error: cannot read the kubeconfig")
