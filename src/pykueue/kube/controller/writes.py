"""What a controller asks the API to do, as values.

Reconcilers are functions without I/O that return these actions, in one of two forms:

- a `Plan`: actions in order. The executor raises the first refusal, and the work queue retries.
- a `Sync`: a generator that yields batches of actions and is sent one result for each action, a
  `Refused` where the API refused. A test can stop it between any two writes, as a crash would.
"""

from collections.abc import Generator, Sequence
from typing import Any

import msgspec

from pykueue.api import objects
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS


class Create(msgspec.Struct, frozen=True, kw_only=True):
    resource: Resource
    object: Object


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """Change an object from `old` to `new` by a merge patch guarded by the version of `old`.

    With `status` only the status is written, without it everything but the status.
    """

    resource: Resource
    old: Object
    new: Object
    status: bool = False

    @property
    def object(self) -> Object:
        return self.old

    @property
    def patch(self) -> Object:
        if self.status:
            return {"status": merge_patch(objects.status(self.old), objects.status(self.new))}
        patch = merge_patch(self.old, self.new)
        patch.pop("status", None)
        return patch


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """A merge patch; with `guarded` it is valid only for the version of `object`.

    With `by_key` lists such as conditions are merged by their keys, so that two writers do not
    undo each other.
    """

    resource: Resource
    object: Object
    patch: Object
    subresource: str = ""
    guarded: bool = True
    by_key: bool = False


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    resource: Resource
    object: Object
    propagation_policy: str = "Background"
    grace_period_seconds: int | None = None
    only_if_unchanged: bool = False
    """Refused with a conflict if the object has changed, so that a late request does no harm."""


class RemoveFinalizer(msgspec.Struct, frozen=True, kw_only=True):
    """Of a kind of Kubernetes itself: custom resources know no patch that takes from a list."""

    resource: Resource
    object: Object
    finalizer: str


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Record an event about an object; nothing waits for it and it cannot fail."""

    about: Object
    type: str = "Normal"
    reason: str
    message: str


Write = Create | Update | Patch | Delete | RemoveFinalizer
Action = Write | Event


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Reconcile again after `requeue_after_ns`; with 0 only when something changes."""

    actions: tuple[Action, ...] = ()
    requeue_after_ns: int = 0


class Refused(msgspec.Struct, frozen=True):
    """The API did not accept a write."""

    error: Exception


Result = Object | Refused
Batch = Sequence[Action]


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a sync: when to reconcile again (0: when something changes), and the refusals."""

    requeue_after_ns: int = 0
    errors: tuple[Exception, ...] = msgspec.field(default=())


Sync = Generator[Batch, list[Result], Done]
Step = Generator[Batch, list[Result], Any]


def refusals(results: Sequence[Result]) -> tuple[Exception, ...]:
    return tuple(result.error for result in results if isinstance(result, Refused))


def after_seconds(seconds: float | None) -> int:
    """`requeue_after_ns` of a time in seconds; None means: when something changes."""
    return 0 if seconds is None else max(1, int(seconds * SECOND_NS))


def changes(resource: Resource, old: Object, new: Object) -> list[Action]:
    """The updates from `old` to `new`; the status first, before a last finalizer goes."""
    updates: list[Action] = []
    if objects.status(old) != objects.status(new):
        updates.append(Update(resource=resource, old=old, new=new, status=True))
    if {**old, "status": None} != {**new, "status": None}:
        updates.append(Update(resource=resource, old=old, new=new))
    return updates


def merge_patch(old: Object, new: Object) -> Object:
    """The JSON merge patch (RFC 7386) that turns `old` into `new`; {} if they are equal."""
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
