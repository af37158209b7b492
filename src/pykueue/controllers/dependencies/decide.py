"""Decides when the gate of a Job that waits for other Jobs is removed. Pure.

The annotation `pykueue.dev/after` names the Jobs, each with what it waits for: `ok:prepare,any:x`.
The gate in Kueue's annotation `kueue.x-k8s.io/admission-gated-by` keeps the Job out of its queue.
"""

from collections.abc import Callable, Iterator

from pykueue.api import conditions, objects, resources
from pykueue.api.labels import ADMISSION_GATED_BY, AFTER
from pykueue.api.rules.admission_gates import gate_names
from pykueue.api.scheme import Object
from pykueue.kube.controller.writes import Event, Patch, Plan

GATE = AFTER
OK, NOT_OK, ANY = "ok", "notok", "any"
"""The Job must complete, must fail, or must end."""
_ENDS = {OK: ("Complete",), NOT_OK: ("Failed",), ANY: ("Complete", "Failed")}

Job = Callable[[str], Object | None]
"""The Job of a name in the same namespace; None if there is none."""


def dependencies(job: Object) -> Iterator[tuple[str, str]]:
    """What the Job waits for, and the name of the Job that it waits for."""
    for part in objects.annotations(job).get(AFTER, "").split(","):
        kind, colon, name = part.strip().partition(":")
        if kind or name:
            yield (kind, name) if colon else (OK, kind)


def is_gated(job: Object) -> bool:
    return GATE in gate_names(job)


def plan(job: Object, find: Job) -> Plan:
    """Remove the gate if every Job has ended as it should.

    A Job that is gone has ended, nobody knows how. If a Job is gone or ended otherwise than it
    should, the waiting one stays gated, and an event says why.
    """
    if not is_gated(job):
        return Plan()
    remaining = obstacles(job, find)
    if not remaining:
        return Plan(actions=(_ungated(job), Event(about=job, reason="DependenciesEnded", message=_all_ended(job))))
    failures = [message for message, is_final in remaining if is_final]
    if failures:
        text = f"{'; '.join(failures)}. Delete this Job, or remove its gate {GATE}."
        return Plan(actions=(Event(about=job, type="Warning", reason="DependencyNeverSatisfied", message=text),))
    return Plan()


def obstacles(job: Object, find: Job) -> list[tuple[str, bool]]:
    """Why the Job must still wait, for each Job, and whether that is for ever."""
    return [obstacle for kind, name in dependencies(job) if (obstacle := _obstacle(kind, name, find(name)))]


def _obstacle(kind: str, name: str, job: Object | None) -> tuple[str, bool] | None:
    """Why the Job of this name must still be waited for, and whether that is for ever."""
    ends = _ENDS.get(kind)
    if ends is None:
        return f"{kind!r} in annotation {AFTER} is none of {', '.join(_ENDS)}", True
    if job is None:
        return None if kind == ANY else (f"Job {name} does not exist", True)
    end = next((type_ for type_ in _ENDS[ANY] if conditions.is_true(job, type_)), "")
    if end in ends:
        return None
    return (f"Job {name} ended as {end}", True) if end else (f"Job {name} has not ended", False)


def _all_ended(job: Object) -> str:
    return f"The Jobs it waited for have ended: {', '.join(name for _, name in dependencies(job))}"


def _ungated(job: Object) -> Patch:
    rest = ",".join(name for name in gate_names(job) if name != GATE)
    annotations = {ADMISSION_GATED_BY: rest or None}
    return Patch(resource=resources.JOB, object=job, patch={"metadata": {"annotations": annotations}})
