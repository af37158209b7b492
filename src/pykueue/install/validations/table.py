"""A table of rules: the values that the rules speak of, by name, and the rules. Written by every module of this package."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pykueue.api.scheme import Object

IS_UPDATE = "oldObject != null"
NEW, OLD = "dyn(object)", "dyn(oldObject)"
"""The object without its type: a cluster's definition of a kind may lack a field, of which its type check would warn."""

Entry = Callable[[str], str]
"""CEL for the value of a label or annotation ("" if there is none), by its key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A value that rules call `variables.NAME`. It must have a value for every object: an error would refuse the object."""

    name: str
    cel: str

    def schema(self) -> Object:
        return {"name": self.name, "expression": self.cel}


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Where `when` holds, the text must hold: so rules need not repeat which fields are there."""

    when: str = "true"
    cel: str
    message: str

    def schema(self) -> Object:
        text = self.cel if self.when == "true" else f"!({self.when}) || ({self.cel})"
        return {"expression": text, "message": self.message}

    def under(self, condition: str) -> "Validation":
        return replace(self, when=condition if self.when == "true" else f"({condition}) && ({self.when})")


def under(condition: str, validations: Iterable[Validation]) -> list[Validation]:
    return [each.under(condition) for each in validations]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`conditions` say which objects the table is about: texts without variables, by name."""

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
