"""Objects drawn from a structural schema: their structure is valid, CEL rules may refuse them."""

import re

from hypothesis import strategies as st

NAMES = ["a", "main", "x1", "gpu", "default", "Foo", "team.example", "example.com/label", "kubernetes.io/hostname"]
SCALARS = {
    "integer": st.integers(0, 5),
    "number": st.sampled_from([0, 1.5]),
    "boolean": st.booleans(),
}


def objects(kind):
    """Whole objects of a registered kind, with a name."""
    properties = {name: part for name, part in kind.schema["properties"].items() if name not in HEAD}
    body = value({**kind.schema, "properties": properties})
    return body.map(
        lambda drawn: {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "one"}} | drawn
    )


HEAD = {"apiVersion", "kind", "metadata"}


def value(schema):
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.sampled_from([0, 2, "1", "500m", "3Gi", "1e3"])
    kind = schema.get("type")
    if kind == "object":
        return _object(schema)
    if kind == "array":
        return _array(schema)
    if kind == "string":
        return _text(schema)
    if kind == "integer":
        least = schema.get("minimum", 0)
        return st.integers(least, least + 4)
    return SCALARS.get(kind, st.sampled_from([{"kept": [1, None, "x"]}, "text", 3]))


def _object(schema):
    if "additionalProperties" in schema:
        return st.dictionaries(st.sampled_from(NAMES), value(schema["additionalProperties"]), max_size=2)
    properties = schema.get("properties")
    if not properties:
        template = {"spec": {"containers": [{"name": "c", "args": ["yes", "1"]}]}}
        return st.just(template if schema.get("x-kubernetes-preserve-unknown-fields") else {})
    required = set(schema.get("required", ()))
    return st.fixed_dictionaries(
        {name: value(part) for name, part in properties.items() if name in required},
        optional={name: value(part) for name, part in properties.items() if name not in required},
    )


def _array(schema):
    least = schema.get("minItems", 0)
    keys = schema.get("x-kubernetes-list-map-keys")
    unique = {}
    if keys:
        unique["unique_by"] = lambda item: tuple(item.get(key) for key in keys)
    elif schema.get("x-kubernetes-list-type") == "set":
        unique["unique"] = True
    return st.lists(value(schema["items"]), min_size=least, max_size=max(least, 2), **unique)


def _text(schema):
    if schema.get("format") == "date-time":
        return st.sampled_from(["2026-01-15T12:00:00Z", "2026-01-15T12:00:00.123456+01:00"])
    pattern = re.sub(r"\(\?i\)", "", schema.get("pattern", ""))
    flags = re.IGNORECASE if "(?i)" in schema.get("pattern", "") else 0
    return st.sampled_from(
        [name for name in NAMES if re.search(pattern, name, flags) and len(name) <= schema.get("maxLength", 99)]
    )
