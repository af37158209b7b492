import pytest
import yaml
from click.testing import CliRunner

from pykueue.cli.manifests import manifests


def definitions(*options):
    result = CliRunner().invoke(manifests, ["crds", *options])
    return {each["spec"]["names"]["kind"]: each for each in yaml.load_all(result.stdout, Loader=yaml.CSafeLoader)}


CRDS = definitions()


def test_every_kind_of_kueue_is_defined():
    assert sorted(CRDS) == [
        "AdmissionCheck", "ClusterQueue", "Cohort", "LocalQueue", "MultiKueueCluster", "MultiKueueConfig",
        "ProvisioningRequestConfig", "ResourceFlavor", "Topology", "Workload", "WorkloadPriorityClass",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", CRDS)
def test_v1beta2_is_stored(kind):
    storage = {version["name"]: version["storage"] for version in CRDS[kind]["spec"]["versions"]}
    assert storage == {"v1beta2": True, "v1beta1": False}


def schemas(schema, path=""):
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from schemas(part, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from schemas(schema[keyword], f"{path}[]")


@pytest.mark.parametrize("kind", CRDS)
def test_schemas_are_structural(kind):
    for version in CRDS[kind]["spec"]["versions"]:
        for path, schema in schemas(version["schema"]["openAPIV3Schema"]):
            typed = {"type", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"} & schema.keys()
            assert typed, path
            assert not {"$ref", "title", "oneOf", "allOf"} & schema.keys(), path


@pytest.mark.parametrize("kind", CRDS)
def test_every_field_a_user_writes_is_described(kind):
    (schema,) = [
        version["schema"]["openAPIV3Schema"] for version in CRDS[kind]["spec"]["versions"] if version["storage"]
    ]
    spec = schema["properties"].get("spec", {"description": "has no spec"})
    bare = [path for path, part in schemas(spec) if "description" not in part and not path.endswith("[]")]
    assert [path for path in bare if ".template" not in path] == []


def test_renamed_fields_are_served_only_with_a_converter():
    def served(crds):
        return [version["served"] for version in crds["ClusterQueue"]["spec"]["versions"]]

    assert (served(CRDS), served(definitions("--conversion-webhook", "system/hook"))) == ([True, False], [True, True])
