"""Calls that Kubernetes' own programs make: schedulers, and the conformance tests."""

import json

from tests.e2e.external_cluster import embedded

pytestmark = embedded("its pods, which no scheduler of a cluster takes")


def pod(name, **spec):
    container = {"name": "c", "image": "i"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "restartPolicy": "Never", **spec},
    }


def binding(kubectl, name, node):
    """The arguments of kubectl that bind a pod."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": {"bound-by": "mine"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/{name}/binding"
    return ("create", "--raw", path, "-f", "-"), json.dumps(body)


def test_a_scheduler_of_ones_own_binds_a_pod(kubectl):
    kubectl.apply(pod("p"))
    arguments, body = binding(kubectl, "p", "n1")
    kubectl(*arguments, stdin=body)
    bound = kubectl.json("get", "pod", "p")
    assert (bound["spec"]["nodeName"], bound["metadata"]["annotations"]["bound-by"]) == ("n1", "mine")
    assert [condition["status"] for condition in bound["status"]["conditions"]] == ["True"]
    arguments, body = binding(kubectl, "p", "n2")
    assert 'pod p is already assigned to node "n1"' in kubectl.fails(*arguments, stdin=body)


def test_a_gated_pod_is_not_bound(kubectl):
    kubectl.apply(pod("p", schedulingGates=[{"name": "a.io/b"}]))
    arguments, body = binding(kubectl, "p", "n1")
    assert "pod p has non-empty .spec.schedulingGates" in kubectl.fails(*arguments, stdin=body)


def test_field_selectors_compare_absent_booleans_as_false(kubectl):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{kubectl.namespace}"}}
    kubectl.apply(node)
    selected = kubectl("get", "nodes", "--field-selector", "spec.unschedulable=false", "-o", "name")
    assert f"node/node-{kubectl.namespace}" in selected.split()
    kubectl("cordon", node["metadata"]["name"])
    selected = kubectl("get", "nodes", "--field-selector", "spec.unschedulable=false", "-o", "name")
    assert f"node/node-{kubectl.namespace}" not in selected.split()
    kubectl("delete", "node", node["metadata"]["name"])
