"""Why a Job failed, from its pods: the conditions of the Job only name the limit that it reached.

Pure. `pykueue wait`, `submit -f`, `run`, `top` and `explain` say it.
"""

import signal
from collections.abc import Iterable, Iterator, Sequence

from pykueue.api import objects, task_indexes
from pykueue.api.scheme import Object

_LIMITS = ("BackoffLimitExceeded", "FailedIndexes", "MaxFailedIndexesExceeded")
"""Reasons of Failed that say how often pods failed, not why."""
_PLAIN = (None, "", "Error", "Completed")
_SIGNALS_FROM = 128
_MOST_TASKS = 5
_LONGEST_MESSAGE = 400


def statuses(pod: Object) -> list[Object]:
    status = objects.status(pod)
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def last_end(pods: Iterable[Object], *, has_failed: bool) -> tuple[Object, str, Object] | None:
    """The container that ended last, or of a failed job failed last: pod, container, and its
    terminated state.
    """
    ends = [
        (str(exited.get("finishedAt", "")), objects.name(pod), str(status["name"]), exited, pod)
        for pod in pods
        for status in statuses(pod)
        if (code := (exited := objects.nested(status, "state", "terminated")).get("exitCode")) is not None
        and (code or not has_failed)
    ]
    if not ends:
        return None
    _, _, container, exited, pod = max(ends, key=lambda end: end[:3])
    return pod, container, exited


def of_container(exited: Object) -> str:
    """For example `exit code 3` or `out of memory (exit code 137)`, from a terminated state."""
    code, reason = int(exited.get("exitCode") or 0), exited.get("reason")
    message = str(exited.get("message") or "")[:_LONGEST_MESSAGE].strip()
    if reason == "StartError":
        return f"the command did not start: {message}" if message else "the command did not start"
    if reason == "OOMKilled":
        return f"out of memory (exit code {code})"
    text = f"exit code {code}"
    if name := _signal_name(code):
        text = f"ended by {name} (exit code {code})"
    if reason not in _PLAIN:
        text += f" ({reason})"
    return f"{text}: {message}" if message else text


def _signal_name(code: int) -> str:
    number = code - _SIGNALS_FROM
    return signal.Signals(number).name if number in {*signal.Signals} else ""


def of_pods(pods: Iterable[Object]) -> str:
    """Why the pod failed that failed last; "" if that is not known."""
    end = last_end(pods, has_failed=True)
    return "" if end is None else of_container(end[2])


def of_job(condition: Object, job: Object, pods: Sequence[Object]) -> str:
    """Why a Job failed, from its condition Failed and its pods."""
    message = str(condition.get("message") or "")
    if condition.get("reason") == "DeadlineExceeded":
        limit = objects.spec(job).get("activeDeadlineSeconds")
        return message if limit is None else f"{message} ({limit} s)"
    if condition.get("reason") not in _LIMITS:
        return message
    tasks = list(_failed_tasks(job, pods))
    if len(tasks) == 1 and len(task_indexes.of_job(job)) == 1:
        return tasks[0][1]
    if tasks:
        texts = [f"index {index}: {cause}" for index, cause in tasks[:_MOST_TASKS]]
        texts += [f"and {len(tasks) - _MOST_TASKS} more"] if len(tasks) > _MOST_TASKS else []
        return f"{len(tasks)} of {len(task_indexes.of_job(job))} tasks failed; {'; '.join(texts)}"
    return of_pods(pods) or message


def _failed_tasks(job: Object, pods: Iterable[Object]) -> Iterator[tuple[int, str]]:
    """The tasks of an array that have failed pods and none that succeeded, each with its cause."""
    indexes = task_indexes.of_job(job)
    by_task: dict[int, list[Object]] = {}
    for pod in pods:
        index = task_indexes.of_pod(indexes, pod)
        if index is not None:
            by_task.setdefault(index, []).append(pod)
    for index, own in sorted(by_task.items()):
        if not any(objects.status(pod).get("phase") == "Succeeded" for pod in own) and (cause := of_pods(own)):
            yield index, cause
