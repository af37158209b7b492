"""What a controller asks the API to do, as values: a plan is a list of these, carried out in order.

Pure functions return them; `apply.py` carries them out. A write is described by the object before and after, and becomes
the smallest merge patch, guarded by the version that was read.
"""

import msgspec

from pykueue.api.scheme import Object, Resource


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """Change an object from `old` to `new`; `status` alone decides whether its status or the rest is written."""

    resource: Resource
    old: Object
    new: Object
    status: bool = False


class Create(msgspec.Struct, frozen=True, kw_only=True):
    resource: Resource
    object: Object


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    resource: Resource
    object: Object
    propagation_policy: str = ""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Record an event about an object."""

    about: Object
    reason: str
    message: str
    warning: bool = False


Action = Write | Create | Delete | Event


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`requeue_after_ns`: look again after so long (0: when something changes)."""

    actions: tuple[Action, ...] = ()
    requeue_after_ns: int = 0


def changes(resource: Resource, old: Object, new: Object) -> list[Action]:
    """The writes that lead from `old` to `new`: status first, so that a finalizer goes last."""
    writes: list[Action] = []
    if (old.get("status") or {}) != (new.get("status") or {}):
        writes.append(Write(resource=resource, old=old, new=new, status=True))
    if {**old, "status": None} != {**new, "status": None}:
        writes.append(Write(resource=resource, old=old, new=new))
    return writes


def merge_patch(old: Object, new: Object) -> Object:
    """The JSON merge patch (RFC 7386) that turns `old` into `new`."""
    patch: Object = {}
    for name in {**old, **new}:
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            patch[name] = merge_patch(before, after)
        else:
            patch[name] = after
    return patch
