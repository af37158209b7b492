"""Stories recorded on Kueue v0.19.2 are played again, and everything that the API shows is compared.

Our own stories are in `stories/`; a second collection is used if it is beside the project.
"""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import running_api
from tools.stories import compare, shorthand

PROJECT = Path(__file__).parents[2]
STORIES = PROJECT.parent / "shared" / "stories"
OWN = Path(__file__).parent / "stories"
BASE = yaml.safe_load("""
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations:
  frameworks: [batch/job, kubeflow.org/pytorchjob, ray.io/rayjob, ray.io/raycluster]
  rayJob: {countDefaultSubmitter: true}
featureGates: {VisibilityOnDemand: false}
""")
VARIANTS = tuple(sorted(path.name for path in (OWN / "golden").iterdir()))
AT_A_TIME = {"podsready-block": 1, "tas": 2, "balanced": 2, "devices": 1, "elastic-tas": 2}
WORKERS = ("worker1", "worker2")
SELECTED = {
    "base": (
        "affinity-expressions", "borrow-within-cohort-preempts", "check-podset-updates-label-conflict",
        "delete-running-job", "elastic-job-too-big", "job-nodeselector-conflict", "label-both-queues-running",
        "max-exec-workload", "multiple-resources-short", "namespace-selector-changed", "validation-more-jobs",
        "validation-updates", "workload-validation", "zero-quota",
    ),
    "devices": ("count-of-a-template", "missing-template", "unmapped-class"),
    "multikueue": ("job-finishes", "quota-appears", "validation"),
}  # fmt: skip
ROOTS = [
    pytest.param(STORIES, id="beside", marks=pytest.mark.skipif(not STORIES.exists(), reason="not beside the project")),
    pytest.param(OWN, id="own"),
]


class StoryRun:
    """Plays stories on the cluster of PYKUEUE_E2E_KUBECONFIG, or on an embedded API."""

    def __init__(self, external_cluster, directory):
        self.external_cluster = external_cluster
        self.directory = directory
        self.out = directory / "out"

    def play(self, root, variant, names, *, at_a_time):
        override = yaml.safe_load((OWN / "stories" / variant / "config.yaml").read_text()) or {}
        configuration = shorthand.merge(BASE, override)
        stories = [root / "stories" / variant / f"{name}.yaml" for name in names]
        with contextlib.ExitStack() as clusters:
            kubeconfig = clusters.enter_context(
                running_api(self.external_cluster, self.directory, configuration=configuration)
            )
            command = [sys.executable, "-m", "tools.stories", "play", "--kubeconfig", kubeconfig, "--out", self.out]
            for worker in WORKERS if variant.startswith("multikueue") else ():
                directory = self.directory / worker
                directory.mkdir()
                worker_api = clusters.enter_context(running_api(None, directory, configuration=configuration))
                command += ["--worker", f"{worker}={worker_api}"]
            subprocess.run([*map(str, command), "--parallel", str(at_a_time), *stories], cwd=PROJECT, check=False)

    def differences(self, root, variant, names):
        """What differs, by story. On a real cluster policies word some answers differently."""
        by_story = {name: self._differences_of(root, variant, name) for name in names}
        if self.external_cluster is not None:
            by_story = {
                name: differences for name, differences in by_story.items() if not all(map(is_wording, differences))
            }
        return {
            name: [str(difference) for difference in differences]
            for name, differences in by_story.items()
            if differences
        }

    def _differences_of(self, root, variant, name):
        golden = compare.load(root / "golden" / variant / f"{name}.json")
        recorded = compare.load(self.out / variant / f"{name}.json")
        return [difference for difference in compare.differences(golden, recorded) if not is_intended(difference)]


def is_intended(difference):
    """docs/differences.md: a missing priority class is an event, where Kueue only logs it."""
    return difference.path == "event extra" and "ErrWorkloadCompose" in str(difference)


def is_wording(difference):
    """A policy refuses what a webhook refuses, in other words; it computes no hash and converts nothing."""
    if difference.path.endswith("/annotations/kueue.x-k8s.io|role-hash"):
        return True
    return difference.path.startswith(("/responses/", "/warnings/", "/reads/")) and not difference.path.endswith(
        "/accepted"
    )


@pytest.fixture
def story_run(external_cluster, tmp_path):
    return StoryRun(external_cluster, tmp_path)


@pytest.mark.torture
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("root", ROOTS)
def test_recorded_stories_are_the_same(story_run, root, variant):
    names = sorted(path.stem for path in (root / "golden" / variant).glob("*.json"))
    story_run.play(root, variant, names, at_a_time=AT_A_TIME.get(variant, 6))
    assert story_run.differences(root, variant, names) == {}


@pytest.mark.parametrize("variant", SELECTED)
def test_a_selection_of_our_stories_is_the_same(story_run, variant):
    names = SELECTED[variant]
    story_run.play(OWN, variant, names, at_a_time=len(names))
    assert story_run.differences(OWN, variant, names) == {}
