"""A workload that must wait, seen through the visibility API and explained."""

import json
import os
import subprocess
import sys

import pytest
from tests.e2e.external_cluster import embedded

KUEUE = "kueue.x-k8s.io/v1beta2"


@pytest.fixture
def waiting(kubectl):
    """A workload of 4 CPUs in a queue that has one; its queue is named after the namespace."""
    name = kubectl.namespace
    quota = {"name": name, "resources": [{"name": "cpu", "nominalQuota": "1"}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "4"}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    kubectl.apply(
        {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": name}},
        {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": "main"}, "spec": {"clusterQueue": name}},
        {
            "apiVersion": KUEUE,
            "kind": "Workload",
            "metadata": {"name": "large"},
            "spec": {"queueName": "main", "podSets": [pod_set]},
        },
    )
    kubectl("wait", "workload/large", "--for=condition=QuotaReserved=false", "--timeout=60s")
    return kubectl


@embedded("it serves the visibility API itself")
@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_the_visibility_api_tells_the_place(waiting, version):
    path = f"/apis/visibility.kueue.x-k8s.io/{version}/clusterqueues/{waiting.namespace}/pendingworkloads"
    (item,) = json.loads(waiting("get", "--raw", path))["items"]
    assert (item["metadata"]["name"], item["positionInClusterQueue"]) == ("large", 0)


def test_explain_says_what_is_short(waiting):
    command = [sys.executable, "-m", "pykueue", "explain", "large", "-n", waiting.namespace]
    env = {**os.environ, "KUBECONFIG": str(waiting.kubeconfig)}
    output = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=True).stdout
    assert "cpu: 4 asked, 1 unused, 3 short (nominal 1, at most 1)" in output
    assert f"raise the nominal quota of ClusterQueue {waiting.namespace}: 3 more cpu" in output
