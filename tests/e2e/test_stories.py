"""Stories recorded on Kueue v0.19.2, played again; only where the recordings lie beside the project."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import running_api

STORIES = Path(__file__).parents[3] / "shared" / "stories"
OWN = Path(__file__).parent / "stories"
"""Recorded by us, in the same form."""
BASE = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations:
  frameworks: [batch/job, kubeflow.org/pytorchjob, ray.io/rayjob, ray.io/raycluster]
  rayJob: {countDefaultSubmitter: true}
featureGates: {VisibilityOnDemand: false}
"""
OWN_VARIANTS = tuple(sorted(path.name for path in (OWN / "stories").iterdir()))
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
@pytest.mark.parametrize(
    ("root", "variant"),
    [
        *(pytest.param(STORIES, name, id=name) for name in VARIANTS),
        *(pytest.param(OWN, name, id=f"own-{name}") for name in OWN_VARIANTS),
    ],
)
def test_recorded_stories_are_the_same(root, variant, given, tmp_path):
    (tmp_path / "base.yaml").write_text(BASE)
    override = STORIES / "stories" / variant / "config.yaml"
    rendered = play("--render-config", str(tmp_path / "base.yaml"), str(override)).stdout
    parallel = AT_A_TIME.get(variant, "6")
    stories = sorted(str(path) for path in (root / "stories" / variant).glob("*.yaml") if path.stem != "config")
    with running_api(given, tmp_path, configuration=yaml.safe_load(rendered)) as kubeconfig:
        play("--kubeconfig", str(kubeconfig), "--out", str(tmp_path / "out"), "--parallel", parallel, *stories)
    differences = compare(root, variant, tmp_path)
    if given is not None:
        differences = {story: paths for story, paths in differences.items() if not all(map(is_wording, paths))}
    assert differences.keys() <= EVENTS_DIFFER, differences
    assert all(path.startswith("event ") for paths in differences.values() for path in paths), differences


def is_wording(path):
    """A policy refuses what a webhook refuses, in other words, and makes no hashes; nobody converts what is read as v1beta1."""
    if path.endswith("/annotations/kueue.x-k8s.io|role-hash"):
        return True
    return path.startswith(("/responses/", "/warnings/", "/reads/")) and not path.endswith("/accepted")


def compare(root, variant, directory):
    """What differs, by story; every recorded one must have been played."""
    golden, out = str(root / "golden"), str(directory / "out")
    told = play("--diff", golden, out, "--only", f"{variant}/*", "--limit", "10000").stdout
    differences, played = {}, set()
    for line in told.splitlines():
        if line.startswith(("same ", "differs ")):
            story = line.split()[1]
            played.add(story)
            if line.startswith("differs "):
                differences[story] = []
        elif line.startswith(("    /", "    event ")):
            differences[story].append(line.strip())
    assert played == {f"{variant}/{path.name}" for path in (root / "golden" / variant).glob("*.json")}, told
    return differences
