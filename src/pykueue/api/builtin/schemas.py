"""Schemas of the kinds that are not Kueue's own, by name. Asked by `kinds`."""

import functools
from importlib import resources

from pykueue.api.builtin.notation import Types
from pykueue.api.scheme import Schema

_FILES = ("kubernetes.types", "frameworks.types")
_OTHER_NAMES = {("events.k8s.io", "Event"): "EventsEvent"}
"""Kinds whose type cannot bear their name, because another has it."""


@functools.cache
def types() -> Types:
    folder = resources.files(__package__)
    return Types((folder / file).read_text() for file in _FILES)


def of_kind(group: str, kind: str) -> Schema:
    """The schema of a whole object."""
    body = types().schema(_OTHER_NAMES.get((group, kind), kind))
    head: Schema = {
        "apiVersion": {"type": "string", "description": "Version of the schema in which this object is written."},
        "kind": {"type": "string", "description": "What this object is."},
        "metadata": types().schema("ObjectMeta"),
    }
    return {**body, "properties": head | body["properties"]}
