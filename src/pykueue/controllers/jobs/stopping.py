"""Stops a job: suspends it, restores the templates from its Workload and records an event."""

from pykueue.api import conditions
from pykueue.api.json_copy import copied
from pykueue.api.labels import STOPPING
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import injection
from pykueue.kube.controller.writes import Action, Event, Update
from pykueue.translate.jobs import framework
from pykueue.translate.jobs.framework import JobFramework, JobOptions


def stop(
    kind: JobFramework, job: Object, workload: Object | None, *, message: str, options: JobOptions
) -> list[Action]:
    if framework.is_suspended(kind, job):
        return _ejected(kind, job, workload, options) if kind.changes_while_suspended else []
    event = Event(about=job, reason="Stopped", message=conditions.truncate(message, conditions.EVENT_MESSAGE_BYTES))
    info = injection.from_workload(workload)
    if kind.stops_in_steps:
        return _in_steps(kind, job, framework.restored(kind, job, info, options), event)
    if kind.changes_while_suspended:
        suspended = framework.suspended(kind, job)
        return [
            Update(resource=kind.resource, old=job, new=suspended),
            event,
            *_ejected(kind, suspended, workload, options),
        ]
    stopped = framework.restored(kind, framework.suspended(kind, job), info, options)
    return [Update(resource=kind.resource, old=job, new=stopped), event]


def _ejected(kind: JobFramework, job: Object, workload: Object | None, options: JobOptions) -> list[Action]:
    """Removes the injected pod set infos of a suspended job once it has no active pods."""
    if kind.is_active(job):
        return []
    restored = framework.restored(kind, job, injection.from_workload(workload), options)
    return [] if restored == job else [Update(resource=kind.resource, old=job, new=restored)]


def _in_steps(kind: JobFramework, job: Object, restored: Object, event: Event) -> list[Action]:
    """A batch Job accepts the restored template only when it has no start time and no pods.

    The annotation `stopping` marks a Job whose template is not restored yet.
    """
    marked = framework.suspended(kind, job)
    marked["metadata"].setdefault("annotations", {})[STOPPING] = "true"
    has_begun = marked == job  # a user may have resumed a marked Job
    actions: list[Action] = [] if has_begun else [Update(resource=kind.resource, old=job, new=marked), event]
    reset = copied(marked)
    status = reset.get("status") or {}
    if status.pop("startTime", None) is not None:
        actions.append(Update(resource=kind.resource, old=marked, new=reset, status=True))
    if status.get("active"):
        return actions
    final = framework.suspended(kind, restored)
    final["metadata"].get("annotations", {}).pop(STOPPING, None)
    final["status"] = reset.get("status", {})
    return [*actions, Update(resource=kind.resource, old=reset, new=final)]
