"""CEL rules of a schema: the text for a real cluster, and the Python check that we run.

A `Rule` beside a struct declares both. Schemas are plain JSON and contain the text only;
`schema_validation` asks `holds`. A text that one of our rules declares runs as Python, several
times faster; any other text, of a user's CustomResourceDefinition, is compiled.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pykueue.api.cel.errors import EvaluationError
from pykueue.api.cel.limits import Budget

Check = Callable[[Any, Any], bool]
"""Takes `self` and `oldSelf`. A KeyError means CEL's `no such key`."""

_checks: dict[str, Check] = {}


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


def holds(text: str, value: Any, old: Any, budget: Budget) -> bool:
    """Whether a rule holds: by the check that is declared for its text, or by the text."""
    check = _checks.get(text)
    return run_check(check, value, old) if check is not None else compiled_holds(text, value, old, budget)


def compiled_holds(text: str, value: Any, old: Any, budget: Budget) -> bool:
    # Imported here because the interpreter is needed for the rules of users only.
    from pykueue.api.cel.programs import check_rule

    return check_rule(text, value, old, budget)


def run_check(check: Check, value: Any, old: Any) -> bool:
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
