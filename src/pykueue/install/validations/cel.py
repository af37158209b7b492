"""CEL for the syntax that many rules check: names, labels, quantities, selectors.

Each function takes the CEL of a value and returns the CEL of a condition on it. The regular
expressions are those of `api.rules.syntax`.
"""

from pykueue.api.rules import syntax

_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
"""`syntax.QUALIFIED_NAME` with its limit of 63 characters."""
TRUE_TEXTS = str(list(syntax.TRUE_TEXTS))
_FALSE_TEXTS = str(list(syntax.FALSE_TEXTS))
LARGEST_INT32 = 2**31 - 1


def is_dns_subdomain(value: str) -> str:
    return f"({value}.matches(r'^{syntax.DNS_SUBDOMAIN}$') && size({value}) <= 253)"


def is_domain_prefixed_path(value: str) -> str:
    """At most 63 characters, which also limits the domain."""
    return f'({value}.matches(r"^{syntax.DNS_SUBDOMAIN}/{syntax.URL_PATH}$") && size({value}) <= 63)'


def is_label_key(value: str) -> str:
    prefix = f"(!{value}.contains('/') || size({value}.split('/')[0]) <= 253)"
    return f"({value}.matches(r'^({syntax.DNS_SUBDOMAIN}/)?{_NAME}$') && {prefix})"


def is_label_value(value: str) -> str:
    return f"{value}.matches(r'^({_NAME})?$')"


def are_labels(labels: str) -> str:
    return f"{labels}.all(key, {is_label_key('key')} && {is_label_value(f'{labels}[key]')})"


def are_annotations(annotations: str) -> str:
    """Keys in any case, and a limited total size."""
    keys = f"{annotations}.all(key, {is_label_key('key.lowerAscii()')})"
    return f"{keys} && {annotations}.map(key, size(key) + size({annotations}[key])).sum() <= {syntax.LARGEST_ANNOTATIONS_BYTES}"


def are_toleration_keys(tolerations: str) -> str:
    return f"{tolerations}.all(t, t.?key.orValue('') == '' || {is_label_key('t.key')})"


def amount(value: str) -> str:
    """The quantity of a value that is a number or a string."""
    return f"quantity(string({value}))"


def is_not_negative(value: str) -> str:
    return f"{amount(value)}.compareTo(quantity('0')) >= 0"


def is_positive_number(text: str) -> str:
    return f"({text}.matches(r'^[+]?0*[0-9]{{1,18}}$') && {number(text)} > 0)"


def is_positive_int32(text: str) -> str:
    return f"({is_positive_number(text)} && {number(text)} <= {LARGEST_INT32})"


def number(text: str) -> str:
    return f"int({text}.replace('+', ''))"


def is_boolean(text: str) -> str:
    return f"({text} in {TRUE_TEXTS} || {text} in {_FALSE_TEXTS})"


def is_selector(selector: str) -> str:
    expressions = f"{selector}.matchExpressions"
    has_values = "has(e.values) && size(e.values) > 0"
    fits = f"(e.operator in ['In', 'NotIn'] ? ({has_values}) : !({has_values}))"
    is_operator = "e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist']"
    values = f"(!has(e.values) || e.values.all(v, {is_label_value('v')}))"
    requirement = f"{is_operator} && {fits} && {is_label_key('e.key')} && {values}"
    labels = f"(!has({selector}.matchLabels) || {are_labels(f'{selector}.matchLabels')})"
    return f"{labels} && (!has({expressions}) || {expressions}.all(e, {requirement}))"


def optional(field: str, text: str) -> str:
    """The condition `text`, if the field is present."""
    return f"(!has({field}) || {text})"


def at(start: str, path: tuple[str, ...], default: str) -> str:
    """The value at a path below an object, or the default where a part of the path is absent."""
    return f"{start}.?{'.?'.join(path)}.orValue({default})"


def is_condition_true(condition: str, obj: str = "object") -> str:
    conditions = at(obj, ("status", "conditions"), "[]")
    return f"{conditions}.exists(c, c.type == '{condition}' && c.status == 'True')"


def has_no_duplicates(items: str) -> str:
    return f"{items}.all(one, {items}.filter(other, other == one).size() == 1)"


def same_elements(left: str, right: str) -> str:
    return f"{left}.all(x, x in {right}) && {right}.all(x, x in {left})"


def equal_but_for(left: str, right: str, fields: tuple[str, ...]) -> str:
    """Whether two objects are equal apart from these fields."""
    ignored = ", ".join(f"'{field}'" for field in fields)
    same = f"dyn({left}).all(k, k in [{ignored}] || (k in dyn({right}) && dyn({left})[k] == dyn({right})[k]))"
    return f"({same} && dyn({right}).all(k, k in [{ignored}] || k in dyn({left})))"
