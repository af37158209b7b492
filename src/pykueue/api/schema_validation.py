"""Validates objects by structural schemas, with the messages of the API server.

`validate` checks types, limits, list keys and CEL rules, on create and on update. As in
Kubernetes, an update is not refused for a value that it did not change. Called by `api.admission`
after defaulting.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from pykueue.api import quantity, text_formats
from pykueue.api.cel import rules as cel_rules
from pykueue.api.cel.errors import EvaluationError
from pykueue.api.cel.limits import Budget
from pykueue.api.errors import OMIT_VALUE, FieldError
from pykueue.api.meta import QUANTITY
from pykueue.api.schema import PerSchema
from pykueue.api.scheme import Object, Schema

UNCHECKED = FieldError(
    "FieldValueInvalid",
    "<nil>",
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
    None,
)
_BLOCKING = {
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
}
_ABSENT = object()
_FORMATS = {"boolean": "", "object": "", "integer": "int64", "number": "float64"}
"""The format that the API server names for a value that is not a string."""
_INTEGERS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def validate(
    schema: Schema, obj: Object, old: Object | None = None, *, has_valid_structure: bool = False
) -> list[FieldError]:
    """All errors of the object, those of its structure first.

    CEL rules run only on an object with a valid structure.
    """
    before: Any = _ABSENT if old is None else old
    errors = [] if has_valid_structure else list(_structure(schema, _body(obj), before, ""))
    duplicates = list(_duplicates(schema, _changed(obj, old), ""))
    if duplicates and (old is None or not any(_duplicates(schema, old, ""))):
        errors += duplicates
    if has_rules(schema):
        if any(error.reason in _BLOCKING for error in errors):
            errors.append(UNCHECKED)
        else:
            errors += _rules(schema, obj, before, "", budget=Budget())
    return errors


def structure_faults(schema: Schema, value: Any, path: str) -> list[FieldError]:
    """The errors of types, limits and required fields of a part of an object."""
    return list(_structure(schema, value, _ABSENT, path))


def _body(obj: Object) -> Object:
    """The object without its metadata, which has rules of its own."""
    if not isinstance(obj.get("metadata"), dict):
        return obj
    return {name: value for name, value in obj.items() if name != "metadata"}


def _changed(obj: Object, old: Object | None) -> Object:
    """The object without the fields that equal the old ones."""
    if old is None:
        return obj
    return {name: value for name, value in obj.items() if name not in old or old[name] != value}


def _structure(schema: Schema, value: Any, old: Any, path: str) -> Iterator[FieldError]:
    if old is not _ABSENT and value == old and type(value) is type(old):
        return
    fault = _type_fault(schema, value)
    if fault:
        expected, actual = fault
        detail = f'{path} in body must be of type {expected}: "{actual}"'
        yield FieldError("FieldValueTypeInvalid", path or "<nil>", detail, actual)
        if schema.get("type") == "integer" and isinstance(value, float):
            yield from _number(schema, value, path)
    elif isinstance(value, str):
        yield from _text(schema, value, path)
    elif isinstance(value, dict):
        yield from _object(schema, value, old, path)
    elif isinstance(value, list):
        yield from _list(schema, value, old, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number(schema, value, path)
    if fault is None and schema.get("pattern") == QUANTITY and not _is_quantity(schema, value):
        yield _invalid(path, value, "is too long for a quantity")
    enum = schema.get("enum")
    if enum is not None and value is not None and value not in enum:
        supported = ", ".join(json.dumps(one if isinstance(one, str) else json.dumps(one)) for one in enum)
        yield FieldError("FieldValueNotSupported", path, f"supported values: {supported}", _as_go_prints(value))
    if "allOf" in schema or "oneOf" in schema or "not" in schema or "anyOf" in schema:
        yield from _combinations(schema, value, path)


def _is_quantity(schema: Schema, value: Any) -> bool:
    """Whether a value that matches the pattern of quantities can be read, too."""
    if isinstance(value, str) and not text_formats.pattern(schema["pattern"]).search(value):
        return True  # that fault is reported already
    try:
        quantity.parse(value)
    except ValueError:  # also of a number with more digits than Python prints
        return False
    return True


def _type_fault(schema: Schema, value: Any) -> tuple[str, str] | None:
    """The expected and the actual type, if they differ.

    Some messages have the format in place of the type.
    """
    expected = schema.get("type")
    actual = _json_type(value)
    if expected is None:
        if not schema.get("x-kubernetes-int-or-string") or actual in ("integer", "string"):
            return None
        is_whole = actual == "number" and float(value).is_integer()
        return None if is_whole else ("integer,string", actual)
    if actual == expected or (actual == "null" and schema.get("nullable")):
        return None
    if expected == "number" and actual == "integer":
        return None
    if expected == "integer" and actual == "number" and float(value).is_integer():
        return None
    if "format" in schema and actual in _FORMATS:
        return schema["format"], _FORMATS[actual]
    return expected, actual


def _json_type(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, int):
        return "integer"
    return "null" if value is None else "number"


def _text(schema: Schema, value: str, path: str) -> Iterator[FieldError]:
    """The error of the first limit that is exceeded, and that of the format."""
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if longest is not None and len(value) > longest:
        yield FieldError("FieldValueTooLong", path, f"may not be more than {longest} {_plural(longest, 'byte')}")
    elif shortest is not None and len(value) < shortest:
        yield _invalid(path, value, f"should be at least {shortest} chars long")
    elif pattern is not None and not text_formats.pattern(pattern).search(value):
        yield _invalid(path, value, f"should match '{pattern}'")
    text_format = schema.get("format")
    if text_format is not None and not text_formats.conforms(text_format, value):
        detail = f"{path} in body must be of type {text_format}: {json.dumps(value)}"
        yield FieldError("FieldValueTypeInvalid", path, detail, value)


def _number(schema: Schema, value: float, path: str) -> Iterator[FieldError]:
    if schema.get("type") == "integer":
        least, most = _INTEGERS.get(schema.get("format", ""), _INTEGERS["int64"])
        if not (least <= value <= most and value == int(value)):
            size = f"with format {schema['format']}" if "format" in schema else "(default format)"
            detail = f"Checked value must be of type integer {size} in {path}"
            yield FieldError("FieldValueInvalid", "<nil>", detail, "")
    minimum = schema.get("minimum")
    if minimum is not None:
        if schema.get("exclusiveMinimum"):
            if value <= minimum:
                yield _invalid(path, value, f"should be greater than {_go_number(minimum)}")
        elif value < minimum:
            yield _invalid(path, value, f"should be greater than or equal to {_go_number(minimum)}")
    maximum = schema.get("maximum")
    if maximum is not None:
        if schema.get("exclusiveMaximum"):
            if value >= maximum:
                yield _invalid(path, value, f"should be less than {_go_number(maximum)}")
        elif value > maximum:
            yield _invalid(path, value, f"should be less than or equal to {_go_number(maximum)}")
    factor = schema.get("multipleOf")
    if factor and (value / factor) % 1:
        yield _invalid(path, value, f"should be a multiple of {_go_number(factor)}")


def _object(schema: Schema, value: Object, old: Any, path: str) -> Iterator[FieldError]:
    most = schema.get("maxProperties")
    if most is not None and len(value) > most:
        yield _too_many(path, len(value), most)
    fewest = schema.get("minProperties")
    if fewest is not None and len(value) < fewest:
        yield _invalid(path, len(value), f"should have at least {fewest} properties")
    properties = schema.get("properties")
    additional = schema.get("additionalProperties")
    before = old if isinstance(old, dict) else None
    for name, inner in value.items():
        part = properties.get(name) if properties else None
        if part is None:
            if not isinstance(additional, dict):
                continue
            part = additional
        if type(inner) is _only_type(part):
            continue
        old_inner = before.get(name, _ABSENT) if before is not None else _ABSENT
        yield from _structure(part, inner, old_inner, f"{path}.{name}" if path else name)
    required = schema.get("required", ())
    if schema.get("x-kubernetes-embedded-resource"):
        required = [*required, *(name for name in ("apiVersion", "kind") if name not in required)]
    for name in required:
        if name not in value:
            yield FieldError("FieldValueRequired", f"{path}.{name}" if path else name)


def _list(schema: Schema, value: list[Any], old: Any, path: str) -> Iterator[FieldError]:
    most = schema.get("maxItems")
    if most is not None and len(value) > most:
        yield _too_many(path, len(value), most)
    fewest = schema.get("minItems")
    if fewest is not None and len(value) < fewest:
        yield _invalid(path, len(value), f"should have at least {fewest} items")
    if schema.get("uniqueItems") and _repeats([json.dumps(item, sort_keys=True) for item in value]):
        yield _invalid(path, value, "shouldn't contain duplicates")
    items = schema.get("items")
    if items:
        earlier = _earlier_items(schema, old)
        for index, item in enumerate(value):
            before = earlier.get(_key(schema, item), _ABSENT) if earlier else _ABSENT
            yield from _structure(items, item, before, f"{path}[{index}]")


def _combinations(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    def faults(part: Schema) -> list[FieldError]:
        return list(_structure(part, value, _ABSENT, path))

    if schema.get("anyOf"):
        attempts = [faults(part) for part in schema["anyOf"]]
        if all(attempts):
            yield _combination_error(path, "must validate at least one schema (anyOf)")
            yield from attempts[0]
    if schema.get("oneOf"):
        attempts = [faults(part) for part in schema["oneOf"]]
        valid = sum(not attempt for attempt in attempts)
        if valid != 1:
            outcome = "Found none valid" if valid == 0 else f"Found {valid} valid alternatives"
            yield _combination_error(path, f"must validate one and only one schema (oneOf). {outcome}")
            if valid == 0:
                yield from attempts[0]
    if "allOf" in schema:
        attempts = [faults(part) for part in schema["allOf"]]
        for attempt in attempts:
            yield from attempt
        if any(attempts):
            tail = ". None validated" if all(attempts) else ""
            yield _combination_error(path, f"must validate all the schemas (allOf){tail}")
    if "not" in schema and not faults(schema["not"]):
        yield _combination_error(path, "must not validate the schema (not)")


def _combination_error(path: str, what: str) -> FieldError:
    return FieldError("FieldValueInvalid", "<nil>", f'"{path}" {what}', "")


def _invalid(path: str, value: Any, should: str) -> FieldError:
    return FieldError("FieldValueInvalid", path, f"{path} in body {should}", _as_go_prints(value))


def _as_go_prints(value: Any) -> Any:
    """A whole number without decimal point, as Go prints it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _too_many(path: str, count: int, most: int) -> FieldError:
    return FieldError("FieldValueTooMany", path, f"{count}: must have at most {most} {_plural(most, 'item')}")


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


