"""CEL for the syntax that many rules check: names, labels, quantities, selectors. Regular expressions are those of Kubernetes.

Each function takes the CEL of a value and gives the CEL of a condition on it. Used by the tables of validations.
"""

_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_URL_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_ANNOTATIONS_BYTES = 256 * 1024
TRUTHS = "['1', 't', 'T', 'TRUE', 'true', 'True']"
FALSEHOODS = "['0', 'f', 'F', 'FALSE', 'false', 'False']"
LARGEST_INT32 = 2**31 - 1


def is_dns_subdomain(value: str) -> str:
    return f"({value}.matches(r'^{_DNS_SUBDOMAIN}$') && size({value}) <= 253)"


def is_domain_prefixed_path(value: str) -> str:
    """Of at most 63 characters, so that the domain cannot be too long."""
    return f'({value}.matches(r"^{_DNS_SUBDOMAIN}/{_URL_PATH}$") && size({value}) <= 63)'


def is_label_key(value: str) -> str:
    prefix = f"(!{value}.contains('/') || size({value}.split('/')[0]) <= 253)"
    return f"({value}.matches(r'^({_DNS_SUBDOMAIN}/)?{_NAME}$') && {prefix})"


def is_label_value(value: str) -> str:
    return f"{value}.matches(r'^({_NAME})?$')"


def are_labels(labels: str) -> str:
    return f"{labels}.all(key, {is_label_key('key')} && {is_label_value(f'{labels}[key]')})"


def are_annotations(annotations: str) -> str:
    """Keys in any case, and not too much altogether."""
    keys = f"{annotations}.all(key, {is_label_key('key.lowerAscii()')})"
    return f"{keys} && {annotations}.map(key, size(key) + size({annotations}[key])).sum() <= {_ANNOTATIONS_BYTES}"


def are_toleration_keys(tolerations: str) -> str:
    return f"{tolerations}.all(t, t.?key.orValue('') == '' || {is_label_key('t.key')})"


def amount(value: str) -> str:
    """Written as a number or as a text."""
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
    return f"({text} in {TRUTHS} || {text} in {FALSEHOODS})"


def is_selector(selector: str) -> str:
    expressions = f"{selector}.matchExpressions"
    has_values = "has(e.values) && size(e.values) > 0"
    fits = f"(e.operator in ['In', 'NotIn'] ? ({has_values}) : !({has_values}))"
    known = "e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist']"
    values = f"(!has(e.values) || e.values.all(v, {is_label_value('v')}))"
    requirement = f"{known} && {fits} && {is_label_key('e.key')} && {values}"
    labels = f"(!has({selector}.matchLabels) || {are_labels(f'{selector}.matchLabels')})"
    return f"{labels} && (!has({expressions}) || {expressions}.all(e, {requirement}))"


def optional(field: str, text: str) -> str:
    """The condition `text`, which need not hold where the field is absent."""
    return f"(!has({field}) || {text})"


def at(start: str, path: tuple[str, ...], default: str) -> str:
    """The value at a path below an object that is there, or the default."""
    return f"{start}.?{'.?'.join(path)}.orValue({default})"


def is_condition_true(condition: str, obj: str = "object") -> str:
    conditions = at(obj, ("status", "conditions"), "[]")
    return f"{conditions}.exists(c, c.type == '{condition}' && c.status == 'True')"


def no_doubles(items: str) -> str:
    return f"{items}.all(one, {items}.filter(other, other == one).size() == 1)"


def same_elements(left: str, right: str) -> str:
    return f"{left}.all(x, x in {right}) && {right}.all(x, x in {left})"


def equal_but_for(left: str, right: str, fields: tuple[str, ...]) -> str:
    """Two objects are the same apart from these fields."""
    ignored = ", ".join(f"'{field}'" for field in fields)
    same = f"dyn({left}).all(k, k in [{ignored}] || (k in dyn({right}) && dyn({left})[k] == dyn({right})[k]))"
    return f"({same} && dyn({right}).all(k, k in [{ignored}] || k in dyn({left})))"
