import json
from contextlib import suppress

import pytest
from click.testing import CliRunner

from pykueue.api import registry, resources
from pykueue.api.errors import ApiError
from pykueue.cli.main import cli

JOBS = registry.scheme().for_path("batch", "v1", "jobs").resource
CONTAINER = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "6"}}}
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
QUOTA = {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": "4"}]}


@pytest.fixture(scope="module")
def explain(cluster):
    cluster.create(resources.RESOURCE_FLAVOR, {"metadata": {"name": "spot"}, "spec": {}})
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [QUOTA]}]}
    cluster.create(resources.CLUSTER_QUEUE, {"metadata": {"name": "team-a"}, "spec": spec})
    place = {"namespace": "default"}
    cluster.create(resources.LOCAL_QUEUE, {"metadata": {"name": "main", **place}, "spec": {"clusterQueue": "team-a"}})
    job = {"metadata": {"name": "train", **place}, "spec": {"suspend": True, "template": TEMPLATE}}
    uid = cluster.create(JOBS, job)["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    pod_sets = [{"name": "main", "count": 1, "template": TEMPLATE}]
    workload = {"metadata": {"name": "large", "ownerReferences": [owner], **place}}
    cluster.create(resources.WORKLOAD, workload | {"spec": {"queueName": "main", "podSets": pod_sets}})
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
    explanation = json.loads(explain("large", "-o", "json").output)
    assert explanation["remedies"] == [
        {"kind": "MoreQuota", "amounts": {"spot": {"cpu": "2"}}},
        {"kind": "ReduceRequests", "amounts": {"main": {"cpu": "4"}}},
    ]


def test_an_unknown_name_is_one_line(explain):
    result = explain("job", "nobody")
    assert (result.exit_code, result.output) == (1, 'Error: workload of job "nobody" not found in namespace default\n')


@pytest.mark.parametrize(
    ("words", "similar"), [(["job", "trian"], "'train'"), (["workload", "larg"], "'large'"), (["job", "larg"], "")]
)
def test_an_unknown_name_suggests_similar_ones(explain, words, similar):
    """A Workload is not suggested for a job, nor a job for a Workload."""
    assert explain(*words).output.partition(" Did you mean ")[2] == (f"{similar}?\n" if similar else "")


def test_a_missing_kubeconfig_is_one_line(tmp_path):
    result = CliRunner().invoke(cli, ["explain", "x", "--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert result.output.startswith("Error: cannot read the kubeconfig")


def test_the_configuration_is_that_of_the_cluster(explain, cluster):
    """Here it does not count cpu at all, so there is nothing to wait for."""
    text = json.dumps(
        {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "resources": {"excludeResourcePrefixes": ["cpu"]},
        }
    )
    config_maps = registry.scheme().for_path("", "v1", "configmaps").resource
    namespace = {"metadata": {"name": "kueue-system"}}
    with suppress(ApiError):
        cluster.create(resources.NAMESPACE, namespace)
    place = {"name": "kueue-manager-config", "namespace": "kueue-system"}
    cluster.create(config_maps, {"metadata": place, "data": {"controller_manager_config.yaml": text}})
    try:
        assert "It fits now" in explain("large").output
    finally:
        cluster.do(lambda client: client.delete(config_maps, place["name"], place["namespace"]))


def test_places_are_looked_at_too(cluster):
    """One node of 4 cpu: two pods of 3 find no place, one would."""
    cluster.create(resources.TOPOLOGY, {"metadata": {"name": "hosts"}, "spec": {"levels": [{"nodeLabel": HOST}]}})
    node = {"metadata": {"name": "n", "labels": {HOST: "n", "tas": "true"}}}
    cluster.create(resources.NODE, node)
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4", "pods": "10"}}
    cluster.do(lambda client: client.patch(resources.NODE, "n", "", {"status": ready}, subresource="status"))
    spec = {"topologyName": "hosts", "nodeLabels": {"tas": "true"}}
    cluster.create(resources.RESOURCE_FLAVOR, {"metadata": {"name": "tas"}, "spec": spec})
    quota = {"name": "tas", "resources": [{"name": "cpu", "nominalQuota": "100"}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}
    cluster.create(resources.CLUSTER_QUEUE, {"metadata": {"name": "placed"}, "spec": spec})
    place = {"namespace": "default"}
    cluster.create(resources.LOCAL_QUEUE, {"metadata": {"name": "placed", **place}, "spec": {"clusterQueue": "placed"}})
    container = CONTAINER | {"resources": {"requests": {"cpu": "3"}}}
    pod_set = {"name": "main", "count": 2, "template": {"spec": TEMPLATE["spec"] | {"containers": [container]}}}
    pod_set["topologyRequest"] = {"required": HOST}
    workload = {"metadata": {"name": "wide", **place}, "spec": {"queueName": "placed", "podSets": [pod_set]}}
    cluster.create(resources.WORKLOAD, workload)
    text = cluster.pykueue("explain", "wide").output
    assert 'topology "hosts" allows to fit only 1 out of 2 pod(s)' in text
    assert "raise the nominal quota" not in text
    assert "ask for fewer pods: 1 in main" in text


HOST = "kubernetes.io/hostname"


def test_claimed_devices_are_counted(cluster, tmp_path):
    """The pods claim 2 devices, and the quota is 1."""
    configuration = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "resources": {"deviceClassMappings": [{"name": "example.com/gpu", "deviceClassNames": ["gpu.example.com"]}]},
    }
    path = tmp_path / "configuration.yaml"
    path.write_text(json.dumps(configuration))
    in_default = {"namespace": "default"}
    exactly = {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 2}
    template = {"spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}}
    cluster.create(resources.RESOURCE_CLAIM_TEMPLATE, {"metadata": {"name": "gpus", **in_default}, **template})
    cluster.create(resources.RESOURCE_FLAVOR, {"metadata": {"name": "gpu-nodes"}, "spec": {}})
    quotas = [{"name": "cpu", "nominalQuota": "10"}, {"name": "example.com/gpu", "nominalQuota": "1"}]
    group = {
        "coveredResources": ["cpu", "example.com/gpu"],
        "flavors": [{"name": "gpu-nodes", "resources": quotas}],
    }
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    cluster.create(resources.CLUSTER_QUEUE, {"metadata": {"name": "gpus"}, "spec": spec})
    cluster.create(
        resources.LOCAL_QUEUE, {"metadata": {"name": "gpus", **in_default}, "spec": {"clusterQueue": "gpus"}}
    )
    claims = [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]
    pod_set = {"name": "main", "count": 1, "template": {"spec": TEMPLATE["spec"] | {"resourceClaims": claims}}}
    workload = {"metadata": {"name": "claiming", **in_default}, "spec": {"queueName": "gpus", "podSets": [pod_set]}}
    cluster.create(resources.WORKLOAD, workload)
    output = cluster.pykueue("explain", "claiming", "--config", str(path)).output
    assert "example.com/gpu: 2 asked, 1 unused, 1 short" in output


def finished_job(cluster, name):
    place = {"namespace": "default"}
    job = {"metadata": {"name": name, **place}, "spec": {"suspend": True, "template": TEMPLATE}}
    uid = cluster.create(JOBS, job)["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
    spec = {"queueName": "main", "podSets": [{"name": "main", "count": 1, "template": TEMPLATE}]}
    cluster.create(
        resources.WORKLOAD, {"metadata": {"name": f"w-{name}", "ownerReferences": [owner], **place}, "spec": spec}
    )
    finished = {"type": "Finished", "status": "True", "reason": "Failed", "message": "it broke"}
    patch = {"status": {"conditions": [finished | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
    cluster.do(lambda client: client.patch(resources.WORKLOAD, f"w-{name}", "default", patch, subresource="status"))


@pytest.mark.parametrize("words", [["job", "over"], ["over"], ["w-over"]])
def test_a_finished_job_is_explained(explain, cluster, words):
    with suppress(ApiError):
        finished_job(cluster, "over")
    result = explain(*words)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Job default/over failed")
    assert "Message: it broke" in result.output


def test_a_job_that_is_not_queued_is_explained(explain, cluster):
    job = {"metadata": {"name": "plain", "namespace": "default"}, "spec": {"suspend": True, "template": TEMPLATE}}
    cluster.create(JOBS, job)
    assert explain("job", "plain").output == (
        "Job default/plain is in no queue: it has no label kueue.x-k8s.io/queue-name.\n"
    )


def test_a_job_with_an_unknown_priority_class_is_explained_with_those_that_exist(explain, cluster):
    cluster.create(resources.WORKLOAD_PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 10})
    labels = {"kueue.x-k8s.io/queue-name": "main", "kueue.x-k8s.io/priority-class": "hihg"}
    metadata = {"name": "hasty", "namespace": "default", "labels": labels}
    cluster.create(JOBS, {"metadata": metadata, "spec": {"suspend": True, "template": TEMPLATE}})
    assert explain("job", "hasty").output.startswith(
        "Job default/hasty is in no queue: WorkloadPriorityClass hihg does not exist (existing: high).\n"
    )


def test_a_deployment_is_explained_by_the_workload_of_a_pod(explain, cluster):
    place = {"namespace": "default"}
    labels = {"app": "served"}
    deployments = registry.scheme().for_path("apps", "v1", "deployments").resource
    template = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    cluster.create(deployments, {"metadata": {"name": "served", **place}, "spec": spec})
    pod = {"metadata": {"name": "served-1", "labels": labels, **place}, "spec": {"containers": [CONTAINER]}}
    uid = cluster.create(resources.POD, pod)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "served-1", "uid": uid, "controller": True}
    pod_sets = [{"name": "main", "count": 1, "template": TEMPLATE}]
    metadata = {"name": "pod-served-1", "ownerReferences": [owner], **place}
    cluster.create(resources.WORKLOAD, {"metadata": metadata, "spec": {"queueName": "main", "podSets": pod_sets}})
    assert explain("deployment", "served").output.startswith("Workload default/pod-served-1 is pending")
