"""The syntax of names, labels, annotations and selectors, with the explanations that Kubernetes gives.

Functions named after a thing (`dns_subdomain`) return the explanations of what is wrong with a text; functions named
`check_…` return field errors.
"""

import functools
import re
from collections.abc import Mapping
from typing import Any

from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading

LABEL_VALUE_LENGTH = 63
_ANNOTATIONS_BYTES = 256 * 1024

_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_DNS_1035_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_NAME})?"
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_CONDITION_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"

_ENDS = "and must start and end with an alphanumeric character"
_CHARACTERS = f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"


def _wrong(explanation: str, pattern: str, *examples: str) -> str:
    if not examples:
        return f"{explanation} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{explanation} (e.g. {shown}regex used for validation is '{pattern}')"


def _matches(pattern: str, value: str) -> bool:
    return re.fullmatch(pattern, value, re.ASCII) is not None


_remembered = functools.lru_cache(maxsize=8192)
"""The same few names pass here with every write."""


@_remembered
def dns_label(value: str) -> tuple[str, ...]:
    found = [] if len(value) <= 63 else ["must be no more than 63 characters"]
    if not _matches(_DNS_LABEL, value):
        explanation = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}"
        found.append(_wrong(explanation, _DNS_LABEL, "my-name", "123-abc"))
    return tuple(found)


@_remembered
def dns_1035_label(value: str) -> tuple[str, ...]:
    """The names of Services."""
    explanations = [] if len(value) <= 63 else ["must be no more than 63 characters"]
    if not _matches(_DNS_1035_LABEL, value):
        explanation = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character"
        )
        explanations.append(_wrong(explanation, _DNS_1035_LABEL, "my-name", "abc-123"))
    return tuple(explanations)


def path_segment(value: str) -> tuple[str, ...]:
    """The names of roles and role bindings."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{character}'" for character in "/%" if character in value)


@_remembered
def dns_subdomain(value: str) -> tuple[str, ...]:
    found = [] if len(value) <= 253 else ["must be no more than 253 characters"]
    if not _matches(_DNS_SUBDOMAIN, value):
        explanation = (
            f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}"
        )
        found.append(_wrong(explanation, _DNS_SUBDOMAIN, "example.com"))
    return tuple(found)


@_remembered
def label_key(value: str) -> tuple[str, ...]:
    """Also the syntax of resource names and condition types."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        words = _wrong(_CHARACTERS, _NAME, "MyName", "my.name", "123-abc")
        return (f"a valid label key {words} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    found = []
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    elif slash:
        found += [f"prefix part {explanation}" for explanation in dns_subdomain(prefix)]
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append("name part must be no more than 63 bytes")
    if not _matches(_NAME, name):
        found.append("name part " + _wrong(_CHARACTERS, _NAME, "MyName", "my.name", "123-abc"))
    return tuple(found)


@_remembered
def label_value(value: str) -> tuple[str, ...]:
    found = [] if len(value) <= LABEL_VALUE_LENGTH else [f"must be no more than {LABEL_VALUE_LENGTH} bytes"]
    if not _matches(_LABEL_VALUE, value):
        explanation = (
            f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
        )
        found.append(_wrong(explanation, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return tuple(found)


def check_label_key(path: str, key: str) -> list[FieldError]:
    return [faults.invalid(path, key, explanation) for explanation in label_key(key)]


def check_labels(path: str, labels: Mapping[str, str]) -> list[FieldError]:
    found = []
    for key, value in labels.items():
        found += check_label_key(path, key)
        found += [faults.invalid(path, value, explanation) for explanation in label_value(value)]
    return found


def check_annotations(path: str, annotations: Mapping[str, str]) -> list[FieldError]:
    found = [faults.invalid(path, key, words) for key in annotations for words in label_key(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_BYTES:
        found.append(faults.too_long(path, _ANNOTATIONS_BYTES))
    return found


def check_domain_prefixed_path(path: str, value: str) -> list[FieldError]:
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [faults.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    found = [faults.invalid(path, host, explanation) for explanation in dns_subdomain(host)]
    if not _matches(_PATH, rest):
        found.append(faults.invalid(path, rest, _wrong("Invalid path", _PATH)))
    return found


def check_label_selector(path: str, selector: Any) -> list[FieldError]:
    found = check_labels(f"{path}.matchLabels", reading.text_map(reading.at(selector, "matchLabels")))
    for index, expression in enumerate(reading.mappings(reading.at(selector, "matchExpressions"))):
        found += _check_requirement(f"{path}.matchExpressions[{index}]", expression)
    return found


def _check_requirement(path: str, expression: Mapping[str, Any]) -> list[FieldError]:
    found = []
    operator, values = expression.get("operator", ""), reading.texts(expression.get("values"))
    if operator in ("In", "NotIn"):
        if not values:
            found.append(faults.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(faults.forbidden(f"{path}.values", detail))
    else:
        found.append(faults.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    found += check_label_key(f"{path}.key", reading.text(expression.get("key")))
    for index, value in enumerate(values):
        found += [faults.invalid(f"{path}.values[{index}]", value, words) for words in label_value(value)]
    return found


def check_conditions(path: str, conditions: list[Any]) -> list[FieldError]:
    """`metav1.Condition` lists, as in the status of a Workload."""
    found = []
    seen: set[str] = set()
    for index, condition in enumerate(reading.mappings(conditions)):
        here, kind = f"{path}[{index}]", reading.text(condition.get("type"))
        if kind in seen:
            found.append(faults.duplicate(f"{here}.type", kind))
        seen.add(kind)
        found += _check_condition(here, condition)
    return found


@_remembered
def _is_condition_reason(value: str) -> bool:
    return _matches(_CONDITION_REASON, value)


def _check_condition(path: str, condition: Mapping[str, Any]) -> list[FieldError]:
    found = check_label_key(f"{path}.type", reading.text(condition.get("type")))
    if condition.get("status") not in ("True", "False", "Unknown"):
        choices = ("False", "True", "Unknown")
        found.append(faults.not_supported(f"{path}.status", condition.get("status", ""), choices))
    generation = reading.integer(condition.get("observedGeneration"))
    if generation < 0:
        detail = "must be greater than or equal to zero"
        found.append(faults.invalid(f"{path}.observedGeneration", generation, detail))
    if not condition.get("lastTransitionTime"):
        found.append(faults.required(f"{path}.lastTransitionTime"))
    reason = reading.text(condition.get("reason"))
    if not reason:
        found.append(faults.required(f"{path}.reason"))
    elif not _is_condition_reason(reason):
        explanation = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
        examples = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
        found.append(faults.invalid(f"{path}.reason", reason, _wrong(explanation, _CONDITION_REASON, *examples)))
    if len(reason) > 1024:
        found.append(faults.too_long(f"{path}.reason", 1024))
    if len(reading.text(condition.get("message"))) > 32768:
        found.append(faults.too_long(f"{path}.message", 32768))
    return found
