"""`pykueue validate`: check manifests and Configurations as a cluster with Kueue would."""

import json

import click

from pykueue.api.manifest_validation import ManifestFinding, Severity, unreadable, validate_manifests
from pykueue.cli import manifest_files, options
from pykueue.cli import output as outputs


@click.command
@manifest_files.with_files()
@options.with_fail_on(("error", "warning"), default="error")
@outputs.with_report_output
@click.option("-v", "--verbose", is_flag=True, help="Also print notes, such as the use of a deprecated version.")
def validate(*, names: tuple[str, ...], failing: tuple[str, ...], output: str, verbose: bool) -> None:
    """Check manifests as a cluster with Kueue would.

    Checked are fields, schemas and the rules of Kueue's webhooks. All errors are printed. The exit
    code is 1 if an object would be refused, with `--fail-on warning` also if there is a warning.
    `lint` finds queues that are accepted and do not work.
    """
    documents, faults = manifest_files.read(names)
    findings = [*map(unreadable, faults), *validate_manifests(documents)]
    findings.sort(key=lambda finding: (finding.file, finding.line))
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    visible = [finding for finding in findings if verbose or finding.severity is not Severity.NOTE]
    if output == "json":
        outputs.echo(
            json.dumps(
                {"valid": not errors, "objects": len(documents), "findings": [*map(_as_json, visible)]}, indent=2
            )
        )
    else:
        _print(visible, objects=len(documents), errors=errors)
    if any(finding.severity.value in failing for finding in findings):
        raise SystemExit(1)


def _print(findings: list[ManifestFinding], *, objects: int, errors: int) -> None:
    for finding in findings:
        subject = f"{finding.object}: " if finding.object else ""
        outputs.echo(f"{finding.file}:{finding.line}: {finding.severity.value}: {subject}{finding.message}")
    warnings = sum(finding.severity is Severity.WARNING for finding in findings)
    outputs.echo(f"{_count(objects, 'object')}: {_count(errors, 'error')}, {_count(warnings, 'warning')}")


def _count(number: int, singular: str) -> str:
    return f"{number} {singular}{'' if number == 1 else 's'}"


def _as_json(finding: ManifestFinding) -> dict[str, str | int]:
    return {
        "severity": finding.severity.value,
        "file": finding.file,
        "line": finding.line,
        "object": finding.object,
        "field": finding.field,
        "message": finding.message,
    }
