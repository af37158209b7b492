"""The syntax of names, labels, annotations, selectors and numbers.

The explanations are those of Kubernetes and of Go. Functions that are named after a syntax
(`dns_subdomain`) return explanations of what is wrong with a text; functions named `check_…`
return field errors. `install.validations.cel` uses the same patterns in CEL.
"""

import re
from collections.abc import Mapping
from typing import Any

from pykueue.api import text_cache
from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading

LABEL_VALUE_LENGTH = 63
LARGEST_ANNOTATIONS_BYTES = 256 * 1024

DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
DNS_1035_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
QUALIFIED_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
LABEL_VALUE = f"({QUALIFIED_NAME})?"
URL_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
CONFIG_MAP_KEY = "[-._a-zA-Z0-9]+"
HTTP_HEADER_NAME = "[-A-Za-z0-9]+"
CONDITION_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"

TRUE_TEXTS = ("1", "t", "T", "TRUE", "true", "True")
FALSE_TEXTS = ("0", "f", "F", "FALSE", "false", "False")

_ENDS = "and must start and end with an alphanumeric character"


def _explanation(explanation: str, pattern: str, *examples: str) -> str:
    if not examples:
        return f"{explanation} (regex used for validation is '{pattern}')"
    examples_text = " or ".join(f"'{example}', " for example in examples)
    return f"{explanation} (e.g. {examples_text}regex used for validation is '{pattern}')"


def _matches(pattern: str, value: str) -> bool:
    return re.fullmatch(pattern, value, re.ASCII) is not None


DNS_SUBDOMAIN_EXPLANATION = _explanation(
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}",
    DNS_SUBDOMAIN,
    "example.com",
)
QUALIFIED_NAME_EXPLANATION = _explanation(
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}",
    QUALIFIED_NAME,
    "MyName",
    "my.name",
    "123-abc",
)
LABEL_VALUE_EXPLANATION = _explanation(
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS}",
    LABEL_VALUE,
    "MyValue",
    "my_value",
    "12345",
)

_cached = text_cache.cached(8192)
"""Caches results, because every write checks the same few names."""


@_cached
def dns_label(value: str) -> tuple[str, ...]:
    explanations = [] if len(value) <= 63 else ["must be no more than 63 characters"]
    if "." in value and _matches(DNS_SUBDOMAIN, value):
        explanations.append("must not contain dots")
    elif not _matches(DNS_LABEL, value):
        explanation = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}"
        explanations.append(_explanation(explanation, DNS_LABEL, "my-name", "123-abc"))
    return tuple(explanations)


@_cached
def dns_1035_label(value: str) -> tuple[str, ...]:
    """The names of Services."""
    explanations = [] if len(value) <= 63 else ["must be no more than 63 characters"]
    if not _matches(DNS_1035_LABEL, value):
        explanation = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character"
        )
        explanations.append(_explanation(explanation, DNS_1035_LABEL, "my-name", "abc-123"))
    return tuple(explanations)


def path_segment(value: str) -> tuple[str, ...]:
    """The names of roles and role bindings."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{character}'" for character in "/%" if character in value)


@_cached
def dns_subdomain(value: str) -> tuple[str, ...]:
    explanations = [] if len(value) <= 253 else ["must be no more than 253 characters"]
    if not _matches(DNS_SUBDOMAIN, value):
        explanations.append(DNS_SUBDOMAIN_EXPLANATION)
    return tuple(explanations)


@_cached
def label_key(value: str) -> tuple[str, ...]:
    """Check a label key; resource names and condition types have the same syntax."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        suffix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {QUALIFIED_NAME_EXPLANATION} {suffix}",)
    explanations = []
    if slash and not prefix:
        explanations.append("prefix part must be non-empty")
    elif slash:
        if len(prefix) > 253:
            explanations.append("prefix part must be no more than 253 bytes")
        if not _matches(DNS_SUBDOMAIN, prefix):
            explanations.append(f"prefix part {DNS_SUBDOMAIN_EXPLANATION}")
    if not name:
        explanations.append("name part must be non-empty")
    elif len(name) > 63:
        explanations.append("name part must be no more than 63 bytes")
    if not _matches(QUALIFIED_NAME, name):
        explanations.append(f"name part {QUALIFIED_NAME_EXPLANATION}")
    return tuple(explanations)


