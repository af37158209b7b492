"""Label and field selectors: as text in requests, and as `LabelSelector` objects in specs.

The embedded API filters lists and watches with them; controllers match namespaces and nodes.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec

from pykueue.api import errors, selector_text
from pykueue.api.rules import syntax

Labels = Mapping[str, str]


class Requirement(msgspec.Struct, frozen=True):
    """One term of a label selector; `operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
        return _TESTS[self.operator](labels.get(self.key), self.values)


def _compares(is_right: Callable[[int, int], bool]) -> Callable[[str | None, Collection[str]], bool]:
    def test(value: str | None, values: Collection[str]) -> bool:
        try:
            return is_right(int(value or ""), int(next(iter(values))))
        except ValueError:
            return False

    return test


_TESTS: dict[str, Callable[[str | None, Collection[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": _compares(lambda value, bound: value > bound),
    "Lt": _compares(lambda value, bound: value < bound),
}


def matches(requirements: Iterable[Requirement], labels: Labels | None) -> bool:
    return not requirements or all(requirement.matches(labels or {}) for requirement in requirements)


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Parse a label selector such as `app=web,tier in (a, b),!canary`; ApiError 400 on errors."""
    requirements = tuple(
        Requirement(key, operator, frozenset(values)) for key, operator, values in selector_text.label_terms(text)
    )
    for requirement in requirements:
        _check(requirement)
    return requirements


def _check(requirement: Requirement) -> None:
    if syntax.label_key(requirement.key):
        raise errors.bad_request(
            f'unable to parse requirement: <nil>: Invalid value: "{requirement.key}": '
            f"name part {syntax.QUALIFIED_NAME_EXPLANATION}"
        )
    for value in requirement.values:
        if syntax.label_value(value):
            raise errors.bad_request(
                f'unable to parse requirement: values[0][{requirement.key}]: Invalid value: "{value}": '
                f"{syntax.LABEL_VALUE_EXPLANATION}"
            )


def from_object(selector: Mapping[str, Any] | None) -> tuple[Requirement, ...] | None:
    """The terms of a `LabelSelector`: None (absent) matches nothing, an empty one everything."""
    if selector is None:
        return None
    equal = [Requirement(key, "In", frozenset({value})) for key, value in (selector.get("matchLabels") or {}).items()]
    expressions = [
        Requirement(expression["key"], expression["operator"], frozenset(expression.get("values") or ()))
        for expression in selector.get("matchExpressions") or ()
    ]
    return (*equal, *expressions)


def to_text(selector: Mapping[str, Any]) -> str:
    """A `LabelSelector` as text, sorted by key: `app=web,!legacy,tier in (a,b)`."""
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


def selects(selector: Mapping[str, Any], labels: Labels) -> bool:
    """Whether a `LabelSelector` of a spec matches; an empty selector matches everything."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(
        _TESTS[expression["operator"]](labels.get(expression["key"]), expression.get("values") or ())
        for expression in selector.get("matchExpressions") or ()
    )


class FieldRequirement(msgspec.Struct, frozen=True):
    path: str
    value: str
    is_equal: bool

    def matches(self, value: str) -> bool:
        return (value == self.value) is self.is_equal


def parse_fields(text: str, supported: Iterable[str]) -> tuple[FieldRequirement, ...]:
    """Parse a field selector such as `metadata.name=a,spec.nodeName!=b`; ApiError 400 if wrong."""
    requirements = tuple(
        FieldRequirement(path, value, is_equal) for path, is_equal, value in selector_text.field_terms(text)
    )
    for requirement in requirements:
        if requirement.path not in supported:
            raise errors.bad_request(f"field label not supported: {requirement.path}")
    return requirements


def field_value(obj: Mapping[str, Any], path: str) -> str:
    """The value of a field as selectors compare it: "" if absent, else as in JSON."""
    value: Any = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
