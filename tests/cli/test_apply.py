"""`pykueue apply` writes what `kubectl apply` would, and names the place of what is wrong."""

import json

import pytest
import yaml

from pykueue.api import resources

FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "apply-a"}}

IN_TEAM_A = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "team-a"}}


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.fixture
def apply(cluster, tmp_path):
    def run(*objects, text="", arguments=()):
        (tmp_path / "f.yaml").write_text(text or yaml.safe_dump_all(objects))
        return cluster.pykueue("apply", "-f", str(tmp_path / "f.yaml"), *arguments)

    return run


def test_an_object_is_created_in_the_namespace_of_the_kubeconfig(apply, cluster):
    assert apply(config_map("plain", a="b")).output == "configmap/plain created\n"
    assert cluster.get(resources.CONFIG_MAP, "plain", "default")["data"] == {"a": "b"}


def test_the_name_may_be_generated(apply):
    obj = config_map("") | {"metadata": {"generateName": "many-"}}
    names = {apply(obj).output, apply(obj).output}
    assert len(names) == 2
    assert all(name.startswith("configmap/many-") for name in names)


def test_a_kind_of_a_custom_resource_definition_is_applied_after_it(apply):
    version = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": "lamps", "singular": "lamp", "kind": "Lamp", "listKind": "LampList"}
    spec = {"group": "home.example", "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    definition["metadata"] = {"name": "lamps.home.example"}
    assert apply(definition).exit_code == 0
    lamp = {"apiVersion": "home.example/v1", "kind": "Lamp", "metadata": {"name": "desk"}}
    assert apply(lamp).output == "lamp.home.example/desk created\n"


def test_nothing_is_written_if_a_document_cannot_be_read(apply, cluster):
    result = apply(text=f"{json.dumps(FLAVOR)}\n---\na: [\n")
    assert result.exit_code == 1
    assert "f.yaml:4: not YAML" in result.output
    assert FLAVOR["metadata"]["name"] not in names_of_flavors(cluster)


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (FLAVOR | {"kind": "ResourceFlavour"}, "the cluster has no kind ResourceFlavour in kueue.x-k8s.io/v1beta2"),
        (FLAVOR | {"apiVersion": "kueue.x-k8s.io/v9"}, "the cluster has no kind ResourceFlavor in kueue.x-k8s.io/v9"),
        (FLAVOR | {"apiVersion": "nope.example/v1"}, "the cluster has no kind ResourceFlavor in nope.example/v1"),
        ({"kind": "ConfigMap", "metadata": {"name": "a"}}, "apiVersion is missing"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "metadata.name is missing"),
        (FLAVOR | {"spec": {"nodeLabels": {"-": "b"}}}, "spec.nodeLabels"),
        (FLAVOR | {"spec": {"nodeLabel": {"a": "b"}}}, 'unknown field "spec.nodeLabel"'),
        (IN_TEAM_A, 'namespaces "team-a" not found; `kubectl create namespace team-a` creates it'),
    ],
)
def test_the_fault_of_an_object_is_named_with_its_place(apply, obj, words):
    result = apply(config_map("before"), obj)
    assert result.exit_code == 1
    assert words in result.output
    assert "f.yaml:" in result.output


def test_a_file_without_objects_is_named(apply):
    result = apply(text="# nothing\n")
    assert result.exit_code == 1
    assert "no object in" in result.output


def test_json_lists_what_was_applied(apply):
    assert json.loads(apply(config_map("listed"), arguments=("-o", "json")).output) == {
        "applied": ["configmap/listed created"]
    }


def names_of_flavors(cluster):
    flavors = cluster.do(lambda client: client.list(resources.RESOURCE_FLAVOR))
    return [obj["metadata"]["name"] for obj in flavors.items]
