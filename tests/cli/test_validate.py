import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from pykueue.api import labels
from pykueue.cli.main import cli

SEEDS = Path(__file__).parents[1] / "seeds"


def load(name):
    """A module beside this one (tests are not a package)."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


malformed = load("malformed")
MALFORMED = malformed.manifests()


def validate(*arguments, data=None):
    return CliRunner().invoke(cli, ["validate", *map(str, arguments)], input=data, catch_exceptions=False)


def findings(*arguments, data=None):
    return json.loads(validate(*arguments, "--output", "json", data=data).output)["findings"]


@pytest.mark.parametrize("obj", malformed.WELL_FORMED, ids=lambda obj: obj["kind"])
def test_well_formed_manifest_is_accepted(obj):
    result = validate("-f", "-", data=yaml.safe_dump(obj))
    assert (result.exit_code, result.output) == (0, "1 object: 0 errors, 0 warnings\n")


def test_there_are_two_hundred_malformed_manifests():
    assert len(MALFORMED) == 200


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_manifest_gets_an_error(name):
    result = validate("-f", "-", data=MALFORMED[name])
    assert result.exit_code == 1, result.output[:2000]
    assert "error: " in result.output
    assert len(result.output) < 20_000


def test_malformed_manifests_never_end_in_a_traceback(tmp_path):
    for index, data in enumerate(MALFORMED.values()):
        (tmp_path / f"{index:03}.yaml").write_bytes(data)
    command = [sys.executable, "-m", "pykueue", "validate", "-f", str(tmp_path), "--output", "json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (1, "")
    files = {Path(finding["file"]).name for finding in json.loads(result.stdout)["findings"]}
    assert len(files) == len(MALFORMED)


def test_error_says_file_and_line(tmp_path):
    path = tmp_path / "queues.yaml"
    path.write_text(
        f"# two\n---\n{yaml.safe_dump(malformed.LOCAL_QUEUE)}---\nkind: LocalQueue\napiVersion: kueue.x-k8s.io/v1beta2\nmetadata: {{name: b}}\nspec:\n  stopPolicy: Pause\n"
    )
    output = validate("-f", path).output.splitlines()
    assert output[-2].startswith(f"{path}:16: error: LocalQueue b: spec.stopPolicy: Unsupported value")


def test_every_error_is_reported_at_once():
    queue = {**malformed.QUEUE, "metadata": {"name": "Bad_Name"}, "specc": {}}
    queue["spec"] = {**queue["spec"], "stopPolicy": "Pause", "fairSharing": {"weight": "-1"}}
    fields = {finding["field"] for finding in findings("-f", "-", data=yaml.safe_dump(queue))}
    assert fields == {"metadata.name", "specc", "spec.stopPolicy", "spec.fairSharing"}


def test_misspelt_field_gets_a_suggestion():
    flavor = {**malformed.FLAVOR, "spec": {"nodeLabel": {"a": "b"}}}
    messages = [finding["message"] for finding in findings("-f", "-", data=yaml.safe_dump(flavor))]
    assert messages == ["unknown field \"spec.nodeLabel\"; did you mean 'nodeLabels'?"]


def test_misspelt_kind_gets_a_suggestion():
    data = MALFORMED["misspelt kind"]
    assert "did you mean 'ClusterQueue'?" in findings("-f", "-", data=data)[0]["message"]


def test_kind_of_a_foreign_group_is_passed_with_a_warning():
    data = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}\n"
    result = validate("-f", "-", data=data)
    assert result.exit_code == 0
    assert "warning: Thing x: kind Thing of example.com/v1 is not known here" in result.output


def test_missing_file_is_one_line():
    result = validate("-f", "nowhere.yaml")
    assert (result.exit_code, result.output) == (1, "Error: nowhere.yaml: No such file or directory\n")


def test_rules_see_the_other_objects_of_the_set():
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "default"},
        "spec": {"clusterQueue": "c"},
    }
    job = {**malformed.JOB, "metadata": {"name": "j", "annotations": {"kueue.x-k8s.io/job-min-parallelism": "9"}}}
    both = yaml.safe_dump_all([queue, job])
    assert [finding["object"] for finding in findings("-f", "-", data=both)] == ["Job j"]


def test_fraction_of_a_processor_needs_no_quotes_in_a_job():
    text = yaml.safe_dump(malformed.JOB).replace("image: x", "image: x\n        resources: {requests: {cpu: 0.5}}")
    assert validate("-f", "-", data=text).exit_code == 0


def test_lists_are_taken_apart():
    items = {"apiVersion": "v1", "kind": "List", "items": [malformed.FLAVOR, {**malformed.FLAVOR, "spec": {"x": 1}}]}
    assert [finding["field"] for finding in findings("-f", "-", data=json.dumps(items))] == ["spec.x"]


def test_deprecated_version_is_a_note():
    data = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata: {name: a}\nspec: {clusterQueue: c}\n"
    assert validate("-f", "-", data=data).output == "1 object: 0 errors, 0 warnings\n"
    assert (
        "note: LocalQueue a: This version is deprecated. Use v1beta2 instead."
        in validate("-v", "-f", "-", data=data).output
    )


def test_documents_of_the_seeds_are_accepted_with_three_warnings():
    result = validate("-f", SEEDS)
    assert result.exit_code == 0, result.output
    warnings = [line.partition(": warning: ")[2] for line in result.output.splitlines()[:-1]]
    assert warnings == [
        "ClusterQueue team-a-cq: spec.namespaceSelector: without it no namespace is selected; write {} to select all namespaces",
        "ResourceFlavor nvidia-gpu-flavor: spec.nodeSelector: read as spec.nodeLabels; write nodeLabels instead",
        "ClusterQueue cluster-queue-a: spec.resourceGroups[0].coveredResources: missing, taken from the flavors' resources: nvidia.com/gpu, cpu, memory",
    ]


TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}


def validated(*documents):
    return validate("-f", "-", data=yaml.safe_dump_all(documents))


def test_the_label_that_kueue_does_not_read_is_a_warning():
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "labels": {"kueue.x-k8s.io/queue": "q"}}}
    output = validated(job | {"spec": {"template": TEMPLATE}}).output
    assert "did you mean kueue.x-k8s.io/queue-name?" in output


def test_references_that_leave_the_set_are_warnings():
    kueue = "kueue.x-k8s.io/v1beta2"
    quota = {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": 1}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}
    queued = {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "nope"}}
    result = validated(
        {"apiVersion": kueue, "kind": "ClusterQueue", "metadata": {"name": "a"}, "spec": spec},
        {"apiVersion": kueue, "kind": "LocalQueue", "metadata": {"name": "q"}, "spec": {"clusterQueue": "b"}},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": queued, "spec": {"template": TEMPLATE}},
    )
    assert result.exit_code == 0
    assert "no document defines ResourceFlavor spot" in result.output
    assert "no document defines ClusterQueue b" in result.output
    assert "no document defines LocalQueue nope in namespace default" in result.output


def test_a_queue_that_selects_no_namespace_is_a_warning():
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "a"}, "spec": {}}
    assert "spec.namespaceSelector: without it no namespace is selected" in validated(queue).output


def test_a_configuration_is_warned_of_what_has_no_effect():
    data = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\ntls:\n  curvePreferences: [29, 23]\n"
    result = validate("-f", "-", data=data)
    assert result.exit_code == 0
    assert "-:4: warning: Configuration: tls.curvePreferences: acts in part in pykueue: " in result.output


def queued(**metadata):
    return malformed.JOB | {"metadata": {"name": "j"} | metadata}


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("queuename", "queue-name"),
        ("queue", "queue-name"),
        ("priorityclass", "priority-class"),
        ("podset-required-topologie", "podset-required-topology"),
    ],
)
@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_a_misspelled_key_of_kueue_is_a_warning(key, meant, field):
    (finding,) = findings("-f", "-", data=yaml.safe_dump(queued(**{field: {f"kueue.x-k8s.io/{key}": "x"}})))
    assert finding["severity"] == "warning"
    assert finding["field"] == f"metadata.{field}[kueue.x-k8s.io/{key}]"
    assert finding["message"].endswith(f"did you mean kueue.x-k8s.io/{meant}?")


def test_a_misspelled_annotation_of_a_pod_template_is_a_warning():
    template = TEMPLATE | {"metadata": {"annotations": {"kueue.x-k8s.io/podset-prefered-topology": "rack"}}}
    (finding,) = findings("-f", "-", data=yaml.safe_dump(queued() | {"spec": {"template": template}}))
    key = "kueue.x-k8s.io/podset-prefered-topology"
    assert finding["field"] == f"spec.template.metadata.annotations[{key}]"
    assert finding["line"] == 9


KEYS = [value for value in vars(labels).values() if isinstance(value, str) and value.startswith("kueue.x-k8s.io/")]


@pytest.mark.parametrize(
    "key",
    [
        *KEYS,
        "kueue.x-k8s.io/raycluster-generation",
        "kueue.x-k8s.io/raycluster-podset-replica-sizes",
        "provreq.kueue.x-k8s.io/maxRunDurationSeconds",
        "alpha.kueue.x-k8s.io/node-to-replace",
        "example.com/queuename",
    ],
)
def test_keys_of_kueue_and_of_others_are_silent(key):
    assert "unknown key" not in validated(queued(annotations={key: "1"})).output


def test_a_namespace_may_have_any_label():
    labels = {"kueue.x-k8s.io/managed-namespace": "true"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": labels}}
    assert validated(namespace).output == "1 object: 0 errors, 0 warnings\n"


def test_warnings_may_fail_a_build():
    data = yaml.safe_dump(queued(labels={"kueue.x-k8s.io/queuename": "x"}))
    assert validate("-f", "-", data=data).exit_code == 0
    assert validate("-f", "-", "--fail-on", "error", data=data).exit_code == 0
    assert validate("-f", "-", "--fail-on", "warning", data=data).exit_code == 1
    assert validate("-f", "-", "--fail-on", "warning", data=yaml.safe_dump(malformed.FLAVOR)).exit_code == 0


@pytest.mark.parametrize("command", ["validate", "lint", "apply"])
def test_a_folder_without_manifests_is_an_error(command, tmp_path):
    (tmp_path / "README.md").write_text("queues\n")
    result = CliRunner().invoke(cli, [command, "-f", str(tmp_path)])
    assert (result.exit_code, result.output) == (1, f"Error: {tmp_path} has no .yaml, .yml or .json file\n")
