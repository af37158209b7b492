"""What a newcomer looks for after the first jobs: how they ended, their output, what they wait for."""

import json
import signal
import subprocess
import sys

import pytest
from tests.e2e.conftest import KUBECTL
from tests.e2e.controller_process import environment, wait_for
from tests.e2e.test_every_day import Shell


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("newcomers"))
    yield shell
    shell.stop()


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        ("exit 3", "exit code 3"),
        ("kill -TERM $$", "ended by SIGTERM (exit code 143)"),
    ],
)
def test_a_failure_names_its_cause(shell, command, cause):
    name = f"fails-{cause.split()[-1].strip(')')}"
    assert shell("submit", "--name", name, "--", "sh", "-c", command).returncode == 0
    result = shell("wait", name)
    assert (result.returncode, result.stderr) == (1, f"job.batch/{name} failed: {cause}\n")
    followed = shell("submit", "-f", "--name", f"{name}-followed", "--", "sh", "-c", command)
    assert f"failed: {cause}\n" in followed.stderr
    assert f"failed: {cause}\n" in shell("run", "--name", f"{name}-run", "--", "sh", "-c", command).stderr
    rows = {row["job"]: row for row in json.loads(shell("top", "--once", "-o", "json").stdout)["workloads"]}
    assert rows[name]["message"] == cause


def test_failed_tasks_of_an_array_are_named_by_their_indexes(shell):
    script = "echo task {index}; exit $(({index} % 2))"
    assert shell("submit", "--name", "odd", "--array", "1-4", "--", "sh", "-c", script).returncode == 0
    result = shell("wait", "odd", "-o", "json")
    (job,) = json.loads(result.stdout)["jobs"]
    assert (result.returncode, job["outcome"]) == (1, "failed")
    assert job["cause"] == "2 of 4 tasks failed; index 1: exit code 1; index 3: exit code 1"
    assert "(index 3)" in shell("explain", "job", "odd").stdout


def test_output_of_one_task(shell):
    assert shell("submit", "--name", "tasks", "--array", "1-4", "--", "echo", "task {index}").returncode == 0
    assert shell("logs", "-f", "tasks", "--index", "3").stdout == "task 3\n"
    assert shell("wait", "tasks").returncode == 0
    assert shell("logs", "tasks", "--index", "4").stdout == "task 4\n"
    whole = shell("logs", "tasks").stdout.splitlines()
    for index in range(1, 5):
        assert whole[whole.index(f"task {index}") - 1].startswith(f"==> index {index} (tasks-")
    missing = shell("logs", "tasks", "--index", "0")
    assert (missing.returncode, missing.stderr) == (1, "Error: job tasks has no index 0; it has 1, 2, 3, 4\n")


def test_a_finished_task_is_followed_no_longer_than_it_runs(shell):
    script = "test {index} = 1 || sleep 600; echo done"
    assert (
        shell("submit", "--name", "uneven", "--cpu", "100m", "--array", "1-2", "--", "sh", "-c", script).returncode == 0
    )
    assert shell("logs", "-f", "uneven", "--index", "1").stdout == "done\n"
    assert shell("cancel", "uneven").returncode == 0


def test_a_command_that_does_not_exist_is_said_at_once(shell):
    result = shell("submit", "--name", "absent", "--", "no-such-program", "--fast")
    assert result.returncode == 0
    note = f"the command no-such-program is not found on this machine, neither in PATH nor in {shell.home}."
    assert note in result.stderr
    assert shell("submit", "--name", "present", "--", "echo").stderr == ""
    shell("wait", "absent", "present")
    assert "the command did not start" in shell("wait", "absent").stderr


def test_a_job_after_another_names_it(shell):
    assert shell("submit", "--name", "before", "--", "sleep", "600").returncode == 0
    assert shell("submit", "--name", "later", "--after", "before", "--", "true").returncode == 0
    result = shell("explain", "job", "later")
    assert result.stdout == "Job default/later waits for other jobs: Job before has not ended.\n"
    assert shell("cancel", "before").returncode == 0
    assert "can never start: Job before does not exist" in shell("explain", "job", "later").stdout
    assert shell("cancel", "later").returncode == 0


def test_cancel_leaves_the_output_of_a_job_that_ended(shell):
    assert shell("submit", "-f", "--name", "ended", "--", "echo", "a result").returncode == 0
    result = shell("cancel", "ended")
    assert (result.returncode, "has already ended (complete)" in result.stdout) == (0, True)
    assert shell("logs", "ended").stdout == "a result\n"
    assert shell("delete", "job", "ended").stdout == "job.batch/ended deleted\n"
    assert shell("logs", "ended").returncode == 1


