"""The Job that `pykueue submit` and `pykueue run` create, from their options."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykueue.api import task_indexes
from pykueue.cli.arrays import TaskArray

if TYPE_CHECKING:
    from pykueue.api.scheme import Object

LOCAL_IMAGE = "local"
"""The image of a command that runs on the machine of `pykueue up`."""
INDEX_VARIABLE = "PYKUEUE_ARRAY_INDEX"
ITEM_VARIABLE = "PYKUEUE_ARRAY_ITEM"
HEADER = "#PYKUEUE"
_COMPLETION_INDEX = "$(JOB_COMPLETION_INDEX)"
_JOB_FIELD = "metadata.labels['batch.kubernetes.io/job-name']"
_INDEX_FIELD = "metadata.labels['batch.kubernetes.io/job-completion-index']"
"""A variable cannot refer to JOB_COMPLETION_INDEX, which the Job controller puts at the end."""
_INTERPRETER = re.compile(r"python|sh$|bash|node|ruby|perl")
_LIMIT_SLACK_SECONDS = 60
"""Kueue stops a workload so long after its Job should have failed by its deadline."""

_DISRUPTIONS_DO_NOT_COUNT = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
"""A pod that is evicted, by a drain or a taint, starts again and is no failure of the job."""


def job_of(request: "dict[str, Any]") -> "Object":
    """The Job for the options; suspended, so that only Kueue starts it."""
    array: TaskArray = request["array"] or TaskArray.of_completions(request["completions"], request["parallelism"])
    is_array = request["array"] is not None
    name = {"name": request["name"]} if request["name"] else {"generateName": f"{_prefix(request['command'])}-"}
    metadata: Object = name | {"labels": _labels(request)}
    if annotations := _annotations(request, array if is_array else None):
        metadata["annotations"] = annotations
    pod: Object = {"restartPolicy": "Never", "containers": [_container(request, array if is_array else None)]}
    if request["signal"]:
        pod |= {"os": {"name": "linux"}, "terminationGracePeriodSeconds": request["signal"].seconds}
    spec: Object = {
        "suspend": True,
        "parallelism": array.parallelism,
        "completions": len(array.indexes),
        "completionMode": "Indexed" if is_array or max(len(array.indexes), array.parallelism) > 1 else "NonIndexed",
        "backoffLimitPerIndex" if is_array else "backoffLimit": request["retries"],
        "podFailurePolicy": _DISRUPTIONS_DO_NOT_COUNT,
        "template": {"spec": pod},
    }
    if request["time"]:
        spec["activeDeadlineSeconds"] = request["time"]
    if request["keep"] is not None:
        spec["ttlSecondsAfterFinished"] = request["keep"]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _labels(request: "dict[str, Any]") -> dict[str, str]:
    from pykueue.api import labels

    chosen = {labels.QUEUE_NAME: request["queue"]}
    if request["priority"]:
        chosen[labels.PRIORITY_CLASS] = request["priority"]
    if request["time"]:
        chosen[labels.MAX_EXEC_TIME_SECONDS] = str(request["time"] + _LIMIT_SLACK_SECONDS)
    return chosen


def _annotations(request: "dict[str, Any]", array: TaskArray | None) -> dict[str, str]:
    """What the Job waits for, and that an array starts with as many tasks as fit."""
    from pykueue.api.labels import ADMISSION_GATED_BY, AFTER, JOB_MIN_PARALLELISM

    waits_for = [(kind, job) for kind in ("ok", "notok", "any") for job in request[f"after_{kind}"]]
    annotations = {JOB_MIN_PARALLELISM: "1"} if array is not None and array.parallelism > 1 else {}
    if waits_for:
        annotations |= {AFTER: ",".join(f"{kind}:{job}" for kind, job in waits_for), ADMISSION_GATED_BY: AFTER}
    return annotations


def _container(request: "dict[str, Any]", array: TaskArray | None) -> "Object":
    requests = {"cpu": request["cpu"]}
    if request["memory"]:
        requests["memory"] = request["memory"]
    requests |= request["gpu"]
    limits = {resource: amount for resource, amount in requests.items() if resource != "cpu"}
    container: Object = {
        "name": "main",
        "image": request["image"],
        "command": [_verbatim(word) for word in request["command"]],
        "workingDir": str(_directory(request)),
        "env": [_variable(text) for text in request["env"]],
        "resources": {"requests": requests} | ({"limits": limits} if limits else {}),
    }
    if request["signal"]:
        container["lifecycle"] = {"stopSignal": request["signal"].name}
    if array is not None:
        container = _in_array(container, request["command"], array)
        container = _with_item(container, request["items"]) if request.get("items") else container
    return _with_notices(container, request) if request.get("notify") or request.get("mail") else container


def _directory(request: "dict[str, Any]") -> Path:
    try:
        return (request["directory"] or Path()).resolve()
    except FileNotFoundError:
        raise click.ClickException("the current directory does not exist any more; use --workdir") from None


def _with_notices(container: "Object", request: "dict[str, Any]") -> "Object":
    """The container, whose command runs below a program that notifies when it ends."""
    words = [sys.executable, "-P", "-m", "pykueue.notify"]
    words += [f"--url={url}" for url in request.get("notify", ())] + [
        f"--mail={address}" for address in request.get("mail", ())
    ]
    variable = {"name": "PYKUEUE_JOB", "valueFrom": {"fieldRef": {"fieldPath": _JOB_FIELD}}}
    command = [*map(_verbatim, words), "--", *container["command"]]
    return container | {"command": command, "env": [*container["env"], variable]}


def _with_item(container: "Object", items: Sequence[str]) -> "Object":
    """The container, with the item of its task in the environment."""
    variables = [{"name": f"{ITEM_VARIABLE}_{number}", "value": _verbatim(item)} for number, item in enumerate(items)]
    words = ["sh", "-c", _verbatim(_CHOOSE_ITEM), "sh", *container["command"]]
    return container | {"command": words, "env": [*container["env"], *variables]}


def _in_array(container: "Object", command: tuple[str, ...], array: TaskArray) -> "Object":
    """The container, with the index of its task in the environment and in place of `{index}`."""
    if array.starts_at_zero:
        variable = {"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": _INDEX_FIELD}}}
        words = [_COMPLETION_INDEX.join(map(_verbatim, word.split("{index}"))) for word in command]
        return container | {"command": words, "env": [*container["env"], variable]}
    indexes = {"name": task_indexes.VARIABLE, "value": " ".join(map(str, array.indexes))}
    words = ["sh", "-c", _verbatim(_CHOOSE_INDEX), "sh", *container["command"]]
    return container | {"command": words, "env": [*container["env"], indexes]}


_CHOOSE_ITEM = f"""\
{ITEM_VARIABLE}=$(printenv "{ITEM_VARIABLE}_$JOB_COMPLETION_INDEX")
export {ITEM_VARIABLE}
exec "$@"
"""
"""A shell script that looks up the item of this task and runs its arguments with it."""

_CHOOSE_INDEX = f"""\
number=0
for index in ${task_indexes.VARIABLE}; do
  [ "$number" = "$JOB_COMPLETION_INDEX" ] && export {INDEX_VARIABLE}="$index"
  number=$((number + 1))
