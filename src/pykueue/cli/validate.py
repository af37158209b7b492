"""`pykueue validate`: check manifests and Configurations as a cluster with Kueue would."""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from pykueue.api import manifests
from pykueue.api.manifest_validation import ManifestFinding, Severity, validate_manifests
from pykueue.api.manifests import Document
from pykueue.cli import output as outputs

_SUFFIXES = (".yaml", ".yml", ".json")


@click.command
@click.option(
    "-f",
    "--filename",
    "names",
    multiple=True,
    required=True,
    help="A file, a folder (all .yaml, .yml and .json files below it) or - for standard input; may be repeated.",
)
@outputs.with_report_output
@click.option("-v", "--verbose", is_flag=True, help="Also print notes, such as the use of a deprecated version.")
def validate(*, names: tuple[str, ...], output: str, verbose: bool) -> None:
    """Check manifests as a cluster with Kueue would.

    Checked are fields, schemas and the rules of Kueue's webhooks. All errors are printed. The exit
    code is 1 if an object would be refused.
    """
    documents: list[Document] = []
    findings: list[ManifestFinding] = []
    for name, data in _inputs(names):
        file_documents, faults = manifests.read(data, name)
        documents += file_documents
        findings += [_unreadable(fault) for fault in faults]
    findings += validate_manifests(documents)
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
    if errors:
        raise SystemExit(1)


def _inputs(names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for name in names:
        if name == "-":
            yield "-", sys.stdin.buffer.read(manifests.LARGEST_BYTES + 1)
            continue
        path = Path(name)
        if path.is_dir():
            for entry in sorted(path.rglob("*")):
                if entry.suffix in _SUFFIXES and entry.is_file():
                    yield str(entry), _read(entry)
        else:
            yield name, _read(path)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(manifests.LARGEST_BYTES + 1)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error


def _unreadable(fault: manifests.ManifestError) -> ManifestFinding:
    return ManifestFinding(
        severity=Severity.ERROR, file=fault.file, line=fault.line, object="", field="", message=fault.message
    )


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
