"""The commands of a user on one machine, with real processes."""

import signal
import sys
import threading
import time

import pytest
from tests.cluster.up import api_calls
from tests.cluster.up.conftest import QUEUE

TRAINING = """
import pathlib, signal, sys, time
here = pathlib.Path(sys.argv[1])
(here / "starts").open("a").write("start\\n")
if (here / "checkpoint").exists():
    print("resumed", flush=True)
    sys.exit(0)
def save(*_):
    (here / "checkpoint").write_text("step 7")
    print("saved", flush=True)
    sys.exit(1)
signal.signal(signal.SIGTERM, save)
(here / "ready").touch()
while not (here / "go").exists():
    time.sleep(0.05)
"""


@pytest.fixture
def queue(cluster):
    api_calls.create(cluster.directory / "kubeconfig", QUEUE)
    return cluster


def until(path):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.02)


def test_a_command_is_queued_followed_and_its_exit_code_returned(queue):
    output = queue.run("submit", "--follow", "--", "sh", "-c", "echo $0 says hello")
    assert output.splitlines()[1:] == ["sh says hello", output.splitlines()[2]]
    assert output.splitlines()[2].endswith(" complete")
    queue.run("submit", "--follow", "--", "sh", "-c", "exit 3", code=3)


def test_a_job_that_can_never_start_is_noted_when_it_is_submitted(queue):
    assert queue.stderr("submit", "--name", "runs", "--", "sleep", "1000") == ""
    assert queue.stderr("submit", "--name", "waits", "--", "true") == ""
    large = queue.stderr("submit", "--name", "large", "--cpu", "64", "--", "true")
    assert large.startswith(
        "Note: It can never start as things are: it asks for 64 cpu, ClusterQueue shared may have 1"
    )
    assert large.endswith("`pykueue explain job large` says more.\n")
    # The scheduler tries no second job that is equal to one that does not fit.
    assert "Note: It can never start" in queue.stderr("submit", "--name", "equal", "--cpu", "64", "--", "true")
    assert queue.stderr("submit", "--name", "waits-too", "--", "true") == ""
    assert "it asks for nvidia.com/gpu" in queue.stderr("submit", "--name", "gpu", "--gpu", "1", "--", "true")
    text = queue.run("explain", "job", "gpu")
    assert "Ahead of it: default/job-waits-" in text
    assert "can never start as things are, and do not block it: default/job-large-" in text
    assert text.endswith("  - ask for no nvidia.com/gpu\n")
    assert "  - ask for less: at most 1 cpu in each pod of main\n" in queue.run("explain", "job", "large")
    assert "repair: ask for no nvidia.com/gpu" in queue.run("doctor", code=1)


def test_the_preempted_saves_waits_and_resumes(queue, tmp_path):
    queue.run("submit", "--name", "slow", "--", sys.executable, "-c", TRAINING, str(tmp_path))
    until(tmp_path / "ready")
    output = queue.run("submit", "--name", "urgent", "--priority", "high", "--follow", "--", "echo", "first")
    assert "first\n" in output
    assert (tmp_path / "checkpoint").read_text() == "step 7"
    assert queue.run("wait", "slow", "--timeout", "60") == "job.batch/slow complete\n"
    assert queue.run("logs", "slow") == "resumed\n"
    assert (tmp_path / "starts").read_text() == "start\n" * 2


def test_a_killed_pykueue_finds_its_processes_again(queue, tmp_path):
    queue.run("submit", "--name", "long", "--", sys.executable, "-c", TRAINING, str(tmp_path))
    until(tmp_path / "ready")
    queue.stop(signal.SIGKILL)
    queue.start()
    (tmp_path / "go").touch()
    assert queue.run("wait", "long", "--timeout", "60") == "job.batch/long complete\n"
    assert (tmp_path / "starts").read_text() == "start\n"


def test_a_process_that_ended_during_a_restart_is_counted(queue, tmp_path):
    queue.run("submit", "--name", "long", "--", sys.executable, "-c", TRAINING, str(tmp_path))
    until(tmp_path / "ready")
    queue.stop(signal.SIGKILL)
    (tmp_path / "go").touch()
    queue.start()
    queue.run("wait", "long", "--timeout", "60")
    assert (tmp_path / "starts").read_text() == "start\n"


TALKING = """
import pathlib, sys, time
here = pathlib.Path(sys.argv[1])
print("before", flush=True)
while not (here / "go").exists():
    time.sleep(0.05)
print("after", flush=True)
"""


def test_commands_that_follow_a_job_outlive_restarts(queue, tmp_path):
    queue.run("submit", "-f", "--name", "short", "--", "true")
    queue.run("submit", "--name", "long", "--", sys.executable, "-c", TALKING, str(tmp_path))
    with queue.following("logs", "-f", "long") as logs, queue.following("wait", "long", "short") as wait:
        assert logs.stdout.readline() == "before\n"
        assert wait.stdout.readline() == "job.batch/short complete\n"  # it follows now
        server = api_calls.server(queue.directory / "kubeconfig")
        for number in (signal.SIGTERM, signal.SIGKILL):
            queue.stop(number)
            queue.start("--listen", server.removeprefix("https://"))
        (tmp_path / "go").touch()
        assert logs.communicate(timeout=60)[0] == "after\n"
        assert wait.communicate(timeout=60)[0] == "job.batch/long complete\n"
    assert (logs.returncode, wait.returncode) == (0, 0)


def test_down_lets_processes_save(queue, tmp_path):
    queue.run("submit", "--name", "long", "--", sys.executable, "-c", TRAINING, str(tmp_path))
    until(tmp_path / "ready")
    queue.run("down", "--data-dir", str(queue.directory))
    assert (tmp_path / "checkpoint").exists()


def test_the_output_of_all_pods_is_followed_at_the_same_time(queue, tmp_path):
    script = f"""echo hello from $JOB_COMPLETION_INDEX
while ! test -e {tmp_path}/go; do sleep 0.05; done"""
    count = ("--parallelism", "2", "--completions", "2", "--cpu", "100m")
    queue.run("submit", "--name", "two", *count, "--", "sh", "-c", script)
    with queue.following("logs", "-f", "two") as logs:
        deadline = threading.Timer(30, (tmp_path / "go").touch)  # ends the test if a pod is missing
        deadline.start()
        lines = [logs.stdout.readline() for _ in range(4)]
        are_both_running = not (tmp_path / "go").exists()
        deadline.cancel()
        (tmp_path / "go").touch()
        logs.communicate(timeout=60)
    assert are_both_running
    assert {line for line in lines if not line.startswith("==> index ")} == {"hello from 0\n", "hello from 1\n"}


def test_waiting_may_time_out(queue):
    queue.run("submit", "--name", "long", "--", "sleep", "60")
    queue.run("wait", "long", "--timeout", "0.2", code=124)


def test_a_job_that_is_late_is_explained_to_who_waits(queue):
    queue.run("submit", "--name", "large", "--cpu", "64", "--", "true")
    printed = queue.stderr("wait", "large", "--timeout", "5", code=124)
    assert printed.startswith("Workload default/job-large-")
    assert "is pending in ClusterQueue shared, 1 of 1 (priority 0).\nIt can never start as things are:" in printed
    assert "`pykueue explain job large` says more.\n" in printed


def test_with_several_queues_one_must_be_named(queue):
    other = (
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: other}\nspec: {clusterQueue: shared}"
    )
    api_calls.create(queue.directory / "kubeconfig", other)
    queue.run("submit", "--", "true", code=1)
    queue.run("submit", "--queue", "other", "--follow", "--", "true")
