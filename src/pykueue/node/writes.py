"""What a controller of the machine room wants written, as values.

A controller's `sync` is a generator: it yields batches of writes and is sent one result per write. So the whole order
of writes is plain code without I/O: the shell (`node.shell`) performs them through a client, and a test can stop
between any two of them, as a crash would.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pykueue.api.scheme import Object, Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    resource: Resource
    object: Object


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    resource: Resource
    object: Object
    propagation_policy: str = "Background"
    grace_period_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFinalizer:
    resource: Resource
    object: Object
    finalizer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A merge patch; with `guarded` it holds only for the version of `object` that the decision was made on.

    With `by_key` lists such as conditions are merged by their keys, so that two writers do not undo each other.
    """

    resource: Resource
    object: Object
    patch: Object
    subresource: str = ""
    guarded: bool = True
    by_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An Event about an object; nothing waits for it and it cannot fail."""

    about: Object
    type: str
    reason: str
    message: str


Write = Create | Delete | RemoveFinalizer | Patch | Record


@dataclass(frozen=True, slots=True)
class Refused:
    """The API did not accept a write."""

    error: Exception


Result = Object | Refused
Batch = Sequence[Write]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The end of a sync: when to look again if nothing happens before, and what went wrong on the way."""

    look_again_after: float | None = None
    errors: tuple[Exception, ...] = field(default=())


Sync = Generator[Batch, list[Result], Done]
Step = Generator[Batch, list[Result], Any]


def refusals(results: Sequence[Result]) -> tuple[Exception, ...]:
    return tuple(result.error for result in results if isinstance(result, Refused))


def merge_patch(old: Object, new: Object) -> Object:
    """The merge patch (RFC 7386) that turns `old` into `new`; {} if they are equal."""
    patch: Object = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif isinstance(value, dict) and isinstance(old[key], dict):
            if inner := merge_patch(old[key], value):
                patch[key] = inner
        elif value != old[key]:
            patch[key] = value
    return patch
