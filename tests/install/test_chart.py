"""The Helm chart: made from the same functions as `pykueue manifests`, checked by real Helm."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from pykueue.cli.manifests import manifests
from pykueue.install import chart

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "pykueue"
VALUES = ROOT / "tests" / "seeds" / "001-01-controllermanager.yaml"
FILES = chart.files()
HELM = shutil.which("helm") or shutil.which("helm", path=str(Path(sys.executable).parent))

needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not installed (helm-binary)")


def helm(*arguments):
    done = subprocess.run([HELM, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents(text):
    return [obj for obj in yaml.load_all(text, Loader=yaml.CSafeLoader) if obj]


def template(*options):
    return documents(helm("template", "kueue", str(CHART), "--namespace", "kueue-system", *options))


def by_name(objects):
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}


@pytest.mark.parametrize("path", FILES)
def test_the_made_files_are_those_of_now(path):
    assert (CHART / path).read_text() == FILES[path], "run: python tools/chart.py"


@needs_helm
def test_helm_finds_nothing_wrong():
    assert "0 chart(s) failed" in helm("lint", str(CHART), "--values", str(VALUES))


@needs_helm
def test_policies_and_rights_are_those_that_manifests_prints():
    installed = by_name(template("--values", str(VALUES), "--set", "policies=always"))
    printed = CliRunner().invoke(manifests, ["--config", str(VALUES)])
    expected = by_name(documents(printed.stdout))
    compared = [key for key in expected if "Policy" in key[0] or "Role" in key[0]]
    assert {key: installed[key] for key in compared} == {key: expected[key] for key in compared}


@needs_helm
@pytest.mark.parametrize("manage_all", [False, True])
def test_with_webhooks_everything_is_as_manifests_prints_it(tmp_path, manage_all):
    configuration = {
        "namespace": "kueue-system",
        "integrations": {"frameworks": ["batch/job", "deployment"]},
        "manageJobsWithoutQueueName": manage_all,
        "managedJobsNamespaceSelector": {"matchLabels": {"team": "a"}},
        "webhook": {"port": 9999},
        "internalCertManagement": {"enable": True, "webhookSecretName": "certificate"},
    }
    (tmp_path / "configuration.json").write_text(json.dumps(configuration))
    (tmp_path / "values.json").write_text(
        json.dumps({"enableWebhooks": True, "controllerManager": {"manager": {"configuration": configuration}}})
    )
    installed = by_name(template("--values", str(tmp_path / "values.json")))
    printed = CliRunner().invoke(manifests, ["--webhooks", "--config", str(tmp_path / "configuration.json")])
    expected = by_name(documents(printed.stdout))
    compared = [key for key in expected if key[0] not in ("ConfigMap", "CustomResourceDefinition", "Namespace")]
    assert not [key for key in installed if "Policy" in key[0]]
    for key in compared:
        assert without_image(installed[key]) == without_image(expected[key])


def without_image(obj):
    """The chart has a name of its own for it."""
    if obj["kind"] == "Deployment":
        del obj["spec"]["template"]["spec"]["containers"][0]["image"]
    return obj


@needs_helm
def test_the_values_become_the_configuration_of_the_controller():
    (config_map,) = [obj for obj in template("--values", str(VALUES)) if obj["kind"] == "ConfigMap"]
    configuration = yaml.safe_load(config_map["data"]["controller_manager_config.yaml"])
    assert config_map["metadata"]["name"] == "kueue-manager-config"
    assert configuration["integrations"]["frameworks"] == ["batch/job", "kubeflow.org/pytorchjob"]


@needs_helm
def test_policies_are_left_out_where_a_cluster_does_not_know_them():
    assert not [obj for obj in template() if "Policy" in obj["kind"]]


@needs_helm
def test_a_configured_port_reaches_the_probes():
    values = {"controllerManager": {"manager": {"configuration": {"health": {"healthProbeBindAddress": ":9999"}}}}}
    (deployment,) = [
        obj for obj in template("--set-json", f"controllerManager={json.dumps(values['controllerManager'])}")
        if obj["kind"] == "Deployment"
    ]  # fmt: skip
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["livenessProbe"]["httpGet"]["port"] == 9999
