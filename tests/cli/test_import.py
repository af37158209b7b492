"""`pykueue import` against an API server: what a user reads, and what the API has afterwards."""

import json

import pytest
from tests.cli.conftest import served

from pykueue.api import conditions, resources
from pykueue.api.scheme import Settings

FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}}
QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "cq"},
    "spec": {
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}],
            }
        ],
    },
}
LOCAL_QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "LocalQueue",
    "metadata": {"name": "q", "namespace": "default"},
    "spec": {"clusterQueue": "cq"},
}
WORDS = ("import", "-n", "default", "--queuelabel", "team", "--queuemapping", "a=q")


def pod(name, team):
    container = {"name": "c", "image": "local", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "namespace": "default", "labels": {"team": team}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


@pytest.fixture
def cluster(tmp_path):
    with served(tmp_path / "api") as running:
        yield running


@pytest.fixture
def queues(cluster):
    for resource, obj in (
        (resources.RESOURCE_FLAVOR, FLAVOR),
        (resources.CLUSTER_QUEUE, QUEUE),
        (resources.LOCAL_QUEUE, LOCAL_QUEUE),
    ):
        cluster.create(resource, obj)
    return cluster


def workloads(cluster):
    return cluster.do(lambda client: client.list(resources.WORKLOAD, "default")).items


def test_a_check_writes_nothing(queues):
    queues.create(resources.POD, pod("one", "a"))
    answer = queues.pykueue(*WORDS)
    assert (answer.exit_code, answer.output) == (0, "1 pods can be imported, 0 skipped, 0 failed\n")
    assert workloads(queues) == []


def test_an_imported_pod_has_an_admitted_workload(queues):
    queues.create(resources.POD, pod("one", "a"))
    answer = queues.pykueue(*WORDS, "--no-dry-run")
    assert (answer.exit_code, answer.output) == (0, "1 pods imported, 0 skipped, 0 failed\n")
    (workload,) = workloads(queues)
    assert conditions.is_true(workload, "Admitted")
    labels = queues.get(resources.POD, "one", "default")["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "q"


def test_an_import_may_be_repeated(queues):
    queues.create(resources.POD, pod("one", "a"))
    for _ in range(2):
        assert queues.pykueue(*WORDS, "--no-dry-run").exit_code == 0
    assert len(workloads(queues)) == 1


def test_pods_that_cannot_be_imported_are_counted(queues):
    queues.create(resources.POD, pod("one", "b"))
    answer = queues.pykueue(*WORDS, "--output", "json")
    assert answer.exit_code == 1
    report = json.loads(answer.output)
    assert (report["failed"], report["errors"][0]["first"]) == (1, "one")


def test_running_pods_that_may_not_get_a_queue_are_found_before_anything_is_written(tmp_path):
    with served(tmp_path / "api", Settings(frameworks=frozenset({"pod"}))) as cluster:
        for resource, obj in (
            (resources.RESOURCE_FLAVOR, FLAVOR),
            (resources.CLUSTER_QUEUE, QUEUE),
            (resources.LOCAL_QUEUE, LOCAL_QUEUE),
            (resources.POD, pod("one", "a")),
        ):
            cluster.create(resource, obj)
        for words in (WORDS, (*WORDS, "--no-dry-run")):
            answer = cluster.pykueue(*words)
            assert answer.exit_code == 1
            assert "field is immutable; import without the pod integration" in answer.output
        assert workloads(cluster) == []


def test_a_mapping_is_needed(cluster):
    answer = cluster.pykueue("import", "--queuelabel", "team")
    assert (answer.exit_code, "name --queuelabel with --queuemapping" in answer.output) == (2, True)
