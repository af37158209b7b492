"""Creates and deletes the pods of an owner, and records the events of Kubernetes' controllers.

A short request may ask for billions of pods. `batch` takes from them what a controller creates in
one sync; each pod that is created or gets a node lets the controller look again.
"""

import itertools
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.kube.controller import writes

T = TypeVar("T")

MOST_PER_SYNC = 500
"""Kubernetes' bound for the pods that one sync creates."""
MOST_WAITING = 5000
"""So many children of one owner may wait for a node (or exist, if they are not pods)."""
MOST_AT_ONCE = 50
"""So many writes of one sync are under way; requests of users get their turn in between."""
_FIRST_BATCH = 1


@dataclass(slots=True)
class PodControlResult:
    """The pods that were created or deleted, and the refusals of the others."""

    pods: list[Object] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)


Change = Generator[writes.Batch, list[writes.Result], PodControlResult]


def batch(missing: Iterable[T], waiting: int) -> list[T]:
    """The first of the missing children, as many as may be created now. Visits no others."""
    return list(itertools.islice(missing, max(0, min(MOST_PER_SYNC, MOST_WAITING - waiting))))


def waiting(pods: Iterable[Object]) -> int:
    """How many of these pods have no node."""
    return sum(not objects.spec(pod).get("nodeName") for pod in pods)


def create(owner: Object, pods: Sequence[Object]) -> Change:
    """Create pods with a slow start (one, two, four … fifty), so that a refusal comes once."""
    outcome = PodControlResult()
    size = _FIRST_BATCH
    while pods and not outcome.errors:
        batch, pods = pods[:size], pods[size:]
        results = yield [writes.Create(resource=resources.POD, object=pod) for pod in batch]
        yield [_creation_event(owner, outcome, result) for result in results]
        size = min(2 * size, MOST_AT_ONCE)
    return outcome


def _creation_event(owner: Object, outcome: PodControlResult, result: writes.Result) -> writes.Event:
    if isinstance(result, writes.Refused):
        outcome.errors.append(result.error)
        return writes.Event(
            about=owner, type="Warning", reason="FailedCreate", message=f"Error creating: {result.error}"
        )
    outcome.pods.append(result)
    return writes.Event(
        about=owner, type="Normal", reason="SuccessfulCreate", message=f"Created pod: {objects.name(result)}"
    )


def delete(owner: Object, pods: Sequence[Object]) -> Change:
    outcome = PodControlResult()
    if not pods:
        return outcome
    results = yield [writes.Delete(resource=resources.POD, object=pod) for pod in pods]
    yield [_deletion_event(owner, outcome, pod, result) for pod, result in zip(pods, results, strict=True)]
    return outcome


def _deletion_event(owner: Object, outcome: PodControlResult, pod: Object, result: writes.Result) -> writes.Event:
    if isinstance(result, writes.Refused):
        outcome.errors.append(result.error)
        return writes.Event(
            about=owner, type="Warning", reason="FailedDelete", message=f"Error deleting: {result.error}"
        )
    outcome.pods.append(pod)
    return writes.Event(about=owner, reason="SuccessfulDelete", message=f"Deleted pod: {objects.name(pod)}")
