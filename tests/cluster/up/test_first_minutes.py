"""The first minutes on a new machine: a queue is there, and every command finds the cluster."""

import json
import os
import subprocess
import sys

import pytest
from tests.cluster.up.conftest import SOURCE

from pykueue.cli.status import NOT_RUNNING


class Machine:
    """The commands of somebody with an empty home directory and no KUBECONFIG."""

    def __init__(self, home):
        self.home = home
        self.banner = ""
        removed = ("KUBECONFIG", "PYKUEUE_DATA_DIR", "PYKUEUE_NAME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
        inherited = {name: value for name, value in os.environ.items() if name not in removed}
        self.environment = inherited | {"HOME": str(home), "PYTHONPATH": str(SOURCE)}

    def run(self, *words, code=0, **variables):
        done = subprocess.run(
            [sys.executable, "-m", "pykueue", *words],
            capture_output=True,
            text=True,
            timeout=100,
            env=self.environment | variables,
            cwd=self.home,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self, *options):
        return self.run("up", "--detach", "--listen", "127.0.0.1:0", *options)

    def status(self, *options):
        return json.loads(self.run("status", "--output", "json", *options))


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    machine = Machine(tmp_path_factory.mktemp("home"))
    machine.banner = machine.start()
    yield machine
    machine.run("down")


def test_first_job_needs_no_manifest(machine):
    assert "hello\n" in machine.run("submit", "-f", "--", "echo", "hello")


def test_banner_names_machine_queue_and_next_command(machine):
    lines = [line.strip() for line in machine.banner.splitlines()]
    assert any(line.startswith("node ") and "CPUs" in line for line in lines)
    assert any(line.startswith("queue default (default: cpu 0/") for line in lines)
    assert "pykueue submit -f -- echo hello" in lines


def test_queue_has_what_the_machine_has(machine):
    report = machine.status()
    [node], [queue] = report["nodes"], report["queues"]
    assert queue["name"] == "default"
    assert f"cpu 0/{node['cpu']}," in queue["quotaInUse"][0]


def test_second_start_in_the_background_is_refused(machine):
    pid = machine.status()["process"]["pid"]
    assert f"pykueue runs already (process {pid} on" in machine.run("up", "--detach", code=1)


def test_kubeconfig_of_the_environment_comes_first(machine):
    assert "cannot read the kubeconfig /nowhere" in machine.run("list", "workload", code=1, KUBECONFIG="/nowhere")


def test_user_of_two_clusters_is_told_which_one_it_is(machine):
    (machine.home / ".kube").mkdir()
    (machine.home / ".kube" / "config").write_text("{}")
    try:
        assert "The cluster is the `pykueue up` of this machine" in machine.run("list", "workload")
    finally:
        (machine.home / ".kube" / "config").unlink()


def test_status_without_a_cluster(machine):
    assert "Nothing runs with data in" in machine.run("status", "--name", "other", code=NOT_RUNNING)


def test_name_and_data_directory_exclude_each_other(machine):
    assert "use one of them" in machine.run("status", "--name", "a", "--data-dir", "b", code=2)


def test_name_that_is_a_path_is_refused(machine):
    assert "cannot name a cluster" in machine.run("up", "--name", "../x", code=2)


def test_backup_becomes_a_named_cluster_with_a_port_of_its_own(machine):
    machine.run("submit", "-f", "--name", "kept", "--", "true")
    machine.run("backup", "saved.tar.gz")
    assert (machine.home / "saved.tar.gz").stat().st_mode & 0o777 == 0o600
    machine.run("restore", "--name", "copy", "saved.tar.gz")
    machine.run("up", "--detach", "--name", "copy")
    try:
        assert "job-kept-" in machine.run("list", "workload", PYKUEUE_NAME="copy")
        assert machine.status("--name", "copy")["process"]["pid"] != machine.status()["process"]["pid"]
    finally:
        machine.run("down", "--name", "copy")


def test_restore_overwrites_nothing(machine):
    machine.run("backup", "other.tar.gz")
    assert "has data" in machine.run("restore", "other.tar.gz", code=1)


def test_file_that_is_no_backup_is_refused(machine):
    (machine.home / "no.tar.gz").write_bytes(b"\x1f\x8b nothing")
    assert "cannot be read as a backup" in machine.run("restore", "--name", "new", "no.tar.gz", code=1)
    assert not (machine.home / ".local" / "share" / "pykueue-new").exists()


def test_queue_is_created_once(tmp_path):
    machine = Machine(tmp_path)
    machine.start()
    machine.run("delete", "localqueue", "default")
    machine.run("down")
    machine.start()
    try:
        assert "No resources found" in machine.run("list", "localqueue")
    finally:
        machine.run("down")


def test_bare_cluster_has_no_queue(tmp_path):
    machine = Machine(tmp_path)
    machine.start("--bare")
    try:
        assert machine.status()["queues"] == []
    finally:
        machine.run("down")
