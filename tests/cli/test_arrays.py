"""`--array`: which tasks there are, and how a command gets its index."""

import subprocess

import pytest
from tests.cli.test_submit import container, job

from pykueue.cli.arrays import TaskArray
from pykueue.cluster.kubelet.environment import expand


@pytest.mark.parametrize(
    ("text", "indexes", "parallelism"),
    [
        ("0-3", (0, 1, 2, 3), 4),
        ("0-99%10", tuple(range(100)), 10),
        ("1-3%9", (1, 2, 3), 3),
        ("0-10:5", (0, 5, 10), 3),
        ("7", (7,), 1),
        ("9,1,3", (1, 3, 9), 3),
    ],
)
def test_array_is_read(text, indexes, parallelism):
    array = TaskArray.parse(text)
    assert (array.indexes, array.parallelism) == (indexes, parallelism)


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "-1", "0-3%0", "0-3%", "1,1", "0-3:0", "0-999999999", "1-2-3"])
def test_faulty_array_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        TaskArray.parse(text)


def test_array_is_an_indexed_job():
    spec = job(array=TaskArray.parse("0-9%3"))["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (10, 3, "Indexed")


def run(array, words, completion_index):
    """What the command prints as a container of the pod with this completion index."""
    chosen = container(array=TaskArray.parse(array), command=words)
    environment = {}
    index = {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}
    for variable in [*chosen["env"], {"name": "JOB_COMPLETION_INDEX", "valueFrom": index}]:
        is_index = variable.get("valueFrom") == index
        environment[variable["name"]] = str(completion_index) if is_index else expand(variable["value"], environment)
    command = [expand(word, environment) for word in chosen["command"]]
    environment["PATH"] = "/usr/bin:/bin"
    return subprocess.check_output(command, text=True, env=environment)


@pytest.mark.parametrize(("array", "index"), [("0-9", "3"), ("5-9", "8"), ("0-90:10", "30")])
def test_command_gets_its_index(array, index):
    words = ("sh", "-c", 'echo "$1" "$2" $PYKUEUE_ARRAY_INDEX "$0"', "{i}", "a{index}b{index}", "$(x) $$ {index}")
    assert run(array, words, 3) == f"a{index}b{index} $(x) $$ {index} {index} {{i}}\n"
