"""Creating and deleting pods for an owner, with the events that Kubernetes' controllers record about it."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.kube.controller import writes

_FIRST_BATCH = 1


@dataclass(slots=True)
class PodControlResult:
    """The pods for which it worked, and why it did not for others."""

    pods: list[Object] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)


Change = Generator[writes.Batch, list[writes.Result], PodControlResult]


def create(owner: Object, wanted: Sequence[Object]) -> Change:
    """Slow start: one pod, then two, four …, so that a refusal that holds for all is not repeated for each."""
    outcome = PodControlResult()
    size = _FIRST_BATCH
    while wanted and not outcome.errors:
        batch, wanted = wanted[:size], wanted[size:]
        results = yield [writes.Create(resource=resources.POD, object=pod) for pod in batch]
        yield [_told(owner, outcome, result) for result in results]
        size *= 2
    return outcome


def _told(owner: Object, outcome: PodControlResult, result: writes.Result) -> writes.Event:
    if isinstance(result, writes.Refused):
        outcome.errors.append(result.error)
        return writes.Event(
            about=owner, type="Warning", reason="FailedCreate", message=f"Error creating: {result.error}"
        )
    outcome.pods.append(result)
    return writes.Event(
        about=owner, type="Normal", reason="SuccessfulCreate", message=f"Created pod: {objects.name(result)}"
    )


def delete(owner: Object, some: Sequence[Object]) -> Change:
    outcome = PodControlResult()
    if not some:
        return outcome
    results = yield [writes.Delete(resource=resources.POD, object=pod) for pod in some]
    events: list[writes.Write] = []
    for pod, result in zip(some, results, strict=True):
        if isinstance(result, writes.Refused):
            outcome.errors.append(result.error)
            told = ("Warning", "FailedDelete", f"Error deleting: {result.error}")
        else:
            outcome.pods.append(pod)
            told = ("Normal", "SuccessfulDelete", f"Deleted pod: {objects.name(pod)}")
        events.append(writes.Event(about=owner, type=told[0], reason=told[1], message=told[2]))
    yield events
    return outcome