@pytest.mark.parametrize("words", ["logs", "wait", "cancel", "explain job", "attach", "delete job", "stop workload"])
def test_a_misspelled_job_is_suggested(shell, words):
    shell("submit", "-f", "--name", "training-run", "--", "true")
    result = shell(*words.split(), "trainig-run")
    assert (result.returncode, "Did you mean 'training-run'" in result.stderr) == (1, True), result


def test_quota_is_free_when_wait_returns(shell):
    """The Workload of a finished job is finished: it uses no quota any more."""
    for number in range(3):
        assert shell("submit", "-f", "--name", f"quick-{number}", "--", "true").returncode == 0
        rows = {row["job"]: row for row in json.loads(shell("top", "--once", "-o", "json").stdout)["workloads"]}
        assert rows[f"quick-{number}"]["state"] == "finished"


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_what_run_started(shell):
    """Also its pod, which Kubernetes keeps unless told otherwise."""
    settings = {**environment(), "KUBECONFIG": str(shell.server.kubeconfig)}
    words = [sys.executable, "-m", "pykueue", "run", "--name", "interrupted", "--", "sh", "-c", "echo on; sleep 600"]
    with subprocess.Popen(words, env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout.readline() == "on\n"
        command.send_signal(signal.SIGINT)
        assert command.wait(30) == 130
    wait_for(lambda: shell("explain", "job", "interrupted").returncode == 1, "the job is deleted")
    wait_for(lambda: "interrupted" not in shell("list", "workload").stdout, "its Workload is deleted")


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH")
def test_an_administrator_deletes_a_job_without_its_pods(shell):
    assert shell("submit", "--name", "parent", "--", "sleep", "600").returncode == 0
    wait_for(lambda: "is running" in shell("explain", "parent").stdout, "the job runs")
    words = [KUBECTL, "--kubeconfig", str(shell.server.kubeconfig)]
    subprocess.run([*words, "delete", "job", "parent", "--cascade=orphan", "--timeout=30s"], check=True)
    subprocess.run([*words, "delete", "pods", "--all", "--now"], check=True)


def test_a_restored_copy_leaves_the_jobs_of_the_original_alone(shell, tmp_path):
    assert shell("submit", "--name", "original", "--", "sh", "-c", "echo up; sleep 600").returncode == 0
    wait_for(lambda: shell("logs", "original").stdout == "up\n", "the job runs")
    archive, copy = str(tmp_path / "backup"), Shell.__new__(Shell)
    assert shell("backup", archive, "--data-dir", str(shell.server.directory)).returncode == 0
    assert shell("restore", archive, "--data-dir", str(tmp_path / "data")).returncode == 0
    copy.home, copy.port = tmp_path, 0
    copy.start()
    try:
        wait_for(lambda: "failed" in copy("explain", "job", "original").stdout, "the copy has lost the job")
    finally:
        copy.stop()
    assert "is running" in shell("explain", "job", "original").stdout
    assert shell("cancel", "original").returncode == 0


def test_attach_to_an_ended_job_says_so(shell):
    assert shell("submit", "-f", "--name", "ended", "--", "true").returncode == 0
    result = shell("attach", "ended")
    message = "Error: job ended has ended; `pykueue logs ended` prints its output\n"
    assert (result.returncode, result.stderr) == (1, message)


def test_history_shows_all_namespaces(shell):
    assert shell("submit", "-f", "--name", "mine", "--", "true").returncode == 0
    kubectl = [KUBECTL, "--kubeconfig", str(shell.server.kubeconfig)]
    subprocess.run([*kubectl, "create", "namespace", "other"], check=True, capture_output=True)
    assert shell("create", "localqueue", "other", "--clusterqueue", "default", "-n", "other").returncode == 0
    assert shell("submit", "-f", "-n", "other", "--name", "theirs", "--", "true").returncode == 0
    assert {"mine", "theirs"} <= {row["job"] for row in shell.history()}
    assert {row["job"] for row in shell.history("-n", "other")} == {"theirs"}


def test_events_are_sorted_by_their_last_time(shell):
    assert shell("submit", "-f", "--name", "sorted", "--", "true").returncode == 0
    words = ["get", "events", "--sort-by=.lastTimestamp", "--field-selector", "involvedObject.kind=Workload"]
    kubectl = [KUBECTL, "--kubeconfig", str(shell.server.kubeconfig)]
    listed = subprocess.run([*kubectl, *words], check=True, capture_output=True, text=True)
    assert "QuotaReserved" in listed.stdout, listed.stderr
