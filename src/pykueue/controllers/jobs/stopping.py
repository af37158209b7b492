"""How a job is stopped: suspended, its templates restored to what its Workload kept, and told why."""

from pykueue.api import conditions
from pykueue.api.json_copy import copied
from pykueue.api.labels import STOPPING
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import injection
from pykueue.kube.controller.plan import Action, Event, Write
from pykueue.translate.jobs import framework
from pykueue.translate.jobs.framework import JobFramework, JobOptions


def stop(kind: JobFramework, job: Object, workload: Object | None, *, why: str, options: JobOptions) -> list[Action]:
    if framework.is_suspended(kind, job):
        return _tidied(kind, job, workload, options) if kind.changes_while_suspended else []
    event = Event(about=job, reason="Stopped", message=conditions.truncate(why, conditions.EVENT_MESSAGE_BYTES))
    info = injection.from_workload(workload)
    if kind.stops_in_steps:
        return _in_steps(kind, job, framework.restored(kind, job, info, options), event)
    if kind.changes_while_suspended:
        suspended = framework.suspended(kind, job)
        return [
            Write(resource=kind.resource, old=job, new=suspended),
            event,
            *_tidied(kind, suspended, workload, options),
        ]
    stopped = framework.restored(kind, framework.suspended(kind, job), info, options)
    return [Write(resource=kind.resource, old=job, new=stopped), event]


def _tidied(kind: JobFramework, job: Object, workload: Object | None, options: JobOptions) -> list[Action]:
    """A suspended job without what its admission gave; as long as it has pods, they are left what they run with."""
    if kind.is_active(job):
        return []
    restored = framework.restored(kind, job, injection.from_workload(workload), options)
    return [] if restored == job else [Write(resource=kind.resource, old=job, new=restored)]


def _in_steps(kind: JobFramework, job: Object, restored: Object, event: Event) -> list[Action]:
    """A batch Job takes back its template only without a start time and without pods.

    The annotation tells that the last step is due; a Job that loses its last pod is looked at again.
    """
    marked = framework.suspended(kind, job)
    annotations = marked["metadata"].setdefault("annotations", {})
    is_begun = STOPPING in annotations
    annotations[STOPPING] = "true"
    actions: list[Action] = [] if is_begun else [Write(resource=kind.resource, old=job, new=marked), event]
    reset = copied(marked)
    status = reset.get("status") or {}
    if status.pop("startTime", None) is not None:
        actions.append(Write(resource=kind.resource, old=marked, new=reset, status=True))
    if status.get("active"):
        return actions
    final = framework.suspended(kind, restored)
    final["metadata"].get("annotations", {}).pop(STOPPING, None)
    final["status"] = reset.get("status", {})
    return [*actions, Write(resource=kind.resource, old=reset, new=final)]
