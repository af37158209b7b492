"""A workload that must wait, seen through the visibility API and explained."""

import dataclasses
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


@embedded("it serves the visibility API itself")
def test_the_visibility_api_tells_the_start_if_asked(waiting):
    """A workload that fits after a minute: the first one has a time limit."""
    running, second = (waiting.json("get", "workload", "large") for _ in range(2))
    for name, obj, is_reserved in (("running", running, "true"), ("second", second, "false")):
        obj["metadata"], obj["status"] = {"name": name}, {}
        obj["spec"]["maximumExecutionTimeSeconds"] = 60
        obj["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
        waiting.apply(obj)
        waiting("wait", f"workload/{name}", f"--for=condition=QuotaReserved={is_reserved}", "--timeout=60s")
    path = f"/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/{waiting.namespace}/pendingworkloads"
    items = json.loads(waiting("get", "--raw", f"{path}?estimatedStart=true"))["items"]
    starts = {item["metadata"]["name"]: item["estimatedStart"] for item in items}
    assert list(starts["large"]) == ["unknown"]
    assert list(starts["second"]) == ["p05", "p25", "p50", "p75", "p95"]
    assert all("estimatedStart" not in item for item in json.loads(waiting("get", "--raw", path))["items"])
    header, *rows = pykueue(waiting, "list", "workload").splitlines()
    cells = {row.split()[0]: row[header.index("ESTIMATED") :] for row in rows}
    assert (cells["large"], cells["running"]) == ("unknown", "")
    assert cells["second"].endswith("s")


def pykueue(kubectl, *words):
    command = [sys.executable, "-m", "pykueue", *words, "-n", kubectl.namespace]
    env = {**os.environ, "KUBECONFIG": str(kubectl.kubeconfig)}
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=True).stdout


@embedded("it serves the visibility API itself")
def test_positions_count_from_one(waiting):
    header, row = pykueue(waiting, "list", "workload").splitlines()
    assert row[header.index("POSITION") :].split()[0] == "1"


def test_explain_says_what_is_short(waiting):
    output = pykueue(waiting, "explain", "large")
    assert "cpu: 4 asked, 1 unused, 3 short (nominal 1, at most 1)" in output
    assert f"raise the nominal quota of ClusterQueue {waiting.namespace}: 3 more cpu" in output


@embedded("it serves the visibility API itself")
def test_an_ordinary_user_asks_the_server(waiting):
    """The user may view one namespace; the answer is that of the administrator."""
    namespace = waiting.namespace
    waiting("create", "rolebinding", "viewer", "--clusterrole=view", "--user=jane")
    path = f"/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/{namespace}/explanations/large"
    explanation = json.loads(waiting("get", "--raw", path, "--as=jane"))
    assert explanation["summary"].startswith(
        f"Workload {namespace}/large is pending in ClusterQueue {namespace}, 1 of 1"
    )
    assert explanation["remedies"] == [
        {"kind": "MoreQuota", "amounts": {namespace: {"cpu": "3"}}},
        {"kind": "ReduceRequests", "amounts": {"main": {"cpu": "1"}}},
    ]


@embedded("it serves the visibility API itself")
def test_an_ordinary_user_learns_no_names_of_other_namespaces(waiting):
    """The quota is held in another namespace, which the user may not read."""
    namespace, other = waiting.namespace, f"{waiting.namespace}-other"
    holder = waiting.json("get", "workload", "large")
    holder["metadata"] = {"name": "secret-plan", "namespace": other}
    holder["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    queue = {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": "main", "namespace": other}}
    waiting("create", "namespace", other)
    others = dataclasses.replace(waiting, namespace=other)
    others.apply({**queue, "spec": {"clusterQueue": namespace}}, {**holder, "status": {}})
    others("wait", "workload/secret-plan", "--for=condition=Admitted", "--timeout=60s")
    waiting("create", "rolebinding", "viewer", "--clusterrole=view", "--user=jane")
    path = f"/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/{namespace}/explanations/large"
    explanation = waiting("get", "--raw", path, "--as=jane")
    assert "held by a workload of another namespace" in explanation
    assert "secret-plan" not in explanation
    others("delete", "namespace", other, "--wait=false")