def _go_number(value: float) -> str:
    return re.sub(r"e([+-])0?(\d)$", r"e\g<1>0\2", f"{value:.17g}") if isinstance(value, float) else str(value)


def _duplicates(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    """Duplicate items of sets and duplicate keys of list-maps, anywhere in the object."""
    if isinstance(value, dict):
        for name, part in _keyed_parts(schema):
            if name in value:
                yield from _duplicates(part, value[name], f"{path}.{name}" if path else name)
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict) and _has_keyed_lists(additional):
            for name in [name for name in value if name not in schema.get("properties", ())]:
                yield from _duplicates(additional, value[name], f"{path}[{name}]")
    elif isinstance(value, list):
        yield from _repeated_items(schema, value, path)
        items = schema.get("items")
        if items and _has_keyed_lists(items):
            for index, item in enumerate(value):
                yield from _duplicates(items, item, f"{path}[{index}]")


def _repeated_items(schema: Schema, value: list[Any], path: str) -> Iterator[FieldError]:
    list_type = schema.get("x-kubernetes-list-type")
    if "x-kubernetes-patch-strategy" in schema:  # lists of Kubernetes' own kinds
        return
    if list_type == "map":
        names = schema.get("x-kubernetes-list-map-keys", ())
        for index, item in enumerate(value):
            if item is not None and not isinstance(item, dict):
                detail = "must be an object for an array of list-type map"
                yield FieldError("FieldValueInvalid", f"{path}[{index}]", detail, _as_go_prints(item))
                return
        keys = [{name: item[name] for name in names if name in item} if item else {} for item in value]
    elif list_type == "set":
        keys = value
    else:
        return
    if len(value) < 2:
        return
    for index in _repeats(_identities(keys)):
        yield FieldError("FieldValueDuplicate", f"{path}[{index}]", "", keys[index])