@_cached
def label_value(value: str) -> tuple[str, ...]:
    explanations = [] if len(value) <= LABEL_VALUE_LENGTH else [f"must be no more than {LABEL_VALUE_LENGTH} bytes"]
    if not _matches(LABEL_VALUE, value):
        explanations.append(LABEL_VALUE_EXPLANATION)
    return tuple(explanations)


@_cached
def config_map_key(value: str) -> tuple[str, ...]:
    """The keys of ConfigMaps and Secrets, which become file names."""
    explanations = [] if len(value) <= 253 else ["must be no more than 253 characters"]
    if not _matches(CONFIG_MAP_KEY, value):
        explanation = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        explanations.append(_explanation(explanation, CONFIG_MAP_KEY, "key.name", "KEY_NAME", "key-name"))
    if value in (".", ".."):
        explanations.append(f"must not be '{value}'")
    elif value.startswith(".."):
        explanations.append("must not start with '..'")
    return tuple(explanations)


@_cached
def variable_name(value: str) -> tuple[str, ...]:
    if all(" " <= character <= "~" and character != "=" for character in value):
        return ()
    return ("a valid environment variable name must consist only of printable ASCII characters other than '='",)


@_cached
def port_name(value: str) -> tuple[str, ...]:
    explanations = [] if len(value) <= 15 else ["must be no more than 15 characters"]
    if not _matches("[-a-z0-9]+", value):
        explanations.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= character <= "z" for character in value):
        explanations.append("must contain at least one letter (a-z)")
    if "--" in value:
        explanations.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        explanations.append("must not begin or end with a hyphen")
    return tuple(explanations)


def http_header_name(value: str) -> tuple[str, ...]:
    if _matches(HTTP_HEADER_NAME, value):
        return ()
    explanation = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return (_explanation(explanation, HTTP_HEADER_NAME, "X-Header-Name"),)


def outside(lowest: int, highest: int) -> str:
    return f"must be between {lowest} and {highest}, inclusive"


def check_dns_label(path: str, value: str) -> list[FieldError]:
    return [faults.invalid(path, value, explanation) for explanation in dns_label(value)]


def check_dns_subdomain(path: str, value: str) -> list[FieldError]:
    return [faults.invalid(path, value, explanation) for explanation in dns_subdomain(value)]


def check_label_key(path: str, key: str) -> list[FieldError]:
    return [faults.invalid(path, key, explanation) for explanation in label_key(key)]


def check_labels(path: str, labels: Mapping[str, str]) -> list[FieldError]:
    field_errors = []
    for key, value in labels.items():
        if explanations := label_key(key):
            field_errors += [faults.invalid(path, key, explanation) for explanation in explanations]
        if explanations := label_value(value):
            field_errors += [faults.invalid(path, value, explanation) for explanation in explanations]
    return field_errors


def check_annotations(path: str, annotations: Mapping[str, str]) -> list[FieldError]:
    if not annotations:
        return []
    field_errors = [faults.invalid(path, key, words) for key in annotations for words in label_key(key.lower())]
    return field_errors + _check_annotations_size(path, annotations)


def _check_annotations_size(path: str, annotations: Mapping[str, str]) -> list[FieldError]:
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    return [faults.too_long(path, LARGEST_ANNOTATIONS_BYTES)] if size > LARGEST_ANNOTATIONS_BYTES else []


def check_user_annotations(path: str, annotations: Mapping[str, str]) -> list[FieldError]:
    """Check what a pod tells the signer of its certificate. The keys have a prefix."""
    field_errors = []
    for key in map(str.lower, annotations):
        key_errors = check_label_key(path, key) if key else [faults.required(path)]
        if not key_errors and "/" not in key:
            key_errors = [faults.invalid(path, key, 'must be a domain-prefixed key (such as "acme.io/foo")')]
        field_errors += key_errors
    return field_errors + _check_annotations_size(path, annotations)


