"""Label and field selectors: as text in requests, and as `LabelSelector` objects in specs.

The embedded API filters lists and watches with them; controllers match namespaces and nodes with them.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pykueue.api import errors

Labels = Mapping[str, str]

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SET = re.compile(r"\s*(\S+?)\s+(in|notin)\s*\(([^()]*)\)\s*")
_COMPARISON = re.compile(r"\s*([^\s=!<>]+)\s*(==|=|!=|>|<)\s*([^\s=!<>]*)\s*")
_EXISTENCE = re.compile(r"\s*(!?)\s*([^\s=!<>()]+)\s*")
_OUTSIDE_PARENTHESES = re.compile(r",(?![^()]*\))")


@dataclass(frozen=True, slots=True)
class Requirement:
    """`operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
        return _TESTS[self.operator](labels.get(self.key), self.values)


def _compares(is_right: Callable[[int, int], bool]) -> Callable[[str | None, frozenset[str]], bool]:
    def test(value: str | None, values: frozenset[str]) -> bool:
        try:
            return is_right(int(value or ""), int(next(iter(values))))
        except ValueError:
            return False

    return test


_TESTS: dict[str, Callable[[str | None, frozenset[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": _compares(lambda value, bound: value > bound),
    "Lt": _compares(lambda value, bound: value < bound),
}


def matches(requirements: Iterable[Requirement], labels: Labels | None) -> bool:
    return all(requirement.matches(labels or {}) for requirement in requirements)


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Read a label selector such as `app=web,tier in (a, b),!canary`; ApiError 400 if it is none."""
    return tuple(_label_requirement(part) for part in _OUTSIDE_PARENTHESES.split(text)) if text.strip() else ()


def _label_requirement(part: str) -> Requirement:
    if found := _SET.fullmatch(part):
        key, word, values = found.groups()
        operator = "In" if word == "in" else "NotIn"
        requirement = Requirement(key, operator, frozenset(value.strip() for value in values.split(",")))
    elif found := _COMPARISON.fullmatch(part):
        key, sign, value = found.groups()
        operator = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}[sign]
        requirement = Requirement(key, operator, frozenset({value}))
    elif found := _EXISTENCE.fullmatch(part):
        negation, key = found.groups()
        requirement = Requirement(key, "DoesNotExist" if negation else "Exists")
    else:
        found_word = part.split()[1] if len(part.split()) > 1 else part.strip()
        raise errors.bad_request(
            f"unable to parse requirement: found '{found_word}', expected: in, notin, =, ==, !=, gt, lt"
        )
    _check(requirement)
    return requirement


def _check(requirement: Requirement) -> None:
    prefix, slash, name = requirement.key.rpartition("/")
    if not _NAME.fullmatch(name) or len(name) > 63 or (slash and not _DOMAIN.fullmatch(prefix)):
        raise errors.bad_request(
            f'unable to parse requirement: <nil>: Invalid value: "{requirement.key}": name part must consist of '
            "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
            "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        )
    for value in requirement.values:
        if value and (not _NAME.fullmatch(value) or len(value) > 63):
            raise errors.bad_request(
                f'unable to parse requirement: values[0][{requirement.key}]: Invalid value: "{value}": a valid label '
                "must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
                "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
                "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            )


def from_object(selector: Mapping[str, Any] | None) -> tuple[Requirement, ...] | None:
    """A `LabelSelector` of a spec; None (an absent selector) matches nothing, an empty one everything."""
    if selector is None:
        return None
    equal = [Requirement(key, "In", frozenset({value})) for key, value in (selector.get("matchLabels") or {}).items()]
    expressions = [
        Requirement(each["key"], each["operator"], frozenset(each.get("values") or ()))
        for each in selector.get("matchExpressions") or ()
    ]
    return (*equal, *expressions)


def to_text(selector: Mapping[str, Any]) -> str:
    """A `LabelSelector` as one line sorted by key (`app=web,!legacy,tier in (a,b)`); "" if it is empty."""
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
        text = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        terms.append((key, text[expression["operator"]]))
    return ",".join(term for _, term in sorted(terms))


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    path: str
    value: str
    is_equal: bool

    def matches(self, value: str) -> bool:
        return (value == self.value) is self.is_equal


def parse_fields(text: str, supported: Iterable[str]) -> tuple[FieldRequirement, ...]:
    """Read a field selector such as `metadata.name=a,status.phase!=Running`; ApiError 400 for fields not supported."""
    requirements = tuple(_field_requirement(part) for part in text.split(",") if part.strip())
    for requirement in requirements:
        if requirement.path not in supported:
            raise errors.bad_request(f"field label not supported: {requirement.path}")
    return requirements


def _field_requirement(part: str) -> FieldRequirement:
    found = re.fullmatch(r"\s*([^=!]+?)\s*(==|=|!=)(.*)", part)
    if found is None:
        raise errors.bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    path, sign, value = found.groups()
    return FieldRequirement(path, value.strip(), sign != "!=")


def field_value(obj: Mapping[str, Any], path: str) -> str:
    """The text of a field as selectors compare it: absent is empty, booleans and numbers as JSON has them."""
    value: Any = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
