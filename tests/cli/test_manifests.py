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


def test_both_versions_are_served_without_a_converter():
    served = {version["name"]: version["served"] for version in CRDS["ClusterQueue"]["spec"]["versions"]}
    assert served == {"v1beta2": True, "v1beta1": True}


@pytest.mark.parametrize("kind", sorted(CRDS.keys() - {"MultiKueueCluster"}))
def test_without_a_converter_both_versions_know_the_same_fields(kind):
    new, old = (set(dict(schemas(each["schema"]["openAPIV3Schema"]))) for each in CRDS[kind]["spec"]["versions"])
    assert new == old


def test_everything_is_printed_in_the_order_of_applying_it():
    result = CliRunner().invoke(manifests, [])
    kinds = [each["kind"] for each in yaml.load_all(result.stdout, Loader=yaml.CSafeLoader)]
    wanted = ["CustomResourceDefinition", "Namespace", "ClusterRole", "MutatingAdmissionPolicy", "Deployment"]
    assert sorted(wanted, key=kinds.index) == wanted


def printed(part):
    result = CliRunner().invoke(manifests, [part])
    return list(yaml.load_all(result.stdout, Loader=yaml.CSafeLoader))


def test_the_controller_runs_without_privileges():
    (deployment,) = [each for each in printed("controller") if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    own = pod["containers"][0]["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert (own["readOnlyRootFilesystem"], own["capabilities"]) == (True, {"drop": ["ALL"]})


def test_no_right_of_the_controller_is_unbounded():
    rules = [rule for each in printed("rbac") for rule in each.get("rules", ())]
    assert not [rule for rule in rules if "*" in str(rule)]


def test_no_policy_asks_anything_outside_the_api_server():
    assert {each["apiVersion"] for each in printed("policies")} == {"admissionregistration.k8s.io/v1"}
    assert not [each["kind"] for each in printed("policies") if "Webhook" in each["kind"]]
