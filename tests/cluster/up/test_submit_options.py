"""What `pykueue submit` can ask for, with real processes."""

import contextlib
import os
import pty
import subprocess
import sys

import pytest
from tests.cluster.up import api_calls
from tests.cluster.up.conftest import QUEUE, Cluster


@pytest.fixture(scope="module")
def queue(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("up") / "data").start()
    api_calls.create(cluster.directory / "kubeconfig", QUEUE)
    yield cluster
    cluster.run("down", "--data-dir", str(cluster.directory))
    cluster.process.communicate(timeout=30)


def test_array_runs_every_index_once(queue, tmp_path):
    log = tmp_path / "log"
    queue.run(
        "submit",
        "-f",
        "--name",
        "sweep",
        "--cpu",
        "100m",
        "--array",
        "2-4%2",
        "--",
        "sh",
        "-c",
        f"echo {{index}} >> {log}",
    )
    assert sorted(log.read_text().split()) == ["2", "3", "4"]


def test_output_of_an_array_is_printed_by_index(queue):
    queue.run("submit", "--name", "tasks", "--cpu", "50m", "--array", "0-10", "--", "echo", "task {index}")
    queue.run("wait", "tasks")
    lines = queue.run("logs", "tasks").splitlines()
    assert [line for line in lines if line.startswith("task")] == [f"task {index}" for index in range(11)]


def test_array_starts_with_as_many_tasks_as_fit(queue, tmp_path):
    log = tmp_path / "log"
    words = ("--array", "0-2", "--cpu", "500m", "--", "sh", "-c", f"echo {{index}} >> {log}")
    queue.run("submit", "-f", "--name", "wide", *words)
    assert sorted(log.read_text().split()) == ["0", "1", "2"]


def test_dependent_job_waits_for_success(queue, tmp_path):
    log = tmp_path / "log"
    queue.run("submit", "--name", "first", "--cpu", "100m", "--", "sh", "-c", f"sleep 1; echo first >> {log}")
    queue.run(
        "submit", "-f", "--after", "first", "--name", "then", "--cpu", "100m", "--", "sh", "-c", f"echo then >> {log}"
    )
    assert log.read_text().split() == ["first", "then"]


def test_job_after_an_unknown_job_is_refused(queue):
    assert "Job nope does not exist" in queue.fail("submit", "--after", "nope", "--", "true")


def test_time_limit_fails_the_job(queue):
    failure = queue.fail("submit", "-f", "--name", "slow", "--cpu", "100m", "--time", "1s", "--", "sleep", "60")
    assert "Job was active longer than specified deadline" in failure


def test_preempted_command_gets_its_signal(queue, tmp_path):
    log = tmp_path / "log"
    script = f"trap 'echo saved >> {log}; exit 0' USR1; echo started; while :; do sleep 0.1; done"
    queue.run("submit", "--name", "long", "--cpu", "1", "--signal", "usr1@20", "--", "sh", "-c", script)
    with queue.following("logs", "-f", "long") as output:
        assert output.stdout.readline() == "started\n"
        output.terminate()
    queue.run("submit", "-f", "--name", "urgent", "--priority", "high", "--cpu", "1", "--", "true")
    assert log.read_text() == "saved\n"
    queue.run("cancel", "long")


def test_options_of_a_script_are_read_and_overridden(queue):
    script = queue.directory / "train.sh"
    script.write_text(
        "#!/bin/sh\n#PYKUEUE --cpu 100m --name header\n#PYKUEUE --env GREETING=hi # a comment\necho $GREETING\n"
    )
    script.chmod(0o755)
    assert "job.batch/other created\nhi\n" in queue.run("submit", "-f", "--name", "other", str(script))


def test_cancelled_job_is_gone(queue):
    queue.run("submit", "--name", "idle", "--cpu", "100m", "--", "sleep", "600")
    assert queue.run("cancel", "idle") == "job.batch/idle cancelled\n"
    assert "does not exist" in queue.fail("cancel", "idle")


def test_shell_waits_in_the_queue_and_has_a_terminal(queue):
    command = [sys.executable, "-m", "pykueue", "run", "--pty", "--cpu", "100m", "--", "sh"]
    pid, terminal = pty.fork()
    if pid == 0:  # the child
        os.execve(sys.executable, command, queue.environment)
    os.write(terminal, b"tty && echo sum=$((40 + 2))\n")
    printed = b""
    while b"sum=42" not in printed:
        printed += os.read(terminal, 4096)
    assert b"/dev/pts/" in printed
    os.write(terminal, b"exit 3\n")
    with contextlib.suppress(OSError):  # the terminal ends with the command
        while os.read(terminal, 4096):
            pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3


def test_command_reads_standard_input(queue):
    command = [sys.executable, "-m", "pykueue", "run", "--cpu", "100m", "--", "sort"]
    done = subprocess.run(
        command, input="b\na\n", capture_output=True, text=True, env=queue.environment, timeout=60, check=True
    )
    assert done.stdout == "a\nb\n"
