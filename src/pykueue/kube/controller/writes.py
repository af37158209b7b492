"""What a controller of the machine room wants written, as values.

A controller's `sync` is a generator: it yields batches of writes and is sent one result per write. So the whole order
of writes is plain code without I/O: the shell (`cluster.shell`) performs them through a client, and a test can stop
between any two of them, as a crash would.
"""

from collections.abc import Generator, Sequence
from typing import Any

import msgspec

from pykueue.api.scheme import Object, Resource


class Create(msgspec.Struct, frozen=True, kw_only=True):
    resource: Resource
    object: Object


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    resource: Resource
    object: Object
    propagation_policy: str = "Background"
    grace_period_seconds: int | None = None


class RemoveFinalizer(msgspec.Struct, frozen=True, kw_only=True):
    resource: Resource
    object: Object
    finalizer: str


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """A merge patch; with `guarded` it holds only for the version of `object` that the decision was made on.

    With `by_key` lists such as conditions are merged by their keys, so that two writers do not undo each other.
    """

    resource: Resource
    object: Object
    patch: Object
    subresource: str = ""
    guarded: bool = True
    by_key: bool = False


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An Event about an object; nothing waits for it and it cannot fail."""

    about: Object
    type: str
    reason: str
    message: str


Write = Create | Delete | RemoveFinalizer | Patch | Event


class Refused(msgspec.Struct, frozen=True):
    """The API did not accept a write."""

    error: Exception


Result = Object | Refused
Batch = Sequence[Write]


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a sync: when to look again if nothing happens before, and what went wrong on the way."""

    look_again_after: float | None = None
    errors: tuple[Exception, ...] = msgspec.field(default=())


Sync = Generator[Batch, list[Result], Done]
Step = Generator[Batch, list[Result], Any]


def refusals(results: Sequence[Result]) -> tuple[Exception, ...]:
    return tuple(result.error for result in results if isinstance(result, Refused))


def merge_patch(old: Object, new: Object) -> Object:
    """The merge patch (RFC 7386) that turns `old` into `new`; {} if they are equal."""
    patch: Object = {name: None for name in old if name not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif isinstance(value, dict) and isinstance(old[key], dict):
            if inner := merge_patch(old[key], value):
                patch[key] = inner
        elif value != old[key]:
            patch[key] = value
    return patch
