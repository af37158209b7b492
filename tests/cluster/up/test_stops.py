"""A stop that was asked for loses no job, says what goes on, and `pykueue down` ends it."""

import signal
import time
from pathlib import Path

import pytest
from tests.cluster.up import api_calls
from tests.cluster.up.conftest import QUEUE

from pykueue.api import resources
from pykueue.cluster.job_controller import job_view


@pytest.fixture
def directory(cluster, tmp_path):
    """A job `train` of the cluster writes `pid` here, and ends when there is a file `go`."""
    api_calls.create(cluster.directory / "kubeconfig", QUEUE)
    script = f"echo $$ >> {tmp_path}/pid; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    (tmp_path / "train.sh").write_text(script)
    cluster.run(
        "submit", "--queue", "user-queue", "--name", "train", "--cpu", "1", "--", "sh", str(tmp_path / "train.sh")
    )
    until((tmp_path / "pid").exists)
    return tmp_path


def until(holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def result(cluster):
    """The type of the condition with which the job finished."""
    job = api_calls.wait_until(cluster.directory / "kubeconfig", resources.JOB, "train", job_view.finished_condition)
    return job_view.finished_condition(job)["type"]


def is_running(directory):
    """Whether a process runs the script. The pid in the file may be one of another namespace."""
    words = str(directory / "train.sh").encode()
    return any(words in command_line(process) for process in Path("/proc").glob("[0-9]*"))


def command_line(process):
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_jobs_go_on_and_are_adopted(cluster, directory, number):
    last_line = cluster.stop(number).splitlines()[-1]
    assert last_line.startswith("1 job goes on.")
    assert "adopts it; `pykueue down" in last_line
    assert "pykueue up --stop-jobs" in last_line
    cluster.start()
    (directory / "go").touch()
    assert result(cluster) == "Complete"
    assert len((directory / "pid").read_text().split()) == 1


@pytest.mark.usefixtures("directory")
def test_start_names_the_jobs_that_it_adopts(cluster):
    cluster.stop()
    cluster.start()
    assert "1 job went on and is adopted: train\n" in cluster.stop()
    cluster.start()


def test_down_ends_jobs_that_were_left_running(cluster, directory):
    cluster.stop()
    assert is_running(directory)
    assert "1 job was ended:\n  default/train-" in cluster.run("down", "--data-dir", str(cluster.directory))
    assert not is_running(directory)
    cluster.start()
    assert result(cluster) == "Failed"


def test_down_stops_pykueue_and_its_jobs(cluster, directory):
    printed = cluster.run("down", "--data-dir", str(cluster.directory))
    assert f"pykueue with data in {cluster.directory} is stopped." in printed
    last_line = cluster.process.communicate(timeout=30)[0].splitlines()[-1]
    assert last_line == "1 job is ended, because `pykueue down` stopped pykueue."
    assert cluster.process.returncode == 0
    assert not is_running(directory)
    assert "Nothing runs" in cluster.run("down", "--data-dir", str(cluster.directory))


def test_with_stop_jobs_they_end_with_pykueue(cluster, directory):
    cluster.stop()
    cluster.start("--stop-jobs")
    assert "go on" not in cluster.stop()
    assert not is_running(directory)


def test_another_runtime_does_not_start_while_processes_run(cluster, directory):
    cluster.stop()
    refused = cluster.fail("up", "--runtime", "simulated", "--data-dir", str(cluster.directory))
    assert "1 job still runs on this machine." in refused
    assert "pykueue down" in refused
    assert is_running(directory)
