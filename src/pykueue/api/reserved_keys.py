"""The annotations that only pykueue writes, and how they are found in what a user sends.

A component of the local cluster notes there what it has decided: the GPUs of a pod, the ports of a
group, the component that a pod stands for. The API server refuses these keys from everybody else,
wherever they are in an object, because templates become pods.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from pykueue.api.scheme import Object

GPU_INDEXES = "pykueue.dev/gpu-indexes"
"""The kubelet: the GPUs of a pod."""
PORT_GROUP = "pykueue.dev/group"
"""Operators: the group of pods that share mapped ports."""
LOCAL_NAMES = "pykueue.dev/local-names"
"""Operators: the host names of a group."""
LOCAL_PORTS = "pykueue.dev/local-ports"
"""Operators: the ports that a group uses."""
COMPONENT = "pykueue.dev/mirror"
"""`pykueue up`: the component that a pod stands for."""

MEMORY_LIMIT = "pykueue.dev/memory-limit"
"""With `ignore`, memory limits are not enforced: of a pod of Ray by the operator, of all pods of a
Namespace by its administrator."""

DEFAULT_QUEUES = "pykueue.dev/default-queues"
"""`pykueue up`: the Namespace `default` has got its queue, or needs none."""

_PREFIX = b'"pykueue.dev/'
RESERVED = frozenset({GPU_INDEXES, PORT_GROUP, LOCAL_NAMES, LOCAL_PORTS, COMPONENT, MEMORY_LIMIT, DEFAULT_QUEUES})


def changes(new: Object, old: Object | None) -> list[str]:
    """The paths at which a reserved key was added, changed or removed."""
    old = old or {}
    new, old = _differing(new, old), _differing(old, new)
    if not _may_have_entries(new) and not _may_have_entries(old):
        return []
    after, before = dict(_entries("", new)), dict(_entries("", old))
    return [path for path in sorted(after.keys() | before.keys()) if after.get(path) != before.get(path)]


def _differing(obj: Object, other: Object) -> Object:
    """The top-level fields that another object does not have, or has with another value."""
    return {name: value for name, value in obj.items() if name not in other or other[name] != value}


def _may_have_entries(obj: Object) -> bool:
    """Whether the JSON has the prefix of the keys: a search in a text is faster than a walk."""
    return _PREFIX in msgspec.json.encode(obj)


def _entries(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every reserved key below a value, with its path and its value."""
    pending = [(path, value)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict):
            for key, item in value.items():
                if key in RESERVED:
                    yield f"{path}[{key}]", item
                elif isinstance(item, dict | list) and key != "managedFields":
                    pending.append((f"{path}.{key}" if path else key, item))
        else:
            pending += [(f"{path}[{index}]", item) for index, item in enumerate(value) if isinstance(item, dict | list)]
