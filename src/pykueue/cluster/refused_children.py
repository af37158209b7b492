"""Reports children that the API refuses to create, on the owner that waits for them.

Without this, an owner whose template is invalid would wait for ever, and only the log of pykueue
would say why.
"""

import re
from datetime import datetime

from pykueue.api import conditions, objects, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.cluster import statuses
from pykueue.kube.controller import writes
from pykueue.kube.controller.controller import Sync

CONDITION = "ReplicaFailure"
"""Kubernetes' condition of ReplicaSets and Deployments whose pods are refused."""
REASON = "FailedCreate"
_TRANSIENT = (404, 409, 429)
"""Codes of refusals that the next sync may not meet: an old cache, or no capacity."""


def reporting(resource: Resource, sync: Sync) -> Sync:
    """A sync that also emits an event and sets a condition when a child is refused."""

    def sync_and_report(owner: Object, children: list[Object], now: datetime) -> writes.Sync:
        if "spec" not in owner:  # the definition of the kind may not require it
            owner = {**owner, "spec": {}}
        inner = sync(owner, children, now)
        current, error, is_reported = owner, "", False
        try:
            batch = next(inner)
            while True:
                results = yield batch
                for action, result in zip(batch, results, strict=True):
                    is_reported |= isinstance(action, writes.Event) and action.reason == REASON
                    error = error or _refusal(action, result)
                    current = _newest(current, result)
                batch = inner.send(results)
        except StopIteration as stop:
            done: writes.Done = stop.value
        if error and not is_reported:
            yield [writes.Event(about=owner, type="Warning", reason=REASON, message=f"Error creating: {error}")]
        refused = yield from statuses.write(resource, current, _status(current, resource, error, now))
        return writes.Done(requeue_after_ns=done.requeue_after_ns, errors=(*done.errors, *refused))

    return sync_and_report


def _refusal(action: writes.Action, result: writes.Result) -> str:
    """The message of a refused creation; empty for everything else."""
    if not isinstance(action, writes.Create) or not isinstance(result, writes.Refused):
        return ""
    error = result.error
    is_final = isinstance(error, ApiError) and 400 <= error.code < 500 and error.code not in _TRANSIENT
    return str(error) if is_final else ""


def _newest(owner: Object, result: writes.Result) -> Object:
    if isinstance(result, writes.Refused) or not result or objects.uid(result) != objects.uid(owner):
        return owner
    return result


def _status(owner: Object, resource: Resource, error: str, now: datetime) -> Object:
    status = objects.status(owner)
    if resource == resources.RAY_JOB:
        return _ray_job_status(status, error)
    stored = objects.nested_list(owner, "status", "conditions")
    present = conditions.find(owner, CONDITION)
    if error:
        if present is not None and _without_names(present["message"]) == _without_names(error):
            return status
        condition = {"type": CONDITION, "status": "True", "reason": REASON, "message": error}
        return status | {"conditions": conditions.replaced(stored, condition, now)}
    if present is not None:
        return status | {"conditions": [condition for condition in stored if condition["type"] != CONDITION]}
    return status


def _ray_job_status(status: Object, error: str) -> Object:
    """A RayJob has no conditions, but a message."""
    message = str(status.get("message", ""))
    if error and _without_names(message) != _without_names(f"{REASON}: {error}"):
        return status | {"message": f"{REASON}: {error}"}
    if not error and message.startswith(f"{REASON}: "):
        return {name: value for name, value in status.items() if name != "message"}
    return status


def _without_names(message: str) -> str:
    """The message without quoted names.

    A child may have another random name in every sync. Were the condition written each time, the
    change would start the next sync at once.
    """
    return re.sub(r'"[^"]*"', "", message)
