import pytest
import yaml
from click.testing import CliRunner

from pykueue.cli.manifests import manifests


def definitions(*options):
    result = CliRunner().invoke(manifests, ["crds", *options])
    documents = yaml.load_all(result.stdout, Loader=yaml.CSafeLoader)
    return {document["spec"]["names"]["kind"]: document for document in documents}


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
    new, old = (set(dict(schemas(version["schema"]["openAPIV3Schema"]))) for version in CRDS[kind]["spec"]["versions"])
    assert new == old


def test_everything_is_printed_in_the_order_of_applying_it():
    result = CliRunner().invoke(manifests, [])
    kinds = [document["kind"] for document in yaml.load_all(result.stdout, Loader=yaml.CSafeLoader)]
    expected = ["CustomResourceDefinition", "Namespace", "ClusterRole", "MutatingAdmissionPolicy", "Deployment"]
    assert sorted(expected, key=kinds.index) == expected


def printed(*arguments):
    result = CliRunner().invoke(manifests, [*arguments])
    return list(yaml.load_all(result.stdout, Loader=yaml.CSafeLoader))


def test_the_controller_runs_without_privileges():
    (deployment,) = [obj for obj in printed("controller") if obj["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    own = pod["containers"][0]["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert (own["readOnlyRootFilesystem"], own["capabilities"]) == (True, {"drop": ["ALL"]})


def test_no_right_of_the_controller_is_unbounded():
    rules = [rule for obj in printed("rbac") for rule in obj.get("rules", ())]
    assert not [rule for rule in rules if "*" in str(rule)]


def test_no_policy_asks_anything_outside_the_api_server():
    assert {obj["apiVersion"] for obj in printed("policies")} == {"admissionregistration.k8s.io/v1"}
    assert not [obj["kind"] for obj in printed("policies") if "Webhook" in obj["kind"]]


def webhooks(*arguments):
    configurations = printed("webhooks", *arguments)
    return [(obj["metadata"]["name"], webhook) for obj in configurations for webhook in obj["webhooks"]]


def is_about_jobs(webhook):
    return webhook["rules"][0]["apiGroups"] != ["kueue.x-k8s.io"]


def test_a_job_without_a_queue_is_never_refused_for_want_of_an_answer():
    about_unqueued = [
        (webhook["failurePolicy"], webhook["timeoutSeconds"])
        for _, webhook in webhooks()
        if is_about_jobs(webhook) and webhook["objectSelector"]["matchExpressions"][0]["operator"] == "DoesNotExist"
    ]
    assert set(about_unqueued) == {("Ignore", 2)}


def test_a_job_with_a_queue_does_not_start_unseen():
    selectors = {
        (webhook["failurePolicy"], webhook["objectSelector"]["matchExpressions"][0]["operator"])
        for name, webhook in webhooks()
        if is_about_jobs(webhook) and name == "pykueue-webhooks"
    }
    assert selectors == {("Fail", "Exists")}


def test_no_webhook_looks_at_pods_of_the_system_or_of_the_controller():
    excluded = [
        webhook["namespaceSelector"]["matchExpressions"][-1] for _, webhook in webhooks() if is_about_jobs(webhook)
    ]
    assert all(
        expression["values"] == ["kube-system", "kueue-system"] and expression["operator"] == "NotIn"
        for expression in excluded
    )


def test_a_controller_outside_the_cluster_is_called_by_its_url():
    urls = {webhook["clientConfig"]["url"] for _, webhook in webhooks("--webhook-url", "https://10.0.0.1:9443")}
    assert urls == {"https://10.0.0.1:9443/mutate", "https://10.0.0.1:9443/validate"}


def test_with_webhooks_there_are_no_policies():
    kinds = {obj["kind"] for obj in printed("--webhooks")}
    assert "MutatingWebhookConfiguration" in kinds
    assert not [kind for kind in kinds if "Policy" in kind]


def test_secrets_are_read_in_the_own_namespace_and_written_only_for_the_certificate():
    rules = [
        (obj["kind"], rule)
        for obj in printed("rbac", "--webhooks")
        for rule in obj.get("rules", ())
        if "secrets" in rule.get("resources", ())
    ]
    assert {kind for kind, _ in rules} == {"Role"}
    written = [rule for _, rule in rules if not {"get", "list", "watch", "create"}.issuperset(rule["verbs"])]
    assert [rule["resourceNames"] for rule in written] == [["kueue-webhook-server-cert"]]
