"""Kinds that users add with CustomResourceDefinitions, by kubectl."""

import json

import pytest
from tests.e2e.controller_process import wait_for
from tests.e2e.external_cluster import embedded

STRING = {"type": "string"}


def definition(group, *, versions=("v1",), stored="v1", **spec_properties):
    properties = spec_properties or {"size": {"type": "integer", "minimum": 1, "default": 3}, "color": STRING}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": properties},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == stored,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                    },
                    "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                }
                for version in versions
            ],
        },
    }


@pytest.fixture
def group(kubectl):
    """A group of the test's own, whose definition is gone afterwards."""
    name = f"{kubectl.namespace}.example.org"
    yield name
    kubectl("delete", "crd", f"widgets.{name}", "--ignore-not-found")


def widget(group, name="it", version="v1", **spec):
    return {"apiVersion": f"{group}/{version}", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def test_a_new_kind_is_established_discovered_and_explained(kubectl, group):
    kubectl.apply(definition(group))
    kubectl("wait", "--for=condition=Established", f"crd/widgets.{group}", "--timeout=20s")
    assert f"{group}/v1" in kubectl("api-resources", f"--api-group={group}")
    wait_for(lambda: "color" in kubectl.run("explain", f"widgets.{group}", "--recursive").stdout, "it is explained")


def test_objects_are_defaulted_pruned_and_shown_in_their_columns(kubectl, group):
    kubectl.apply(definition(group))
    kubectl("apply", "--validate=false", "-f", "-", stdin=json.dumps(widget(group, color="red", odd=1)))
    assert kubectl.json("get", f"widgets.{group}", "it")["spec"] == {"color": "red", "size": 3}
    assert kubectl("get", f"widgets.{group}").split() == ["NAME", "SIZE", "it", "3"]


def test_objects_are_validated(kubectl, group):
    kubectl.apply(definition(group))
    refusal = kubectl.fails("apply", "-f", "-", stdin=json.dumps(widget(group, size=0)))
    assert (
        'The Widget "it" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than' in refusal
    )


def test_a_pattern_may_be_written_as_go_has_it(kubectl, group):
    kubectl.apply(definition(group, color={"type": "string", "pattern": "^(?i)[a-z]+$"}))
    kubectl.apply(widget(group, color="Red"))
    assert "should match" in kubectl.fails("apply", "-f", "-", stdin=json.dumps(widget(group, color="4")))


def test_a_rule_in_cel_is_obeyed(kubectl, group):
    crd = definition(group)
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-validations"] = [{"rule": "self.size < 10", "message": "too big"}]
    kubectl.apply(crd)
    assert "too big" in kubectl.fails("apply", "-f", "-", stdin=json.dumps(widget(group, size=11)))


def test_status_and_scale_are_subresources(kubectl, group):
    kubectl.apply(definition(group))
    kubectl.apply(widget(group, size=2))
    status = {"status": {"size": 2}}
    kubectl("patch", f"widgets.{group}", "it", "--type=merge", "-p", json.dumps(status))
    assert "status" not in kubectl.json("get", f"widgets.{group}", "it")
    kubectl("patch", f"widgets.{group}", "it", "--type=merge", "--subresource=status", "-p", json.dumps(status))
    kubectl("scale", f"widgets.{group}/it", "--replicas=4")
    assert kubectl.json("get", f"widgets.{group}", "it")["spec"]["size"] == 4


def test_every_version_shows_the_same_object(kubectl, group):
    kubectl.apply(definition(group, versions=("v1", "v1beta1")))
    kubectl.apply(widget(group, version="v1beta1", size=2))
    obj = kubectl.json("get", f"widgets.v1.{group}", "it")
    assert (obj["apiVersion"], obj["spec"]["size"]) == (f"{group}/v1", 2)
    assert kubectl.json("get", f"widgets.v1beta1.{group}", "it")["apiVersion"] == f"{group}/v1beta1"


def test_deleting_a_definition_deletes_its_objects_and_its_kind(kubectl, group):
    kubectl.apply(definition(group))
    kubectl.apply(widget(group))
    kubectl("delete", "crd", f"widgets.{group}")
    assert "the server doesn't have a resource type" in kubectl.fails("get", f"widgets.{group}")
    kubectl.apply(definition(group))
    assert kubectl("get", f"widgets.{group}", "-o", "name") == ""


@embedded("it has kinds built in")
def test_a_definition_of_a_kind_that_is_built_in_leaves_ours_in_charge(kubectl):
    crd = definition("kueue.x-k8s.io")
    crd["metadata"]["name"] = "cohorts.kueue.x-k8s.io"
    crd["spec"]["names"] = {"plural": "cohorts", "kind": "Cohort"}
    crd["spec"]["scope"] = "Cluster"
    kubectl.apply(crd)
    kubectl("wait", "--for=condition=Established", "crd/cohorts.kueue.x-k8s.io", "--timeout=20s")
    assert "kueue.x-k8s.io/v1 " not in kubectl("api-resources", "--api-group=kueue.x-k8s.io")
    kubectl("delete", "crd", "cohorts.kueue.x-k8s.io")
    assert "cohorts" in kubectl("api-resources", "--api-group=kueue.x-k8s.io")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metadata": {"name": "wrong"}}, 'must be spec.names.plural+"."+spec.group'),
        ({"spec": {"scope": "Galactic"}}, 'spec.scope: Unsupported value: "Galactic"'),
        ({"spec": {"versions": []}}, "spec.versions"),
    ],
)
def test_a_broken_definition_is_refused(kubectl, group, change, words):
    crd = definition(group)
    crd["metadata"] |= change.get("metadata", {})
    crd["spec"] |= change.get("spec", {})
    assert words in kubectl.fails("create", "-f", "-", stdin=json.dumps(crd))
