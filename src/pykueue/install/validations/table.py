"""A table of rules and of the variables that they use, for one kind."""

from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from pykueue.api.scheme import Object

IS_UPDATE = "oldObject != null"
NEW, OLD = "dyn(object)", "dyn(oldObject)"
"""The object without its static type.

The CRD of a cluster may lack a field that a rule uses, and the type check would warn of it.
"""

Entry = Callable[[str], str]
"""CEL for the value of a label or annotation by its key; "" if it is absent."""


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """A value that rules call `variables.NAME`.

    It must have a value for every object, because an evaluation error would refuse the object.
    """

    name: str
    cel: str

    def schema(self) -> Object:
        return {"name": self.name, "expression": self.cel}


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """The condition `cel` must hold where `when` holds."""

    when: str = "true"
    cel: str
    message: str

    def schema(self) -> Object:
        text = self.cel if self.when == "true" else f"!({self.when}) || ({self.cel})"
        return {"expression": text, "message": self.message}

    def under(self, condition: str) -> "Validation":
        return replace(self, when=condition if self.when == "true" else f"({condition}) && ({self.when})")


def under(condition: str, validations: Iterable[Validation]) -> list[Validation]:
    return [validation.under(condition) for validation in validations]


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """`conditions` are match conditions as (name, CEL) pairs; they cannot use the variables."""

    validations: tuple[Validation, ...]
    variables: tuple[Variable, ...] = ()
    conditions: tuple[tuple[str, str], ...] = ()


METADATA = (
    Variable(name="labels", cel="object.metadata.?labels.orValue({})"),
    Variable(name="annotations", cel="object.metadata.?annotations.orValue({})"),
    Variable(name="oldLabels", cel="oldObject == null ? {} : oldObject.metadata.?labels.orValue({})"),
    Variable(name="oldAnnotations", cel="oldObject == null ? {} : oldObject.metadata.?annotations.orValue({})"),
)


def label(key: str) -> str:
    return f"variables.labels[?'{key}'].orValue('')"


def old_label(key: str) -> str:
    return f"variables.oldLabels[?'{key}'].orValue('')"


def annotation(key: str) -> str:
    return f"variables.annotations[?'{key}'].orValue('')"


def old_annotation(key: str) -> str:
    return f"variables.oldAnnotations[?'{key}'].orValue('')"
