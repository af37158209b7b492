"""Replays of stories recorded on Kueue v0.19.2: external ones, and our own in `stories/`.

The tests are skipped without the story player.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import running_api

STORIES = Path(__file__).parents[3] / "shared" / "stories"
OWN = Path(__file__).parent / "stories"
"""Our own recordings, in the same format."""
BASE = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations:
  frameworks: [batch/job, kubeflow.org/pytorchjob, ray.io/rayjob, ray.io/raycluster]
  rayJob: {countDefaultSubmitter: true}
featureGates: {VisibilityOnDemand: false}
"""
VARIANTS = ("base", "fair", "manage-all", "pods", "podsready", "podsready-block", "resources", "retention", "tas")
AT_A_TIME = {"podsready-block": 1, "tas": 2}
SELECTED = (
    "affinity-expressions", "borrow-within-cohort-preempts", "check-podset-updates-label-conflict", "delete-running-job",
    "elastic-job-too-big", "job-nodeselector-conflict", "label-both-queues-running", "max-exec-workload",
    "multiple-resources-short", "namespace-selector-changed", "validation-more-jobs", "validation-updates",
    "workload-validation", "zero-quota",
)  # fmt: skip

pytestmark = pytest.mark.skipif(not STORIES.exists(), reason="the player of stories is not beside the project")


def run(*arguments):
    command = [sys.executable, str(STORIES / "run.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


class Stage:
    """The cluster on which stories are played: the external one or an embedded API."""

    def __init__(self, external_cluster, directory):
        self.external_cluster = external_cluster
        self.directory = directory
        self.out = directory / "out"

    def play(self, root, variant, names, *, at_a_time):
        (self.directory / "base.yaml").write_text(BASE)
        override = STORIES / "stories" / variant / "config.yaml"
        configuration = yaml.safe_load(run("--render-config", self.directory / "base.yaml", override))
        stories = [root / "stories" / variant / f"{name}.yaml" for name in names]
        with running_api(self.external_cluster, self.directory, configuration=configuration) as kubeconfig:
            run("--kubeconfig", kubeconfig, "--out", self.out, "--parallel", at_a_time, *stories)

    def differences(self, root, variant, names):
        """The differences by story. Every recorded story must have been played."""
        report = run("--diff", root / "golden", self.out, "--only", f"{variant}/*", "--limit", 10000)
        differences, played = {}, set()
        for line in report.splitlines():
            if line.startswith(("same ", "differs ")):
                story = line.split()[1]
                played.add(story)
                if line.startswith("differs "):
                    differences[story] = []
            elif line.startswith(("    /", "    event ")):
                differences[story].append(line.strip())
        assert played == {f"{variant}/{name}.json" for name in names}, report
        if self.external_cluster is not None:
            return {story: paths for story, paths in differences.items() if not all(map(is_wording, paths))}
        return differences


def is_wording(path):
    """Differences of an external cluster: policies word errors differently and set no hashes."""
    if path.endswith("/annotations/kueue.x-k8s.io|role-hash"):
        return True
    return path.startswith(("/responses/", "/warnings/", "/reads/")) and not path.endswith("/accepted")


@pytest.fixture
def stage(external_cluster, tmp_path):
    return Stage(external_cluster, tmp_path)


@pytest.mark.torture
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("root", [STORIES, OWN], ids=["beside", "own"])
def test_recorded_stories_are_the_same(stage, root, variant):
    names = sorted(path.stem for path in (root / "golden" / variant).glob("*.json"))
    stage.play(root, variant, names, at_a_time=AT_A_TIME.get(variant, 6))
    assert stage.differences(root, variant, names) == {}


def test_a_selection_of_our_stories_is_the_same(stage):
    stage.play(OWN, "base", SELECTED, at_a_time=len(SELECTED))
    assert stage.differences(OWN, "base", SELECTED) == {}
