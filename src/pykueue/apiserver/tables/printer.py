"""A printer: the columns of a kind, and the function that computes the cells of an object.

The modules of builtin columns define `Printer`s with these functions; `render` uses them. Stored
objects are valid, so the functions read them with `api.objects`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pykueue.api import objects, selectors
from pykueue.api.scheme import Object
from pykueue.apiserver.tables import ages

NONE = "<none>"
UNKNOWN = "<unknown>"

Cells = Callable[[Object, float], list[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    def definition(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class Printer:
    headers: tuple[Header, ...]
    cells: Cells


def headers(*texts: str) -> tuple[Header, ...]:
    """`"Desired:integer"` has a type, `"~Images"` is only printed with `-o wide`."""
    columns = []
    for text in texts:
        name, _, kind = text.lstrip("~").partition(":")
        columns.append(
            Header(
                name=name,
                type=kind or "string",
                format="name" if name == "Name" else "",
                priority=1 if text.startswith("~") else 0,
            )
        )
    return tuple(columns)


def age(obj: Object, now: float) -> str:
    return ages.age(obj["metadata"].get("creationTimestamp"), now)


def created_at(obj: Object) -> str:
    return str(obj["metadata"].get("creationTimestamp") or UNKNOWN)


def value(obj: Object, *path: str) -> Any:
    """The value at a path of field names, or None."""
    return objects.nested(obj, *path[:-1]).get(path[-1])


def count(obj: Object, *path: str) -> int:
    return int(value(obj, *path) or 0)


def text(obj: Object, *path: str, absent: str = "") -> str:
    content = value(obj, *path)
    return absent if content in (None, "") else str(content)


def joined(texts: Iterable[str], separator: str = ",", absent: str = NONE) -> str:
    return separator.join(texts) or absent


def labels(values: dict[str, Any]) -> str:
    return joined(f"{key}={values[key]}" for key in sorted(values))


def containers(template: Object) -> list[str]:
    """The Containers and Images cells of a pod template."""
    specs = objects.nested_list(template, "spec", "containers")
    return [",".join(text(spec, "name") for spec in specs), ",".join(text(spec, "image") for spec in specs)]


def label_selector(selector: Object) -> str:
    return selectors.to_text(selector) or NONE
