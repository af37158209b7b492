"""Creates and deletes the pods of an owner, and records the events of Kubernetes' controllers."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.kube.controller import writes

_FIRST_BATCH = 1


@dataclass(slots=True)
class PodControlResult:
    """The pods that were created or deleted, and the refusals of the others."""

    pods: list[Object] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)


Change = Generator[writes.Batch, list[writes.Result], PodControlResult]


def create(owner: Object, pods: Sequence[Object]) -> Change:
    """Create pods with a slow start (one, two, four …), so that a refusal comes once."""
    outcome = PodControlResult()
    size = _FIRST_BATCH
    while pods and not outcome.errors:
        batch, pods = pods[:size], pods[size:]
        results = yield [writes.Create(resource=resources.POD, object=pod) for pod in batch]
        yield [_creation_event(owner, outcome, result) for result in results]
        size *= 2
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
