"""What an API server with Kueue would say to a set of manifests, said without one.

Every document gets the same treatment as a create request: unknown fields, schema with its CEL rules, defaults, webhook
rules; but nothing stops at the first fault. Rules that look at other objects see those of the same set. Called by
`pykueue validate`.
"""

import copy
import difflib
import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from pykueue.api import registry, schema, schema_validation
from pykueue.api.configuration import loading, sources
from pykueue.api.errors import ApiError, FieldError
from pykueue.api.manifests import Document
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.rules.jobs import frameworks
from pykueue.api.scheme import Kind, Object, Request, Resource, Scheme, Settings

LARGEST_OBJECT = 1_572_864
"""Bytes; what the database of a cluster takes."""

_EXCERPTS = ("metadata", "spec", "status", "resources", "template")
_LONGEST_MESSAGE = 2000


class Severity(enum.Enum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    severity: Severity
    file: str
    line: int
    object: str
    """Kind and name, as far as they are known."""
    field: str
    message: str


def review(documents: Iterable[Document]) -> list[Finding]:
    documents = list(documents)
    reviewer = _Reviewer(documents)
    return [finding for document in documents for finding in reviewer.findings(document)]


class _Documents:
    """The reviewed objects as a cluster that holds them."""

    def __init__(self, documents: list[Document]) -> None:
        self._objects = [document.object for document in documents]

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        found = (obj for obj in self.list(resource, namespace) if reading.at(obj, "metadata", "name") == name)
        return next(found, None)

    def list(self, resource: Resource, namespace: str = "") -> Iterator[Object]:
        for obj in self._objects:
            is_wanted = obj.get("kind") == resource.kind and _group(obj) == resource.group
            if is_wanted and (not namespace or _namespace(obj) == namespace):
                yield obj


def _group(obj: Object) -> str:
    return reading.text(obj.get("apiVersion")).rpartition("/")[0]


def _namespace(obj: Object) -> str:
    return reading.namespace(obj) or "default"


class _Reviewer:
    def __init__(self, documents: list[Document]) -> None:
        self._scheme = registry.scheme()
        self._lookup = _Documents(documents)
        self._settings = Settings(frameworks=frozenset(frameworks.FRAMEWORKS))

    def findings(self, document: Document) -> Iterator[Finding]:
        configuration = sources.find(document.object)
        if configuration is not None:
            for fault in loading.find_faults(configuration):
                path = loading.placed(configuration, fault.field)
                yield _finding(document, Severity.ERROR, str(fault), path)
            return
        if _is_excerpt(document.object):
            yield _finding(document, Severity.NOTE, "an excerpt of an object, checked as far as it goes")
            for fault in _check_metadata(document.object):
                yield _finding(document, Severity.ERROR, str(fault), fault.field)
            return
        yield from self._object_findings(document)

    def _object_findings(self, document: Document) -> Iterator[Finding]:
        size = len(msgspec.json.encode(document.object))
        if size > LARGEST_OBJECT:
            message = f"the object takes {size:,} bytes; an API server takes at most {LARGEST_OBJECT:,}"
            yield _finding(document, Severity.ERROR, message)
            return
        names = (document.object.get("apiVersion"), document.object.get("kind"))
        kind = self._scheme.for_kind(*map(reading.text, names))
        if kind is None:
            yield _unknown_kind(self._scheme, document)
            return
        if kind.deprecation_warning:
            yield _finding(document, Severity.NOTE, kind.deprecation_warning, "apiVersion")
        obj = copy.deepcopy(document.object)
        for warning in kind.reader(obj) if kind.reader else ():
            yield _finding(document, Severity.WARNING, warning, warning.partition(":")[0])
        for unknown in schema.unknown_fields(kind.schema, obj):
            yield _finding(document, Severity.ERROR, unknown.hint(), unknown.path)
        yield from self._rule_findings(document, kind, obj)

    def _rule_findings(self, document: Document, kind: Kind, obj: Object) -> Iterator[Finding]:
        """In the order of a create request: defaults, schema, rules; an old version is converted if its schema holds."""
        found = [*_check_name(obj), *_check_metadata(obj)]
        schema.prune(kind.schema, obj)
        if kind.to_storage is None:
            yield from self._defaulted(document, kind, obj)
        schema.apply_defaults(kind.schema, obj)
        found += schema_validation.validate(kind.schema, copy.deepcopy(obj))
        if kind.to_storage is not None and not found:
            obj = kind.to_storage(obj)
            yield from self._defaulted(document, kind, obj)
        if kind.validator is not None and (kind.to_storage is None or not found):
            try:
                verdict = kind.validator(self._request(obj))
            except ApiError as refused:
                yield _refusal(document, refused)
            else:
                found += (*verdict.invalid, *verdict.denied)
                for warning in verdict.warnings:
                    yield _finding(document, Severity.WARNING, warning, warning.partition(":")[0])
        for fault in _distinct(found):
            yield _finding(document, Severity.ERROR, str(fault), fault.field)

    def _defaulted(self, document: Document, kind: Kind, obj: Object) -> Iterator[Finding]:
        if kind.defaulter is None:
            return
        try:
            kind.defaulter(self._request(obj))
        except ApiError as refused:
            yield _refusal(document, refused)

    def _request(self, obj: Object) -> Request:
        return Request(operation="CREATE", object=obj, lookup=self._lookup, settings=self._settings)


def _refusal(document: Document, refused: ApiError) -> Finding:
    """What is forbidden depends on objects that may exist in the cluster; only what cannot be decoded is sure."""
    severity = Severity.NOTE if refused.code == 403 else Severity.ERROR
    return _finding(document, severity, refused.message)


def _is_excerpt(obj: Object) -> bool:
    """Part of a manifest, as documents print them: one section by itself, or a kind of which only labels are shown."""
    if len(obj) == 1:
        return next(iter(obj)) in _EXCERPTS
    has_name = reading.at(obj, "metadata", "name") or reading.at(obj, "metadata", "generateName")
    return obj.keys() <= {"apiVersion", "kind", "metadata"} and not has_name and "kind" in obj and "apiVersion" in obj


def _distinct(found: list[FieldError]) -> list[FieldError]:
    """Without what the API server says about its own procedure, and without repeats."""
    by_text = {str(fault): fault for fault in found if not fault.detail.startswith("some validation rules were not")}
    return list(by_text.values())


def _check_name(obj: Object) -> Iterator[FieldError]:
    metadata = reading.mapping(obj.get("metadata"))
    name = metadata.get("name") or metadata.get("generateName")
    if not name:
        yield faults.required("metadata.name", "name or generateName is required")
    elif isinstance(name, str):
        checked = name if metadata.get("name") else name.rstrip("-.") + "x"
        for words in syntax.dns_subdomain(checked):
            yield faults.invalid("metadata.name", name, words)


def _check_metadata(obj: Object) -> Iterator[FieldError]:
    metadata = obj.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        yield faults.invalid("metadata", metadata, "must be a mapping")
        return
    for name in ("name", "generateName", "namespace"):
        value = reading.mapping(metadata).get(name)
        if value is not None and not isinstance(value, str):
            yield faults.invalid(f"metadata.{name}", value, "must be a text; quote numbers and true or false")
    for name in ("labels", "annotations"):
        values = reading.mapping(metadata).get(name)
        if values is not None and values != reading.text_map(values):
            yield faults.invalid(f"metadata.{name}", values, "must map texts to texts; quote numbers and true or false")
    yield from syntax.check_labels("metadata.labels", reading.labels(obj))
    yield from syntax.check_annotations("metadata.annotations", reading.annotations(obj))


def _unknown_kind(scheme: Scheme, document: Document) -> Finding:
    obj = document.object
    version, name = obj.get("apiVersion"), obj.get("kind")
    for field, value in (("apiVersion", version), ("kind", name)):
        if not isinstance(value, str) or not value:
            message = str(faults.required(field, "every manifest says what it is by apiVersion and kind"))
            return _finding(document, Severity.ERROR, message, field)
    kinds = [kind for kind in scheme if kind.group == _group(obj)]
    if not kinds:
        message = f"kind {name} of {version} is not known here; nothing of it was checked"
        return _finding(document, Severity.WARNING, message, "kind")
    versions = [kind.version for kind in kinds if kind.kind == name]
    if versions:
        message = f'no kind "{name}" in version "{version}"; it has {", ".join(sorted(versions))}'
        return _finding(document, Severity.ERROR, message, "apiVersion")
    close = difflib.get_close_matches(str(name), [kind.kind for kind in kinds], n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return _finding(document, Severity.ERROR, f'no kind "{name}" in version "{version}"{hint}', "kind")


def _finding(document: Document, severity: Severity, message: str, field: str = "") -> Finding:
    obj = document.object
    name = reading.at(obj, "metadata", "name") or reading.at(obj, "metadata", "generateName")
    shown = " ".join(str(part)[:253] for part in (obj.get("kind"), name) if part)
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]}…"
    line = document.line_of(field) if field else document.line
    return Finding(severity=severity, file=document.file, line=line, object=shown, field=field, message=message)
