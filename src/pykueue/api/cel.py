"""CEL rules of a schema: the text for a real cluster, and the Python check that we run.

A `Rule` beside a struct declares both. Schemas are plain JSON and contain the text only;
`schema_validation` asks `program` for the check. A text that one of our rules declares runs as
Python, some fifty times faster; any other text, of a user's CustomResourceDefinition, is compiled
by the CEL library.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pykueue.api import text_cache

Check = Callable[[Any, Any], bool]
"""Takes `self` and `oldSelf`. A KeyError means CEL's `no such key`."""

_checks: dict[str, Check] = {}


class EvaluationError(Exception):
    """The rule could not be evaluated; the message is that of CEL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    cel: str
    message: str
    check: Check
    reason: str = ""
    field_path: str = ""

    def __post_init__(self) -> None:
        _checks[self.cel] = self.check

    def schema(self) -> dict[str, str]:
        keywords = {"rule": self.cel, "message": self.message, "reason": self.reason, "fieldPath": self.field_path}
        return {keyword: text for keyword, text in keywords.items() if text}


def uses_old_self(text: str) -> bool:
    return "oldSelf" in text


def program(text: str) -> Check:
    """The check of a rule's text: the one we declared, or the compiled text.

    It raises EvaluationError when it runs.
    """
    check = _checks.get(text)
    return functools.partial(_run_check, check) if check else compiled(text)


@text_cache.cached(1024, longest=4096)
def compiled(text: str) -> Check:
    from pykueue.api.cel_library import compile_rule

    return compile_rule(text)


def _run_check(check: Check, value: Any, old: Any) -> bool:
    try:
        return check(value, old)
    except KeyError as missing:
        raise EvaluationError(f"no such key: {missing.args[0]}") from None


def every(items: Iterable[Any], holds: Callable[[Any], bool]) -> bool:
    """CEL's `all`: an item that fails decides, even if another one could not be evaluated."""
    missing: KeyError | None = None
    for item in items:
        try:
            if not holds(item):
                return False
        except KeyError as error:
            missing = error
    if missing is not None:
        raise missing
    return True
