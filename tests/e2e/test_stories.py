"""Stories recorded on Kueue v0.19.2, played again; only where the recordings lie beside the project."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import running_api

STORIES = Path(__file__).parents[3] / "shared" / "stories"
BASE = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations:
  frameworks: [batch/job, kubeflow.org/pytorchjob, ray.io/rayjob, ray.io/raycluster]
  rayJob: {countDefaultSubmitter: true}
featureGates: {VisibilityOnDemand: false}
"""
VARIANTS = ("base", "fair", "manage-all", "pods", "podsready", "podsready-block", "resources", "retention", "tas")
AT_A_TIME = {"podsready-block": "1", "tas": "2"}
EVENTS_DIFFER = {"base/two-heads-one-slot.json"}
"""Kueue's recorder drops a second Pending event about a version of the Workload that it has told of, whatever it says."""


def play(*arguments):
    command = [sys.executable, str(STORIES / "run.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.torture
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not STORIES.exists(), reason="the recorded stories are not beside the project")
@pytest.mark.parametrize("variant", VARIANTS)
def test_recorded_stories_are_the_same(variant, given, tmp_path):
    (tmp_path / "base.yaml").write_text(BASE)
    override = STORIES / "stories" / variant / "config.yaml"
    rendered = play("--render-config", str(tmp_path / "base.yaml"), str(override)).stdout
    parallel = AT_A_TIME.get(variant, "6")
    stories = sorted(str(path) for path in (STORIES / "stories" / variant).glob("*.yaml") if path.stem != "config")
    with running_api(given, tmp_path, configuration=yaml.safe_load(rendered)) as kubeconfig:
        play("--kubeconfig", str(kubeconfig), "--out", str(tmp_path / "out"), "--parallel", parallel, *stories)
    assert compare(variant, tmp_path) <= EVENTS_DIFFER
    assert compare(variant, tmp_path, "--tolerance", "events") == set()


def compare(variant, directory, *options):
    """The stories that differ; every recorded one must have been played."""
    told = play("--diff", str(STORIES / "golden"), str(directory / "out"), "--only", f"{variant}/*", *options).stdout
    lines = [line.split() for line in told.splitlines()]
    recorded = {f"{variant}/{path.name}" for path in (STORIES / "golden" / variant).glob("*.json")}
    assert {words[1] for words in lines if words[:1] in (["same"], ["differs"])} == recorded, told
    return {words[1] for words in lines if words[:1] == ["differs"]}
