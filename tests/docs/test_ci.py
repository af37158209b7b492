"""The tests, programs and CI files of docs/ci.md run as they are printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml
from tests.e2e.controller_process import environment

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "ci.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team-a}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: any, resources: [{name: cpu, nominalQuota: 2}]}]
"""


def test_the_tests_of_the_page_pass_with_the_plugin(tmp_path):
    (tmp_path / "test_page.py").write_text("\n".join(code for code in PYTHON if "def test_" in code))
    (tmp_path / "queues.yaml").write_text(QUEUES)
    plugin = ["-p", "pykueue.pytest_plugin", "-p", "no:cacheprovider"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--strict-markers", *plugin, "test_page.py"],
        cwd=tmp_path,
        env={**environment(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "4 passed" in result.stdout, result.stdout


def test_the_program_of_the_page(capsys):
    (program,) = [code for code in PYTHON if "def test_" not in code]
    exec(compile(program, "ci.md", "exec"), {})
    assert "is pending in ClusterQueue default" in capsys.readouterr().out


def fake_pip(folder, data_dir):
    """A `python3` whose pip notes what it installs, and `pykueue` of this checkout."""
    (folder / "python3").write_text(f'#!/bin/sh\necho "$@" > {folder}/installed\n')
    (folder / "pykueue").write_text(f'#!/bin/sh\nexec {sys.executable} -m pykueue "$@"\n')
    for name in ("python3", "pykueue"):
        (folder / name).chmod(0o755)
    settings = {name: value for name, value in environment().items() if name != "KUBECONFIG"}
    return {**settings, "PATH": f"{folder}:{os.environ['PATH']}", "PYKUEUE_DATA_DIR": str(data_dir)}


def bash(script, settings):
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], env=settings, capture_output=True, text=True, check=False
    )


def test_the_action_starts_a_cluster(tmp_path):
    action = yaml.safe_load((ROOT / "ci" / "action.yml").read_text())
    (step,) = action["runs"]["steps"]
    inputs = {f"PYKUEUE_{name.upper()}": value["default"] for name, value in action["inputs"].items()}
    assert set(inputs) | {"PYKUEUE_DATA_DIR"} == set(step["env"])
    (tmp_path / "queues.yaml").write_text(QUEUES)
    settings = fake_pip(tmp_path, tmp_path / "data") | inputs
    settings |= {"PYKUEUE_MANIFESTS": str(tmp_path / "queues.yaml")}
    settings |= {"GITHUB_ENV": str(tmp_path / "env"), "GITHUB_OUTPUT": str(tmp_path / "output")}
    settings |= {"GITHUB_ACTION_PATH": str(ROOT / "ci")}
    try:
        result = bash(step["run"], settings)
        assert result.returncode == 0, result.stderr
        installed = (tmp_path / "installed").read_text().split()[-1]
        assert Path(installed).resolve() == ROOT
        variables = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
        assert "team-a" in bash("pykueue list clusterqueue", settings | variables).stdout
    finally:
        bash("pykueue down", settings)


def test_the_gitlab_template_runs_the_script_of_the_page(tmp_path):
    template = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text())[".pykueue"]
    pages = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)]
    (job,) = [page["manifests"] for page in pages if "include" in page]
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "queues.yaml").write_text(QUEUES + _LOCAL_QUEUE)
    settings = fake_pip(tmp_path, tmp_path / ".pykueue")
    settings |= {name: value.replace("$CI_PROJECT_DIR", str(tmp_path)) for name, value in template["variables"].items()}
    try:
        script = "\n".join([f"cd {tmp_path}", *template["before_script"], *job["script"]])
        result = bash(script, settings)
        assert "job.batch/hello complete" in result.stdout, result.stderr
        assert (tmp_path / "installed").read_text().split()[-1] == f"{tmp_path}/pykueue"
    finally:
        assert bash("\n".join(template["after_script"]), settings).returncode == 0


_LOCAL_QUEUE = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: default, namespace: default}
spec: {clusterQueue: team-a}
"""
