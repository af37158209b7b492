"""CEL for the syntax that many rules check: names, labels, quantities, selectors. Regular expressions are those of Kubernetes.

Each function takes the CEL of a value and gives the CEL of a condition on it. Used by the tables of validations.
"""

_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"


def is_dns_subdomain(value: str) -> str:
    return f"({value}.matches(r'^{_DNS_SUBDOMAIN}$') && size({value}) <= 253)"


def is_label_key(value: str) -> str:
    prefix = f"(!{value}.contains('/') || size({value}.split('/')[0]) <= 253)"
    return f"({value}.matches(r'^({_DNS_SUBDOMAIN}/)?{_NAME}$') && {prefix})"


def is_label_value(value: str) -> str:
    return f"{value}.matches(r'^({_NAME})?$')"


def are_labels(labels: str) -> str:
    return f"{labels}.all(key, {is_label_key('key')} && {is_label_value(f'{labels}[key]')})"


def amount(value: str) -> str:
    """Written as a number or as a text."""
    return f"quantity(string({value}))"


def is_not_negative(value: str) -> str:
    return f"{amount(value)}.compareTo(quantity('0')) >= 0"


def is_positive_number(text: str) -> str:
    return f"({text}.matches(r'^[+]?[0-9]{{1,18}}$') && int({text}.replace('+', '')) > 0)"


def is_selector(selector: str) -> str:
    expressions = f"{selector}.matchExpressions"
    has_values = "has(e.values) && size(e.values) > 0"
    fits = f"(e.operator in ['In', 'NotIn'] ? ({has_values}) : !({has_values}))"
    known = "e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist']"
    values = f"(!has(e.values) || e.values.all(v, {is_label_value('v')}))"
    requirement = f"{known} && {fits} && {is_label_key('e.key')} && {values}"
    labels = f"(!has({selector}.matchLabels) || {are_labels(f'{selector}.matchLabels')})"
    return f"{labels} && (!has({expressions}) || {expressions}.all(e, {requirement}))"


def entry(kind: str, key: str, obj: str = "object") -> str:
    """The value of a label or annotation ("" if there is none); `kind` is labels or annotations."""
    place = f"{obj}.metadata.{kind}"
    return f"(has({place}) && '{key}' in {place} ? {place}['{key}'] : '')"


def has_entry(kind: str, key: str, obj: str = "object") -> str:
    place = f"{obj}.metadata.{kind}"
    return f"(has({place}) && '{key}' in {place})"


def is_condition_true(condition: str, obj: str = "object") -> str:
    place = f"{obj}.status.conditions"
    is_it = f"c.type == '{condition}' && c.status == 'True'"
    return f"(has({obj}.status) && has({place}) && {place}.exists(c, {is_it}))"
