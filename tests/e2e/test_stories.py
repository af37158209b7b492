"""Stories recorded on Kueue v0.19.2, played against `pykueue up`; only where the recordings lie beside the project."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.conftest import start_server, stop_server

STORIES = Path(__file__).parents[3] / "shared" / "stories"
BASE = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations:
  frameworks: [batch/job, kubeflow.org/pytorchjob, ray.io/rayjob, ray.io/raycluster]
  rayJob: {countDefaultSubmitter: true}
featureGates: {VisibilityOnDemand: false}
"""
VARIANTS = ("base", "fair", "manage-all", "pods", "podsready", "podsready-block", "resources", "retention")
ONE_AT_A_TIME = ("podsready-block",)
EVENTS_DIFFER = {"base": {"two-heads-one-slot"}}
"""Kueue retries the two queues one after the other there, we try them together: one event more."""


def play(*arguments):
    command = [sys.executable, str(STORIES / "run.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.torture
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not STORIES.exists(), reason="the recorded stories are not beside the project")
@pytest.mark.parametrize("variant", VARIANTS)
def test_recorded_stories_are_the_same(variant, tmp_path):
    (tmp_path / "base.yaml").write_text(BASE)
    override = STORIES / "stories" / variant / "config.yaml"
    rendered = play("--render-config", str(tmp_path / "base.yaml"), str(override)).stdout
    (tmp_path / "config.yaml").write_text(rendered)
    server = start_server(tmp_path / "data", "--config", str(tmp_path / "config.yaml"))
    parallel = "1" if variant in ONE_AT_A_TIME else "6"
    stories = sorted(str(path) for path in (STORIES / "stories" / variant).glob("*.yaml"))
    try:
        play("--kubeconfig", str(server.kubeconfig), "--out", str(tmp_path / "out"), "--parallel", parallel, *stories)
    finally:
        stop_server(server)
    compared = play("--diff", str(STORIES / "golden"), str(tmp_path / "out"), "--only", f"{variant}/*").stdout
    differing = {line.split()[1] for line in compared.splitlines() if line.startswith("differs")}
    assert differing <= {f"{variant}/{name}.json" for name in EVENTS_DIFFER.get(variant, ())}, compared