def check_domain_prefixed_path(path: str, value: str) -> list[FieldError]:
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [faults.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    field_errors = [faults.invalid(path, host, explanation) for explanation in dns_subdomain(host)]
    if not _matches(URL_PATH, rest):
        field_errors.append(faults.invalid(path, rest, _explanation("Invalid path", URL_PATH)))
    return field_errors


def check_label_selector(path: str, selector: Any) -> list[FieldError]:
    field_errors = check_labels(f"{path}.matchLabels", reading.text_map(reading.at(selector, "matchLabels")))
    for index, expression in enumerate(reading.mappings(reading.at(selector, "matchExpressions"))):
        field_errors += _check_requirement(f"{path}.matchExpressions[{index}]", expression)
    return field_errors


def _check_requirement(path: str, expression: Mapping[str, Any]) -> list[FieldError]:
    field_errors = []
    operator, values = expression.get("operator", ""), reading.texts(expression.get("values"))
    if operator in ("In", "NotIn"):
        if not values:
            field_errors.append(
                faults.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
            )
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            field_errors.append(faults.forbidden(f"{path}.values", detail))
    else:
        field_errors.append(faults.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    field_errors += check_label_key(f"{path}.key", reading.text(expression.get("key")))
    for index, value in enumerate(values):
        field_errors += [faults.invalid(f"{path}.values[{index}]", value, words) for words in label_value(value)]
    return field_errors


def check_conditions(path: str, conditions: list[Any]) -> list[FieldError]:
    """Check a list of `metav1.Condition`, as in the status of a Workload."""
    field_errors = []
    types: set[str] = set()
    for index, condition in enumerate(reading.mappings(conditions)):
        here, condition_type = f"{path}[{index}]", reading.text(condition.get("type"))
        if condition_type in types:
            field_errors.append(faults.duplicate(f"{here}.type", condition_type))
        types.add(condition_type)
        field_errors += _check_condition(here, condition)
    return field_errors


@_cached
def _is_condition_reason(value: str) -> bool:
    return _matches(CONDITION_REASON, value)


def _check_condition(path: str, condition: Mapping[str, Any]) -> list[FieldError]:
    field_errors = check_label_key(f"{path}.type", reading.text(condition.get("type")))
    if condition.get("status") not in ("True", "False", "Unknown"):
        choices = ("False", "True", "Unknown")
        field_errors.append(faults.not_supported(f"{path}.status", condition.get("status", ""), choices))
    generation = reading.integer(condition.get("observedGeneration"))
    if generation < 0:
        detail = "must be greater than or equal to zero"
        field_errors.append(faults.invalid(f"{path}.observedGeneration", generation, detail))
    if not condition.get("lastTransitionTime"):
        field_errors.append(faults.required(f"{path}.lastTransitionTime"))
    reason = reading.text(condition.get("reason"))
    if not reason:
        field_errors.append(faults.required(f"{path}.reason"))
    elif not _is_condition_reason(reason):
        explanation = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
        examples = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
        field_errors.append(
            faults.invalid(f"{path}.reason", reason, _explanation(explanation, CONDITION_REASON, *examples))
        )
    if len(reason) > 1024:
        field_errors.append(faults.too_long(f"{path}.reason", 1024))
    if len(reading.text(condition.get("message"))) > 32768:
        field_errors.append(faults.too_long(f"{path}.message", 32768))
    return field_errors


class GoSyntaxError(ValueError):
    """The text cannot be parsed; the message is that of Go's strconv."""


def atoi(text: str, bits: int = 64) -> int:
    if re.fullmatch(r"[+-]?\d+", text, re.ASCII) is None:
        raise GoSyntaxError(f'strconv.Atoi: parsing "{text}": invalid syntax')
    digits = text.lstrip("+-").lstrip("0")
    value = int(text) if len(digits) <= 20 else 2**bits
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise GoSyntaxError(f'strconv.Atoi: parsing "{text}": value out of range')
    return value


def parse_bool(text: str) -> bool:
    if text not in TRUE_TEXTS and text not in FALSE_TEXTS:
        raise GoSyntaxError(f'strconv.ParseBool: parsing "{text}": invalid syntax')
    return text in TRUE_TEXTS
