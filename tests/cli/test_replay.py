"""`pykueue replay` on the record of a real `pykueue up`, which is killed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
SMALLER = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 1}]}]
"""


class Cluster:
    def __init__(self, directory):
        self.directory = directory
        self.environment = {**os.environ, "PYTHONPATH": str(SOURCE), "KUBECONFIG": str(directory / "kubeconfig")}
        options = ("--runtime", "none", "--listen", "127.0.0.1:0", "--data-dir", str(directory))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pykueue", "up", *options], stdout=subprocess.PIPE, text=True, env=self.environment
        )
        assert "is ready at" in self.process.stdout.readline()

    def pykueue(self, *words):
        return subprocess.run(
            [sys.executable, "-m", "pykueue", *words],
            capture_output=True,
            text=True,
            timeout=100,
            env=self.environment,
            check=False,
        )

    def run(self, *words):
        done = self.pykueue(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def replay(self, *words):
        return self.run("replay", "--data-dir", str(self.directory), *words)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    started = Cluster(tmp_path_factory.mktemp("replay") / "data")
    try:
        started.run("create", "resourceflavor", "default")
        started.run("create", "clusterqueue", "team", "--nominal-quota", "default:cpu=2")
        started.run("create", "localqueue", "train", "--clusterqueue", "team")
        for name in ("first", "second"):
            environment = ("env", "PASSWORD=not-to-be-recorded", "sleep", "1")
            started.run("submit", "--queue", "train", "--name", name, "--cpu", "2", "--", *environment)
        assert "is pending" in started.run("explain", "job", "second")
    finally:
        started.process.send_signal(signal.SIGKILL)
        started.process.communicate(timeout=30)
    return started


def test_every_decision_is_shown(cluster):
    lines = cluster.replay().splitlines()
    assert any("default/job-first-" in line and "admitted by team with default" in line for line in lines)
    assert any("default/job-second-" in line and "waits in team: " in line for line in lines)


def test_the_replay_decides_as_the_process_did(cluster):
    done = cluster.pykueue("replay", "--data-dir", str(cluster.directory))
    assert "none decided otherwise than then" in done.stderr


def test_one_workload_has_its_story(cluster):
    workload = next(line.split()[1] for line in cluster.replay().splitlines() if "job-second" in line)
    story = cluster.replay("--why", workload)
    assert f"{workload} arrives in default/train (priority 0)" in story
    assert "job-first" not in story


def test_an_unknown_workload_is_an_error(cluster):
    done = cluster.pykueue("replay", "--data-dir", str(cluster.directory), "--why", "nobody")
    assert (done.returncode, done.stderr) == (1, "Error: no recorded event is about a Workload nobody\n")


def test_nothing_happened_before_the_beginning(cluster):
    assert cluster.replay("--until", "2020-01-01T00:00:00Z") == ""


def test_json_has_one_line_for_each_cycle(cluster):
    cycles = [json.loads(line) for line in cluster.replay("-o", "json").splitlines()]
    admitted = [entry for cycle in cycles for entry in cycle["decisions"] if entry["decision"] == "Admit"]
    assert [entry["clusterQueue"] for entry in admitted] == ["team"]


@pytest.fixture(scope="module")
def smaller(cluster):
    path = cluster.directory / "smaller.yaml"
    path.write_text(SMALLER)
    return str(path)


def test_a_smaller_queue_would_have_decided_otherwise(cluster, smaller):
    output = cluster.replay("-f", smaller)
    assert "then: default/job-first-" in output
    assert "maximum capacity (1)" in output


def test_bisect_finds_the_event_at_which_configurations_part(cluster, smaller):
    assert cluster.replay("-f", smaller, "--bisect").startswith("they part at event ")


def test_bisect_compares_with_another_interpreter(cluster):
    assert cluster.replay("--bisect", sys.executable) == "both decide the same about every event\n"


def test_another_configuration_may_decide_the_same(cluster, tmp_path):
    path = tmp_path / "configuration.yaml"
    path.write_text("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\npreemptionLoopGuard: true\n")
    assert cluster.replay("--config", str(path)) == ""


def test_the_record_has_no_secrets(cluster):
    record = b"".join(path.read_bytes() for path in (cluster.directory / "decisions").iterdir())
    assert b"job-first" in record
    assert b"PASSWORD" not in record


def test_without_a_record_the_remedy_is_named(cluster, tmp_path):
    done = cluster.pykueue("replay", "--data-dir", str(tmp_path))
    assert done.returncode == 1
    assert "has no record; `pykueue up` makes one unless --no-record is given" in done.stderr
