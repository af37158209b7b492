"""The index of a task, as its user gave it: `pykueue submit --array 1-4` has the tasks 1 to 4.

Kubernetes numbers the pods of an Indexed Job from 0. The Job of an array that does not begin at 0
has the indexes of its user in a variable of its container.
"""

from collections.abc import Sequence

from pykueue.api import objects
from pykueue.api.scheme import Object

VARIABLE = "PYKUEUE_ARRAY_INDEXES"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


def of_job(job: Object) -> Sequence[int]:
    """The index of each task, in the order of completion indexes; none if they have none."""
    spec = objects.spec(job)
    if spec.get("completionMode") != "Indexed":
        return ()
    for container in objects.nested_list(spec, "template", "spec", "containers"):
        for variable in container.get("env") or ():
            if variable.get("name") == VARIABLE:
                words = str(variable.get("value", "")).split()
                return tuple(int(word) for word in words if word.isdecimal())
    return range(int(spec.get("completions") or 0))


def of_pod(indexes: Sequence[int], pod: Object) -> int | None:
    """The index of the task that a pod runs; `indexes` are those of its Job."""
    number = str(objects.annotations(pod).get(COMPLETION_INDEX, ""))
    return indexes[int(number)] if number.isdecimal() and int(number) < len(indexes) else None
