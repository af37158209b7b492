"""Checks manifests without a cluster: the faults that an API server with Kueue would find.

Each document passes the admission of a create request, but all faults are collected instead of the
first one only. Rules that look up other objects see those of the same set of manifests. Called by
`pykueue validate`.
"""

import copy
import enum
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from pykueue.api import labels, registry, resources, schema_validation
from pykueue.api.admission import LARGEST_OBJECT_BYTES, AdmissionPipeline
from pykueue.api.configuration import effects, loading, sources
from pykueue.api.errors import ApiError, FieldError
from pykueue.api.manifests import Document, ManifestError
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.schema import UnknownField
from pykueue.api.scheme import Kind, Object, Resource, Scheme, Settings

_EXCERPTS = ("metadata", "spec", "status", "resources", "template")
_LONGEST_MESSAGE = 2000
_KUEUE_PREFIX = f"{resources.KUEUE_GROUP}/"
_RAY_KEYS = ("raycluster-generation", "raycluster-podset-replica-sizes")
"""Annotations that Kueue sets on a RayCluster, and pykueue does not need."""


class Severity(enum.Enum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class ManifestFinding(msgspec.Struct, frozen=True, kw_only=True):
    severity: Severity
    file: str
    line: int
    object: str
    """Kind and name, if the document has them."""
    field: str
    message: str


def validate_manifests(documents: Iterable[Document]) -> list[ManifestFinding]:
    documents = list(documents)
    reviewer = _Reviewer(documents)
    return [finding for document in documents for finding in reviewer.findings(document)]


def unreadable(fault: ManifestError) -> ManifestFinding:
    """The finding for a file, or a part of it, that cannot be read."""
    return ManifestFinding(
        severity=Severity.ERROR, file=fault.file, line=fault.line, object="", field="", message=fault.message
    )


def admitted(documents: Iterable[Document]) -> Iterator[tuple[Document, Object]]:
    """Every valid document of a known kind, with its object as an API server would store it."""
    documents = list(documents)
    reviewer = _Reviewer(documents)
    for document in documents:
        stored = None if sources.find(document.object) is not None else reviewer.stored(document)
        if stored is not None:
            yield document, stored


class DocumentLookup:
    """A `Lookup` in the reviewed documents."""

    def __init__(self, documents: list[Document]) -> None:
        self._objects = [document.object for document in documents]
        self.is_set_of_queues = sum(_group(obj) == resources.KUEUE_GROUP for obj in self._objects) > 1

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        named = (obj for obj in self.list(resource, namespace) if reading.at(obj, "metadata", "name") == name)
        return next(named, None)

    def list(self, resource: Resource, namespace: str = "") -> Iterator[Object]:
        for obj in self._objects:
            is_of_kind = obj.get("kind") == resource.kind and _group(obj) == resource.group
            if is_of_kind and (not namespace or _namespace(obj) == namespace):
                yield obj


def _group(obj: Object) -> str:
    return reading.text(obj.get("apiVersion")).rpartition("/")[0]


def _namespace(obj: Object) -> str:
    return reading.namespace(obj) or "default"


class _Reviewer:
    def __init__(self, documents: list[Document]) -> None:
        self._scheme = registry.scheme()
        self._lookup = DocumentLookup(documents)
        self._settings = Settings(frameworks=frozenset(job_kinds.JOB_KINDS))

    def findings(self, document: Document) -> Iterator[ManifestFinding]:
        configuration = sources.find(document.object)
        if configuration is not None:
            yield from _configuration_findings(document, configuration)
            return
        if _is_excerpt(document.object):
            yield _finding(document, Severity.NOTE, "an excerpt of an object, checked as far as it goes")
            for error in _check_metadata(document.object):
                yield _finding(document, Severity.ERROR, str(error), error.field)
            return
        yield from self._object_findings(document)

    def _object_findings(self, document: Document) -> Iterator[ManifestFinding]:
        size = len(msgspec.json.encode(document.object))
        if size > LARGEST_OBJECT_BYTES:
            message = f"the object takes {size:,} bytes; an API server takes at most {LARGEST_OBJECT_BYTES:,}"
            yield _finding(document, Severity.ERROR, message)
            return
        names = (document.object.get("apiVersion"), document.object.get("kind"))
        kind = self._scheme.for_kind(*map(reading.text, names))
        if kind is None:
            yield _unknown_kind(self._scheme, document)
            return
        if kind.deprecation_warning:
            yield _finding(document, Severity.NOTE, kind.deprecation_warning, "apiVersion")
        yield from self._admission_findings(document, kind)
        for path, message in self._pitfalls(document.object):
            yield _finding(document, Severity.WARNING, f"{path}: {message}", path)

    def _pitfalls(self, obj: Object) -> Iterator[tuple[str, str]]:
        """What an API server accepts, and what then admits nothing or queues nothing."""
        names = (_group(obj), obj.get("kind"))
        if names == (resources.KUEUE_GROUP, "ClusterQueue"):
            yield from self._cluster_queue_pitfalls(obj)
        elif names == (resources.KUEUE_GROUP, "LocalQueue"):
            name = reading.text(reading.at(obj, "spec", "clusterQueue"))
            yield from self._undefined("spec.clusterQueue", resources.CLUSTER_QUEUE, name)
        else:
            yield from self._label_pitfalls(obj)

    def _cluster_queue_pitfalls(self, obj: Object) -> Iterator[tuple[str, str]]:
        if reading.at(obj, "spec", "namespaceSelector") is None:
            yield "spec.namespaceSelector", "without it no namespace is selected; write {} to select all namespaces"
        for i, group in enumerate(reading.mappings(reading.at(obj, "spec", "resourceGroups"))):
            for j, flavor in enumerate(reading.mappings(reading.at(group, "flavors"))):
                path = f"spec.resourceGroups[{i}].flavors[{j}].name"
                yield from self._undefined(path, resources.RESOURCE_FLAVOR, reading.text(reading.at(flavor, "name")))

    def _label_pitfalls(self, obj: Object) -> Iterator[tuple[str, str]]:
        if (_group(obj), obj.get("kind")) in _kinds_with_pods():
            yield from _unknown_keys(obj)
        name = reading.labels(obj).get(labels.QUEUE_NAME, "")
        if any(self._lookup.list(resources.LOCAL_QUEUE)):
            yield from self._undefined(
                f"metadata.labels[{labels.QUEUE_NAME}]", resources.LOCAL_QUEUE, name, _namespace(obj)
            )

    def _undefined(self, path: str, resource: Resource, name: str, namespace: str = "") -> Iterator[tuple[str, str]]:
        """A reference that leads out of a set of several documents of Kueue."""
        if name and self._lookup.is_set_of_queues and self._lookup.get(resource, namespace, name) is None:
            where = f" in namespace {namespace}" if namespace else ""
            yield path, f"no document defines {resource.kind} {name}{where}"

    def stored(self, document: Document) -> Object | None:
        """The object in its storage version with its defaults; None if it is not valid."""
        names = (document.object.get("apiVersion"), document.object.get("kind"))
        kind = self._scheme.for_kind(*map(reading.text, names))
        if kind is None or _is_excerpt(document.object):
            return None
        admission, obj = self._admit(document, kind)
        if admission.unknown_fields or admission.field_errors or any(error.code != 403 for error in admission.refusals):
            return None
        metadata = obj["metadata"]
        defaults = {"name": metadata.get("name") or f"{metadata['generateName']}1"}
        if kind.namespaced:
            defaults["namespace"] = metadata.get("namespace") or "default"
        storage_kind = self._storage_kind(kind)
        identity = {"apiVersion": storage_kind.api_version, "kind": kind.kind}
        return {**obj, **identity, "metadata": metadata | defaults}

    def _storage_kind(self, kind: Kind) -> Kind:
        return self._scheme.for_path(kind.group, kind.storage_version, kind.plural) or kind

    def _admit(self, document: Document, kind: Kind) -> "tuple[_CollectingAdmission, Object]":
        admission = _CollectingAdmission(lookup=self._lookup, settings=self._settings)
        obj = admission.admit(kind, self._storage_kind(kind), copy.deepcopy(document.object), None)
        return admission, obj

    def _admission_findings(self, document: Document, kind: Kind) -> Iterator[ManifestFinding]:
        admission, _ = self._admit(document, kind)
        for warning in admission.reader_warnings:
            yield _finding(document, Severity.WARNING, warning, warning.partition(":")[0])
        for unknown in admission.unknown_fields:
            yield _finding(document, Severity.ERROR, unknown.hint(), unknown.path)
        for error in admission.refusals:
            yield _refusal(document, error)
        for warning in admission.warnings:
            yield _finding(document, Severity.WARNING, warning, warning.partition(":")[0])
        for field_error in _distinct(admission.field_errors):
            yield _finding(document, Severity.ERROR, str(field_error), field_error.field)


@functools.cache
def _kinds_with_pods() -> frozenset[tuple[str, str]]:
    """Jobs, and what else holds templates of pods. Others may have labels that users choose."""
    kinds = [kind.resource for kind in job_kinds.JOB_KINDS.values()]
    return frozenset((kind.group, kind.kind) for kind in (*kinds, resources.WORKLOAD)) | {("batch", "CronJob")}


@functools.cache
def _known_keys() -> frozenset[str]:
    """The labels and annotations of Kueue, without the prefix."""
    keys = [value for value in vars(labels).values() if isinstance(value, str) and value.startswith(_KUEUE_PREFIX)]
    return frozenset(key.removeprefix(_KUEUE_PREFIX) for key in keys) | frozenset(_RAY_KEYS)


def _unknown_keys(obj: Object) -> Iterator[tuple[str, str]]:
    """Labels and annotations with the prefix of Kueue that Kueue does not have."""
    import difflib

    for path, metadata in _metadata_of(obj):
        for field_name in ("labels", "annotations"):
            for key in reading.text_map(metadata.get(field_name)):
                name = key.removeprefix(_KUEUE_PREFIX)
                if name == key or name in _known_keys():
                    continue
                close = difflib.get_close_matches(name, sorted(_known_keys()), n=1)
                hint = f"; did you mean {_KUEUE_PREFIX}{close[0]}?" if close else ""
                yield f"{path}.{field_name}[{key}]", f"unknown key, which Kueue does not read{hint}"


def _metadata_of(obj: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    """The metadata of an object and of its templates, each with its path."""
    for key, value in obj.items():
        where = f"{path}.{key}" if path else str(key)
        if key == "metadata" and isinstance(value, dict):
            yield where, value
            continue
        items = enumerate(value) if isinstance(value, list) else [("", value)]
        for index, item in items:
            if isinstance(item, dict):
                yield from _metadata_of(item, where if index == "" else f"{where}[{index}]")


def _configuration_findings(document: Document, source: sources.ConfigurationSource) -> Iterator[ManifestFinding]:
    errors = loading.find_faults(source)
    for error in errors:
        yield _finding(document, Severity.ERROR, str(error), loading.path_in_document(source, error.field))
    for limit in [] if errors else effects.limits_of(loading.complete(source.configuration).document):
        yield _finding(document, Severity.WARNING, str(limit), loading.path_in_document(source, limit.path))


@dataclass(slots=True, kw_only=True)
class _CollectingAdmission(AdmissionPipeline):
    """The admission of a creation that goes on after a fault."""

    reader_warnings: list[str] = field(default_factory=list)
    unknown_fields: list[UnknownField] = field(default_factory=list)
    field_errors: list[FieldError] = field(default_factory=list)
    refusals: list[ApiError] = field(default_factory=list)

    def read(self, kind: Kind, obj: Object, old: Object | None) -> None:
        AdmissionPipeline.read(self, kind, obj, old)
        self.reader_warnings, self.warnings = self.warnings, []
        self.field_errors += [*_check_name(obj), *_check_metadata(obj)]

    @property
    def may_convert(self) -> bool:
        """An object of an older version is converted if its schema holds."""
        return not self.field_errors

    @property
    def checks_storage_schema(self) -> bool:
        return False

    def on_unknown_fields(self, kind: Kind, unknown: Sequence[UnknownField], as_sent: bytes) -> None:
        del kind, as_sent
        self.unknown_fields += unknown

    def on_invalid(self, kind: Kind, obj: Object, field_errors: Sequence[FieldError]) -> None:
        del kind, obj
        self.field_errors += field_errors

    def on_denied(self, webhook: str, field_errors: Sequence[FieldError]) -> None:
        del webhook
        self.field_errors += field_errors

    def on_refusal(self, error: ApiError) -> bool:
        self.refusals.append(error)
        return True


def _refusal(document: Document, refused: ApiError) -> ManifestFinding:
    """A 403 may depend on objects that exist in the cluster only; other refusals are certain."""
    severity = Severity.NOTE if refused.code == 403 else Severity.ERROR
    return _finding(document, severity, refused.message)


def _is_excerpt(obj: Object) -> bool:
    """Whether this is a part of a manifest, as documentation prints it.

    It is one section alone, or a kind with labels only.
    """
    if len(obj) == 1:
        return next(iter(obj)) in _EXCERPTS
    has_name = reading.at(obj, "metadata", "name") or reading.at(obj, "metadata", "generateName")
    return obj.keys() <= {"apiVersion", "kind", "metadata"} and not has_name and "kind" in obj and "apiVersion" in obj


def _distinct(field_errors: list[FieldError]) -> list[FieldError]:
    """Each error once, without the remark that some rules were not checked."""
    unchecked = schema_validation.UNCHECKED.detail
    return list({str(error): error for error in field_errors if error.detail != unchecked}.values())


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


def _unknown_kind(scheme: Scheme, document: Document) -> ManifestFinding:
    obj = document.object
    version, name = obj.get("apiVersion"), obj.get("kind")
    for path, value in (("apiVersion", version), ("kind", name)):
        if not isinstance(value, str) or not value:
            message = str(faults.required(path, "every manifest says what it is by apiVersion and kind"))
            return _finding(document, Severity.ERROR, message, path)
    kinds = [kind for kind in scheme if kind.group == _group(obj)]
    if not kinds:
        message = f"kind {name} of {version} is not known here; nothing of it was checked"
        return _finding(document, Severity.WARNING, message, "kind")
    versions = [kind.version for kind in kinds if kind.kind == name]
    if versions:
        message = f'no kind "{name}" in version "{version}"; it has {", ".join(sorted(versions))}'
        return _finding(document, Severity.ERROR, message, "apiVersion")
    import difflib

    close = difflib.get_close_matches(str(name), [kind.kind for kind in kinds], n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return _finding(document, Severity.ERROR, f'no kind "{name}" in version "{version}"{hint}', "kind")


def _finding(document: Document, severity: Severity, message: str, field: str = "") -> ManifestFinding:
    obj = document.object
    name = reading.at(obj, "metadata", "name") or reading.at(obj, "metadata", "generateName")
    object_text = " ".join(str(part)[:253] for part in (obj.get("kind"), name) if part)
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]}…"
    line = document.line_of(field) if field else document.line
    return ManifestFinding(
        severity=severity, file=document.file, line=line, object=object_text, field=field, message=message
    )