def _identities(keys: list[Any]) -> list[str]:
    """Texts that are equal if and only if the keys are."""
    if all(type(item) is dict and len(item) == 1 and type(next(iter(item.values()))) is str for item in keys):
        return [f"{name}={value}" for item in keys for name, value in item.items()]
    return [json.dumps(item, sort_keys=True) for item in keys]


def _repeats(keys: list[str]) -> list[int]:
    """The positions at which a key occurs for the second time."""
    if len(set(keys)) == len(keys):
        return []
    counts: dict[str, int] = {}
    repeated = []
    for index, key in enumerate(keys):
        counts[key] = counts.get(key, 0) + 1
        if counts[key] == 2:
            repeated.append(index)
    return repeated


def _key(schema: Schema, item: Any) -> tuple[Any, ...] | None:
    if not isinstance(item, dict):
        return None
    return tuple(json.dumps(item.get(name)) for name in schema.get("x-kubernetes-list-map-keys", ()))


def _earlier_items(schema: Schema, old: Any) -> dict[Any, Any]:
    """The old items of a list-map by key.

    Items of other lists have no identity, so that the result is empty.
    """
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map":
        return {}
    return {_key(schema, item): item for item in old}


@PerSchema
def has_rules(schema: Schema) -> bool:
    """Whether any CEL rule is in or below this schema."""
    if schema.get("x-kubernetes-validations"):
        return True
    return any(has_rules(part) for part in [*_parts(schema), *schema.get("allOf", ())])


