"""What mutating policies have besides: `jsonpatch.escapeKey`, and the check of object types."""

from typing import Any

from pykueue.api.cel import cost, values
from pykueue.api.cel.errors import EvaluationError
from pykueue.api.cel.functions import Functions


def _escaped_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def add_mutations(functions: Functions) -> None:
    signature = "(string) -> string"
    functions.add("jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string", signature, _escaped_key, cost=cost.first)


def check_types(value: Any) -> None:
    """A field of an object has the type of its path: `spec` of `Object` is an `Object.spec`."""
    for name, expected in values.structs(value):
        if name != expected:
            raise EvaluationError(
                f'type mismatch: unexpected type name "{name}", expected "{expected}", which matches field name path '
                "from root Object type"
            )
