import pytest

from pykueue.cli import submit

OPTIONS = {
    "command": ("python", "train.py"),
    "queue": "q",
    "name": "",
    "cpu": "2",
    "memory": "",
    "gpu": 0,
    "priority": "",
    "parallelism": 1,
    "completions": None,
    "retries": 0,
    "env": (),
    "image": "local",
    "directory": None,
}


def job(**options):
    return submit.job_of(OPTIONS | options)


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
    assert container(gpu=1)["resources"] == {
        "requests": {"cpu": "2", "nvidia.com/gpu": "1"},
        "limits": {"nvidia.com/gpu": "1"},
    }


def test_variables():
    assert container(env=("A=1=2",))["env"] == [{"name": "A", "value": "1=2"}]


def test_all_parallel_pods_must_succeed_unless_told_otherwise():
    assert job(parallelism=3)["spec"]["completions"] == 3
    assert job(parallelism=3, completions=5)["spec"]["completions"] == 5
