"""Rules and findings as data."""

import msgspec

from pykueue.api.manifest_validation import Severity


class LintRule(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that may be wrong. docs/lint.md has a section for each id."""

    id: str
    severity: Severity
    summary: str
    """What is wrong, as a plain sentence."""
    remedy: str
    """What to do about it."""


class LintSubject(msgspec.Struct, frozen=True, kw_only=True):
    """The object that a finding is about."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}".strip()


class LintFinding(msgspec.Struct, frozen=True, kw_only=True):
    rule: LintRule
    subject: LintSubject
    message: str
    field: str = ""
    """The path of the field in the object, such as `spec.preemption`."""
    example: tuple[str, ...] = ()
    """What the engine did in a small world, line by line."""
    severity: Severity | None = None
    """None means the severity of the rule."""
    file: str = ""
    """Empty if the object was read from a cluster."""
    line: int = 0

    @property
    def text(self) -> str:
        """The message with its object, which a file that cannot be read does not have."""
        return f"{self.subject}: {self.message}" if str(self.subject) else self.message

    @property
    def level(self) -> Severity:
        return self.severity or self.rule.severity
