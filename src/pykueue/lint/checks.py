"""Runs every rule on a set of queues, and finds the line of each finding in the files."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import structs

from pykueue.api import objects
from pykueue.api.configuration import loading, sources
from pykueue.api.manifest_validation import ManifestFinding, Severity, admitted, unreadable, validate_manifests
from pykueue.api.manifests import Document, ManifestError
from pykueue.api.rules import reading
from pykueue.api.scheme import Object
from pykueue.lint import queue_set as queue_sets
from pykueue.lint.findings import LintFinding, LintRule, LintSubject
from pykueue.lint.queue_set import QueueSet
from pykueue.lint.rules import (
    activity,
    cohorts,
    job_sizes,
    namespaces,
    nodes,
    preemption_cycles,
    queueing,
    references,
    sharing,
    unused_quota,
)

INVALID_MANIFEST = LintRule(
    id="invalid-manifest",
    severity=Severity.ERROR,
    summary="A cluster would refuse the object; the other rules leave it out.",
    remedy="Correct the manifest; `pykueue validate` checks it alone.",
)
DEFINED_TWICE = LintRule(
    id="defined-twice",
    severity=Severity.WARNING,
    summary="The files define an object twice; the last definition counts.",
    remedy="Remove one of the definitions, or lint the files of each set separately.",
)
_MODULES = (
    job_sizes,
    unused_quota,
    preemption_cycles,
    queueing,
    namespaces,
    references,
    activity,
    nodes,
    sharing,
    cohorts,
)
RULES: tuple[LintRule, ...] = (INVALID_MANIFEST, DEFINED_TWICE, *(rule for module in _MODULES for rule in module.RULES))
_SEVERITIES = (Severity.ERROR, Severity.WARNING, Severity.NOTE)


def findings(queue_set: QueueSet) -> list[LintFinding]:
    """Everything that is wrong with a set, the worst first."""
    return _ordered(finding for module in _MODULES for finding in module.check(queue_set))


def of_documents(
    documents: Iterable[Document],
    configuration: Mapping[str, object] | None = None,
    faults: Iterable[ManifestError] = (),
) -> list[LintFinding]:
    """The findings in manifests, with their lines; `faults` are of files that cannot be read.

    The other rules leave out what is invalid. A Configuration among the manifests is used unless
    another one is given.
    """
    documents = list(documents)
    invalid = [*map(unreadable, faults), *validate_manifests(documents)]
    stored = list(admitted(documents))
    positions = {_key(obj): document for document, obj in stored}
    for document in documents:
        source = sources.find(document.object)
        if source is not None and configuration is None and not loading.find_faults(source):
            configuration = loading.complete(source.configuration).document
            positions["Configuration", "", ""] = document
    queue_set = queue_sets.from_objects((obj for _, obj in stored), configuration)
    with_lines = [_with_line(finding, positions) for finding in findings(queue_set)]
    return _ordered([*_invalid(invalid), *_defined_twice(stored), *with_lines])


def _invalid(manifest_findings: Iterable[ManifestFinding]) -> Iterator[LintFinding]:
    for finding in manifest_findings:
        if finding.severity is Severity.ERROR:
            kind, _, name = finding.object.partition(" ")
            yield LintFinding(
                rule=INVALID_MANIFEST,
                subject=LintSubject(kind=kind, name=name),
                field=finding.field,
                message=finding.message,
                file=finding.file,
                line=finding.line,
            )


def _defined_twice(stored: Iterable[tuple[Document, Object]]) -> Iterator[LintFinding]:
    first: dict[tuple[str, str, str], Document] = {}
    for document, obj in stored:
        kind, namespace, name = key = _key(obj)
        earlier = first.setdefault(key, document)
        if earlier is not document and name == reading.at(document.object, "metadata", "name"):
            yield LintFinding(
                rule=DEFINED_TWICE,
                subject=LintSubject(kind=kind, name=name, namespace=namespace),
                message=f"{earlier.file}:{earlier.line} defines it, too",
                file=document.file,
                line=document.line,
            )


def _ordered(unordered: Iterable[LintFinding]) -> list[LintFinding]:
    return sorted(
        unordered,
        key=lambda finding: (
            _SEVERITIES.index(finding.level),
            finding.file,
            finding.line,
            finding.rule.id,
            str(finding.subject),
            finding.message,
        ),
    )


def _key(obj: Object) -> tuple[str, str, str]:
    return obj["kind"], objects.namespace(obj), objects.name(obj)


def _with_line(finding: LintFinding, positions: Mapping[tuple[str, str, str], Document]) -> LintFinding:
    subject = finding.subject
    document = positions.get((subject.kind, subject.namespace, subject.name))
    if document is None:
        return finding
    line = document.line_of(finding.field) if finding.field else document.line
    return structs.replace(finding, file=document.file, line=line)
