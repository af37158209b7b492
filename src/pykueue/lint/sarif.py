"""Findings in SARIF 2.1.0, which code hosts show beside the lines of a change."""

from collections.abc import Iterable, Sequence
from typing import Any

import pykueue
from pykueue.api.manifest_validation import Severity
from pykueue.lint.findings import LintFinding, LintRule

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def report(findings: Iterable[LintFinding], rules: Sequence[LintRule]) -> dict[str, Any]:
    driver = {
        "name": "pykueue lint",
        "version": pykueue.__version__,
        "rules": [
            {
                "id": rule.id,
                "shortDescription": {"text": rule.summary},
                "help": {"text": rule.remedy},
                "defaultConfiguration": {"level": _LEVELS[rule.severity]},
            }
            for rule in rules
        ],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [*map(_result, findings)]}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: LintFinding) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.rule.id,
        "level": _LEVELS[finding.level],
        "message": {"text": f"{finding.text}. {finding.rule.remedy}"},
        "properties": {"object": str(finding.subject), "field": finding.field, "example": list(finding.example)},
    }
    if finding.file:
        location: dict[str, Any] = {"artifactLocation": {"uri": finding.file}}
        if finding.line:
            location["region"] = {"startLine": finding.line}
        result["locations"] = [{"physicalLocation": location}]
    return result