done
for word do
  shift
  rest=
  while [ "$word" != "${{word#*{{index\\}}}}" ]; do
    rest="$rest${{word%%{{index\\}}*}}${INDEX_VARIABLE}"
    word="${{word#*{{index\\}}}}"
  done
  set -- "$@" "$rest$word"
done
exec "$@"
"""
"""A shell script that looks up the index of this task and runs its arguments with it."""


def _verbatim(word: str) -> str:
    """The word, escaped so that Kubernetes expands no `$(NAME)` and takes no `$` of `$$`."""
    return re.sub(r"\$(?=[$(])", "$$", word)


def _variable(text: str) -> dict[str, str]:
    name, equals, value = text.partition("=")
    if not equals and name:
        value = os.environ.get(name, "")
        if name not in os.environ:
            raise click.BadParameter(f"{name} is not set here; write {name}=VALUE", param_hint="--env")
    if not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--env")
    return {"name": name, "value": _verbatim(value)}


def _prefix(command: tuple[str, ...]) -> str:
    """A name from the script that an interpreter runs, else from the program."""
    program, *rest = command
    chosen = program
    if _INTERPRETER.match(Path(program).stem) and rest:
        if not rest[0].startswith("-"):
            chosen = rest[0]
        elif rest[0] == "-m" and len(rest) > 1:
            chosen = rest[1]
    return re.sub(r"[^a-z0-9]+", "-", Path(chosen).stem.lower()).strip("-")[:50] or "job"


def runnable(command: Sequence[str], directory: Path) -> list[str]:
    """The command. A script of the directory needs neither `./` nor the executable bit."""
    program, *rest = command
    script = directory / program
    if "/" not in program and (shutil.which(program) or not script.is_file()):
        return list(command)
    path = program if "/" in program else f"./{program}"
    if not script.is_file() or os.access(script, os.X_OK):
        return [path, *rest]
    return [*_interpreter(script), path, *rest]


def is_runnable(request: "dict[str, Any]") -> bool:
    """Whether this machine has the program; a name that is known only in a task counts."""
    program, directory = str(request["command"][0]), Path(request["directory"] or ".")
    variables = dict(text.partition("=")[::2] for text in request["env"])
    if "{index}" in program:
        return True
    if "/" in program:
        return (directory / program).is_file()
    return shutil.which(program, path=variables.get("PATH")) is not None


def _interpreter(script: Path) -> list[str]:
    """The words of the first line `#!/bin/bash -e`; a shell without one."""
    with script.open("rb") as lines:
        first = lines.readline(256)
    words = first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []
    return words or ["sh"]


def header_options(command: Sequence[str]) -> list[str]:
    """The options in the lines `#PYKUEUE --cpu 2` at the beginning of the script of a command."""
    script = _script(command)
    words: list[str] = []
    try:
        with Path(script).open(encoding="utf-8") as lines:
            for line in lines:
                if line.startswith(HEADER):
                    words += shlex.split(line.removeprefix(HEADER), comments=True)
                elif line.strip() and not line.startswith("#"):
                    break
    except (OSError, UnicodeDecodeError):
        return []
    except ValueError as error:
        raise click.UsageError(f"{script}: a line {HEADER} cannot be read: {error}") from None
    return words


def _script(command: Sequence[str]) -> str:
    """The program, or the file that an interpreter runs."""
    program, *rest = command or ("",)
    return rest[0] if rest and _INTERPRETER.match(Path(program).stem) else program
