"""Queues and jobs from manifests, admitted as an API server would admit them.

A job runs as long as its annotation `pykueue.dev/runtime` says, or a `sleep` in its command, or
`--run-time`. It arrives at the time in its annotation `pykueue.dev/submit-after`, or in the order
of the files, `--interval` after the job before it.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pykueue.api import durations, manifests, objects
from pykueue.api.admission import AdmissionPipeline
from pykueue.api.configuration import loading, sources
from pykueue.api.errors import ApiError
from pykueue.api.manifest_validation import DocumentLookup, Severity, validate_manifests
from pykueue.api.manifests import Document
from pykueue.api.registry import scheme
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object, Settings
from pykueue.api.times import SECOND_NS
from pykueue.cluster.runtimes import simulated
from pykueue.controllers import settings
from pykueue.controllers.jobs import construction
from pykueue.controllers.jobs.context import PriorityClasses
from pykueue.simulate.engine_driver.world import KINDS, World
from pykueue.simulate.sources.collector import JobCollector
from pykueue.simulate.sources.rows import SourceError
from pykueue.translate.jobs import framework, registry
from pykueue.translate.jobs.framework import JobFramework

SUBMIT_AFTER = "pykueue.dev/submit-after"
_DEFAULT_NAMESPACE = "default"
_RAY = "ray.io/"


@dataclass(slots=True, kw_only=True)
class Manifests:
    objects: list[Object] = field(default_factory=list)
    """What the world is made of: queues, flavors, classes, nodes, Workloads."""
    jobs: list[Document] = field(default_factory=list)
    configuration: Mapping[str, Any] | None = None
    ignored: dict[str, int] = field(default_factory=dict)
    """How many objects of other kinds were left out."""


def load(files: Iterable[tuple[str, bytes]]) -> Manifests:
    """Read files; the first fault of any kind is raised with its place."""
    documents: list[Document] = []
    for name, data in files:
        file_documents, faults = manifests.read(data, name)
        if faults:
            fault = faults[0]
            raise SourceError(fault.message, file=fault.file, line=fault.line)
        documents += file_documents
    for finding in validate_manifests(documents):
        if finding.severity is Severity.ERROR:
            remedy = "`pykueue validate -f FILE` lists all faults."
            raise SourceError(finding.message, file=finding.file, line=finding.line, remedy=remedy)
    result = Manifests()
    lookup = DocumentLookup(documents)
    for document in documents:
        _sort(document, lookup, result)
    return result


def _sort(document: Document, lookup: DocumentLookup, result: Manifests) -> None:
    source = sources.find(document.object)
    if source is not None:
        result.configuration = loading.complete(source.configuration).document
        return
    kind = str(document.object.get("kind", ""))
    if kind in KINDS:
        result.objects.append(admitted(document.object, lookup, file=document.file, line=document.line))
    elif _framework_of(document.object) is not None:
        job = admitted(document.object, lookup, file=document.file, line=document.line)
        result.jobs.append(
            Document(
                object=job,
                file=document.file,
                line=document.line,
                source=document.source,
                first_line=document.first_line,
                prefix=document.prefix,
            )
        )
    else:
        result.ignored[kind] = result.ignored.get(kind, 0) + 1


def admitted(obj: Object, lookup: DocumentLookup, *, file: str = "-", line: int = 0) -> Object:
    """The object in its storage version with its defaults."""
    kinds = scheme()
    kind = kinds.for_kind(obj["apiVersion"], obj["kind"])
    assert kind is not None
    storage_kind = kinds.for_path(kind.group, kind.storage_version, kind.plural) or kind
    pipeline = AdmissionPipeline(lookup=lookup, settings=Settings(frameworks=frozenset(job_kinds.JOB_KINDS)))
    new = copy.deepcopy(obj)
    metadata = new.setdefault("metadata", {})
    if kind.namespaced:
        metadata.setdefault("namespace", _DEFAULT_NAMESPACE)
    if "name" not in metadata and "generateName" in metadata:
        metadata["name"] = f"{metadata['generateName']}{line}"
    metadata.setdefault("uid", f"{metadata['name']}-uid")
    metadata.setdefault("creationTimestamp", "1970-01-01T00:00:00Z")
    try:
        new = pipeline.admit(kind, storage_kind, new, None)
    except ApiError as error:
        raise SourceError(error.message, file=file, line=line) from None
    return {"apiVersion": f"{storage_kind.group}/{storage_kind.version}".lstrip("/"), "kind": kind.kind, **new}


def _framework_of(obj: Object, configuration: Mapping[str, Any] | None = None) -> JobFramework | None:
    """The framework of a job, enabled or not: a plan is about the jobs that it names."""
    for kind in (*registry.FRAMEWORKS.values(), *settings.frameworks(configuration or {}).values()):
        if (kind.resource.kind, kind.resource.group) == (obj.get("kind"), _group(obj)):
            return kind
    return None


def _group(obj: Object) -> str:
    return str(obj.get("apiVersion", "")).rpartition("/")[0]


def add_jobs(
    documents: Sequence[Document], collector: JobCollector, *, run_ns: int | None, interval_ns: int = 0
) -> None:
    """Add every job; `run_ns` is for jobs that do not say how long they run."""
    classes = collector.world.priority_classes
    for document in documents:
        workload = workload_of(document.object, classes, collector.world, file=document.file, line=document.line)
        submit_ns = _submit_ns(document)
        collector.add_workload(
            workload,
            submit_ns=len(collector.jobs) * interval_ns if submit_ns is None else submit_ns,
            run_ns=_run_ns(document, run_ns),
            name=objects.name(document.object),
        )


def workload_of(job: Object, classes: PriorityClasses, world: World, *, file: str = "-", line: int = 0) -> Object:
    """The Workload that the job controller would create."""
    kind = _framework_of(job, world.configuration)
    assert kind is not None
    policy = settings.job_policy(world.configuration)
    pod_sets = framework.pod_sets(kind, job, policy.options)
    try:
        priority = construction.priority_of(kind, job, pod_sets, classes)
    except construction.MissingPriorityClassError as error:
        remedy = "Add the class to the files of -f."
        raise SourceError(str(error), file=file, line=line, remedy=remedy) from None
    return construction.workload_of(kind, job, pod_sets, priority=priority)


def _submit_ns(document: Document) -> int | None:
    text = objects.annotations(document.object).get(SUBMIT_AFTER)
    return None if text is None else _duration_ns(text, SUBMIT_AFTER, document)


def _run_ns(document: Document, default_ns: int | None) -> int | None:
    """The longest run time of any container; None if a container runs until it is deleted.

    The containers of Ray's kinds run Ray, not the job, so a `sleep` in them says nothing.
    """
    job = document.object
    text = objects.annotations(job).get(simulated.RUNTIME)
    if text is not None and text != simulated.UNTIL_DELETED:
        return _duration_ns(text, simulated.RUNTIME, document)
    kind = _framework_of(job)
    assert kind is not None
    if kind.name.startswith(_RAY):
        return default_ns
    longest: float | None = None
    for pod_set in framework.pod_sets(kind, job, settings.job_policy({}).options):
        template = pod_set["template"]
        pod = {"metadata": template.get("metadata") or {}, "spec": template["spec"]}
        for container in template["spec"].get("containers") or ():
            seconds = simulated.seconds(pod, container)
            if seconds is not None:
                longest = max(longest or 0.0, seconds)
    return default_ns if longest is None else round(longest * SECOND_NS)


def _duration_ns(text: str, annotation: str, document: Document) -> int:
    try:
        return durations.to_ns(text if text[-1:].isalpha() else f"{text}s")
    except ValueError:
        line = document.line_of("metadata.annotations")
        message = f"{text!r} is not a duration"
        remedy = "Write 90, 30s or 1h30m."
        raise SourceError(message, file=document.file, line=line, column=annotation, remedy=remedy) from None
