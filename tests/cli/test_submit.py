import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pykueue.api import resources
from pykueue.cli import data_directory, job_request
from pykueue.cli.main import cli
from pykueue.cluster.job_controller.job_view import JobView
from pykueue.cluster.job_controller.policies import match_failure
from pykueue.cluster.kubelet.environment import expand

OPTIONS = {
    "command": ("python", "train.py"),
    "queue": "q",
    "name": "",
    "cpu": "2",
    "memory": "",
    "gpu": {},
    "priority": "",
    "parallelism": 1,
    "completions": None,
    "retries": 0,
    "env": (),
    "image": "local",
    "directory": None,
    "array": None,
    "time": None,
    "keep": None,
    "signal": None,
    "after_ok": (),
    "after_notok": (),
    "after_any": (),
}


def job(**options):
    return job_request.job_of(OPTIONS | options)


def container(**options):
    return job(**options)["spec"]["template"]["spec"]["containers"][0]


def test_the_job_waits_for_its_queue():
    queued = job(priority="high")
    assert queued["spec"]["suspend"] is True
    assert queued["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/priority-class": "high"}


@pytest.mark.parametrize(
    ("command", "prefix"),
    [
        (("python", "src/Train_v2.py", "--fast"), "train-v2-"),
        (("/usr/bin/python3.11", "-m", "tool"), "tool-"),
        (("sh", "-c", "echo a lot of words"), "sh-"),
        (("./run.sh",), "run-"),
    ],
)
def test_the_name_tells_what_runs(command, prefix):
    assert job(command=command)["metadata"]["generateName"] == prefix


def test_a_gpu_is_requested_and_limited():
    assert container(gpu={"nvidia.com/gpu": "1"})["resources"] == {
        "requests": {"cpu": "2", "nvidia.com/gpu": "1"},
        "limits": {"nvidia.com/gpu": "1"},
    }


def test_memory_is_requested_and_limited():
    assert container(memory="4Gi")["resources"] == {
        "requests": {"cpu": "2", "memory": "4Gi"},
        "limits": {"memory": "4Gi"},
    }


def test_variables():
    assert container(env=("A=1=2",))["env"] == [{"name": "A", "value": "1=2"}]


def test_a_variable_without_a_value_is_taken_from_here(monkeypatch):
    monkeypatch.setenv("CONDA_PREFIX", "/x=y")
    assert container(env=("CONDA_PREFIX",))["env"] == [{"name": "CONDA_PREFIX", "value": "/x=y"}]
    monkeypatch.delenv("CONDA_PREFIX")
    with pytest.raises(click.BadParameter, match="CONDA_PREFIX is not set here; write CONDA_PREFIX=VALUE"):
        container(env=("CONDA_PREFIX",))


def test_all_parallel_pods_must_succeed_unless_told_otherwise():
    assert job(parallelism=3)["spec"]["completions"] == 3
    assert job(parallelism=3, completions=5)["spec"]["completions"] == 5


@pytest.mark.parametrize("word", ["echo $$", "$$(A)", "$(A) $A ${A}", "$$$", "$", "a$"])
def test_the_command_reaches_the_process_as_it_was_written(word):
    """Also where Kubernetes would expand `$(A)` or take one `$` of two."""
    (escaped,) = container(command=(word,))["command"]
    assert expand(escaped, {"A": "expanded"}) == word


def test_several_pods_know_their_number():
    assert job(completions=4)["spec"]["completionMode"] == "Indexed"
    assert job(parallelism=2)["spec"]["completionMode"] == "Indexed"
    assert job()["spec"]["completionMode"] == "NonIndexed"


def test_an_evicted_pod_is_no_failure_of_its_job():
    pod = {"metadata": {"name": "pod"}, "status": {}}
    assert match_failure(JobView(job()), pod).counts
    pod["status"] = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert not match_failure(JobView(job()), pod).counts


@pytest.fixture(scope="module")
def submitted(cluster):
    place = {"name": "main", "namespace": "default"}
    cluster.create(resources.LOCAL_QUEUE, {"metadata": place, "spec": {"clusterQueue": "a"}})
    cluster.create(resources.WORKLOAD_PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1})
    access = ("--kubeconfig", str(cluster.kubeconfig))
    return lambda *options: CliRunner().invoke(cli, ["submit", *access, *options, "true"])


