"""The shape of a printer: the headers of a kind, and the cells of one object.

Every module of builtin columns makes `Printer`s from these parts; `render` uses them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

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
    """`"Desired:integer"` has a type, `"~Images"` shows only with `-o wide`, `"Name"` is the object's name."""
    made = []
    for text in texts:
        name, _, kind = text.lstrip("~").partition(":")
        made.append(
            Header(
                name=name,
                type=kind or "string",
                format="name" if name == "Name" else "",
                priority=1 if text.startswith("~") else 0,
            )
        )
    return tuple(made)


def name(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))


def age(obj: Object, now: float) -> str:
    return ages.age(obj["metadata"].get("creationTimestamp"), now)


def created_at(obj: Object) -> str:
    return str(obj["metadata"].get("creationTimestamp") or UNKNOWN)


def part(obj: Object, *path: str) -> Any:
    """The value at a path of field names, or None."""
    value: Any = obj
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def mapping(obj: Object, *path: str) -> dict[str, Any]:
    value = part(obj, *path)
    return value if isinstance(value, dict) else {}


def items(obj: Object, *path: str) -> list[dict[str, Any]]:
    value = part(obj, *path)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def count(obj: Object, *path: str, absent: int = 0) -> int:
    value = part(obj, *path)
    return value if isinstance(value, int) else absent


def text(obj: Object, *path: str, absent: str = "") -> str:
    value = part(obj, *path)
    return absent if value in (None, "") else str(value)


def condition(obj: Object, kind: str) -> dict[str, Any]:
    return next((each for each in items(obj, "status", "conditions") if each.get("type") == kind), {})


def is_true(obj: Object, kind: str) -> bool:
    return condition(obj, kind).get("status") == "True"


def joined(texts: Iterable[str], separator: str = ",", absent: str = NONE) -> str:
    return separator.join(texts) or absent


def labels(value: dict[str, Any]) -> str:
    return joined(f"{key}={value[key]}" for key in sorted(value))


def containers(template: dict[str, Any]) -> list[str]:
    """The Containers and Images cells of a pod template."""
    specs = items(template, "spec", "containers")
    return [",".join(text(each, "name") for each in specs), ",".join(text(each, "image") for each in specs)]


_SELECTOR_WORDS = {"In": "in", "NotIn": "notin"}


def label_selector(selector: dict[str, Any]) -> str:
    """A LabelSelector as one line: `app=web,tier in (a,b),!legacy`."""
    terms = [f"{key}={value}" for key, value in sorted(mapping(selector, "matchLabels").items())]
    for expression in items(selector, "matchExpressions"):
        key, operator = text(expression, "key"), text(expression, "operator")
        if operator in _SELECTOR_WORDS:
            values = ",".join(sorted(map(str, expression.get("values") or [])))
            terms.append(f"{key} {_SELECTOR_WORDS[operator]} ({values})")
        else:
            terms.append(f"!{key}" if operator == "DoesNotExist" else key)
    return joined(sorted(terms))