@PerSchema
def _keyed_parts(schema: Schema) -> list[tuple[str, Schema]]:
    return [(name, part) for name, part in schema.get("properties", {}).items() if _has_keyed_lists(part)]


@PerSchema
def _has_keyed_lists(schema: Schema) -> bool:
    """Whether any list in or below this schema is a set or merged by keys."""
    if schema.get("x-kubernetes-list-type") in ("set", "map"):
        return True
    return any(_has_keyed_lists(part) for part in _parts(schema))


def _parts(schema: Schema) -> list[Schema]:
    below = [schema.get("items"), schema.get("additionalProperties"), *schema.get("properties", {}).values()]
    return [part for part in below if isinstance(part, dict)]


_PYTHON_TYPES: dict[str, type] = {"string": str, "boolean": bool}


@PerSchema
def _only_type(schema: Schema) -> type | None:
    """The Python type, if every value of this type satisfies the schema."""
    if schema.keys() <= {"type", "description", "default", "x-kubernetes-validations"}:
        return _PYTHON_TYPES.get(schema.get("type", ""))
    return None


@PerSchema
def _has_transitions(schema: Schema) -> bool:
    """Whether any CEL rule in or below this schema uses `oldSelf`."""
    if any(cel_rules.uses_old_self(rule["rule"]) for rule in schema.get("x-kubernetes-validations", ())):
        return True
    return any(_has_transitions(part) for part in [*_parts(schema), *schema.get("allOf", ())])


def _rules(schema: Schema, value: Any, old: Any, path: str, *, budget: Budget) -> Iterator[FieldError]:
    if value is None or (value == old and not _has_transitions(schema)):
        return
    for rule in schema.get("x-kubernetes-validations", ()):
        if budget.is_spent:
            return
        error = _run(rule, schema, value, old, path=path, budget=budget)
        if error is not None:
            yield error
    for part in schema.get("allOf", ()):
        if has_rules(part):
            yield from _rules(part, value, old, path, budget=budget)
    if isinstance(value, dict):
        yield from _rules_of_fields(schema, value, old, path, budget=budget)
    elif isinstance(value, list):
        items = schema.get("items")
        if items and has_rules(items):
            earlier = _earlier_items(schema, old)
            for index, item in enumerate(value):
                before = earlier.get(_key(schema, item), _ABSENT) if earlier else _ABSENT
                yield from _rules(items, item, before, f"{path}[{index}]", budget=budget)


def _rules_of_fields(schema: Schema, value: Object, old: Any, path: str, *, budget: Budget) -> Iterator[FieldError]:
    properties = schema.get("properties")
    additional = schema.get("additionalProperties")
    before = old if isinstance(old, dict) else {}
    for name, inner in value.items():
        part = properties.get(name) if properties else None
        if part is not None:
            if has_rules(part):
                below = f"{path}.{name}" if path else name
                yield from _rules(part, inner, before.get(name, _ABSENT), below, budget=budget)
        elif isinstance(additional, dict) and has_rules(additional):
            yield from _rules(additional, inner, before.get(name, _ABSENT), f"{path}[{name}]", budget=budget)


def _run(rule: dict[str, Any], schema: Schema, value: Any, old: Any, *, path: str, budget: Budget) -> FieldError | None:
    text = rule["rule"]
    is_transition = cel_rules.uses_old_self(text)
    is_new = old is _ABSENT or old is None
    if is_transition and is_new and not rule.get("optionalOldSelf"):
        return None
    if not is_transition and not is_new and value == old:
        return None
    message = (rule.get("message") or "").strip()
    kind = schema.get("type", "")
    try:
        if cel_rules.holds(text, value, None if is_new else old, budget):
            return None
    except EvaluationError as error:
        return FieldError("FieldValueInvalid", path or "<nil>", f"{error} evaluating rule: {message or text}", kind)
    where = path + (rule.get("fieldPath") or "")
    reported_value = OMIT_VALUE if kind in ("object", "array") else value
    detail = _message(rule, value, None if is_new else old, budget) or message or f"failed rule: {text.strip()}"
    return FieldError(
        rule.get("reason") or "FieldValueInvalid", where.removeprefix(".") or "<nil>", detail, reported_value
    )


def _message(rule: dict[str, Any], value: Any, old: Any, budget: Budget) -> str:
    expression = rule.get("messageExpression")
    if not expression:
        return ""
    from pykueue.api.cel import programs

    try:
        result = programs.run_rule(programs.compile_rule(expression), value, old, budget)
    except EvaluationError:
        return ""
    return result.strip() if isinstance(result, str) and "\n" not in result else ""