def test_memory_of_a_few_bytes_is_a_forgotten_unit(submitted):
    result = submitted("--memory", "4")
    assert (result.exit_code, "4 needs a unit; write for example 4Gi or 500Mi" in result.output) == (2, True)


def test_a_queue_that_does_not_exist_is_refused(submitted):
    result = submitted("--queue", "nope")
    message = "Error: LocalQueue nope does not exist in namespace default; existing: main\n"
    assert (result.exit_code, result.output) == (1, message)


def test_a_priority_class_that_does_not_exist_is_refused(submitted):
    result = submitted("--priority", "nope")
    message = "Error: WorkloadPriorityClass nope does not exist; existing: high. An administrator creates one by "
    assert (result.exit_code, result.output) == (1, f"{message}`kubectl apply -f FILE`.\n")


def test_an_existing_queue_and_priority_class_are_accepted(submitted):
    result = submitted("--queue", "main", "--priority", "high", "--name", "good")
    assert (result.exit_code, result.stdout) == (0, "job.batch/good created\n")


def test_a_job_that_gets_no_workload_is_explained(submitted):
    """The cluster of these tests has no controllers."""
    result = submitted("--queue", "main", "--name", "alone")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        0,
        "Note: Job default/alone is in no queue: its Workload does not exist yet.",
    )


def test_an_existing_directory_is_used(submitted, cluster, tmp_path):
    submitted("--directory", str(tmp_path), "--name", "here")
    spec = cluster.get(resources.JOB, "here", "default")["spec"]["template"]["spec"]
    assert spec["containers"][0]["workingDir"] == str(tmp_path)


@pytest.mark.parametrize(("mode", "is_said"), [(0o700, True), (0o711, False)])
def test_a_directory_that_others_cannot_enter_is_named(submitted, monkeypatch, tmp_path, mode, is_said):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(Path, "parents", ())
    monkeypatch.setattr(data_directory, "running_kubeconfig", lambda: None)
    tmp_path.chmod(mode)
    result = submitted("--workdir", str(tmp_path))
    assert (result.exit_code, f"Note: other users cannot enter {tmp_path}." in result.output) == (0, is_said)


def test_a_current_directory_that_is_gone_is_named(submitted, monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    result = submitted()
    message = "Error: the current directory does not exist any more; use --workdir\n"
    assert (result.exit_code, result.output) == (1, message)


def test_an_error_in_the_header_of_a_script_says_where_it_is(cluster, tmp_path):
    script = tmp_path / "h.sh"
    script.write_text("#!/bin/sh\n#PYKUEUE --cpus 2\ntrue\n")
    result = CliRunner().invoke(cli, ["submit", "--kubeconfig", str(cluster.kubeconfig), str(script)])
    assert result.exit_code == 2
    assert "No such option '--cpus'" in result.output
    assert "It is in a #PYKUEUE line of the script." in result.output


def test_a_directory_that_does_not_exist_is_refused(submitted):
    result = submitted("--directory", "/nonexistent")
    assert result.exit_code == 2
    assert "Invalid value for --directory / --workdir: /nonexistent is not a directory of this machine" in result.output


def test_a_directory_of_an_image_need_not_exist_here(submitted):
    assert submitted("--directory", "/nonexistent", "--image", "train:1", "--name", "image").exit_code == 0


@pytest.mark.parametrize(
    ("words", "example"),
    [(("--cpu", "lots"), "2 or 500m"), (("--memory", "4GB"), "4Gi or 500Mi"), (("--cpu", "-1"), "2")],
)
def test_an_amount_that_is_none_is_refused_with_an_example(submitted, words, example):
    result = submitted(*words)
    assert result.exit_code == 2
    assert f"{words[1]!r} is not an amount; write for example {example}" in result.output


def test_deleting_a_workload_that_does_not_exist_fails(cluster):
    assert cluster.pykueue("delete", "workload", "nope", "--yes").exit_code == 1
