"""LeaderWorkerSet: groups of a leader and workers.

It cannot be suspended, so its pods get scheduling gates.
"""

from collections.abc import Iterator
from typing import Any

from pykueue.api.errors import FieldError
from pykueue.api.labels import POD_GROUP_SERVING, POD_INDEX_OFFSET, POD_SET_GROUP_NAME, POD_SUSPENDING_PARENT
from pykueue.api.rules import faults, reading
from pykueue.api.rules.jobs import job_kinds, management, serving, topology
from pykueue.api.rules.jobs.topology import Template
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

JOB_KIND = job_kinds.LEADER_WORKER_SET
MOST_REPLICAS = 1_000_000
_PATH = ("spec", "leaderWorkerTemplate")
_LEADER, _WORKER = "leaderTemplate", "workerTemplate"


def default(request: AdmissionRequest) -> None:
    management.apply_default_queue(request)
    management.apply_default_priority_class(request)
    if not management.should_be_suspended(request):
        return
    parts = reading.mapping(reading.at(request.object, *_PATH))
    has_leader = isinstance(parts.get(_LEADER), dict)
    for name in (_LEADER, _WORKER) if has_leader else (_WORKER,):
        serving.copy_labels(request.object, (*_PATH, name))
        _annotate(request.object, name, POD_SUSPENDING_PARENT, JOB_KIND.name)
        _annotate(request.object, name, POD_GROUP_SERVING, "true")
    is_grouped = POD_SET_GROUP_NAME in reading.annotations(reading.mapping(parts.get(_WORKER)))
    if management.is_on(request, "TopologyAwareScheduling") and has_leader and not is_grouped:
        _annotate(request.object, _WORKER, POD_INDEX_OFFSET, "1")


def _annotate(job: Object, template: str, name: str, value: str) -> None:
    job_kinds.set_nested(job, (*_PATH, template, "metadata", "annotations", name), value=value)


def validate(request: AdmissionRequest) -> ValidationResult:
    field_errors = serving.check(request, JOB_KIND)
    field_errors += _check_replicas(request.object)
    field_errors += topology.check(request, _templates(request.object), groups=True)
    if request.old is not None and management.should_be_suspended(request):
        field_errors += _check_change(request, request.old)
    return ValidationResult(denied=tuple(field_errors), webhook=JOB_KIND.webhook)


def _check_replicas(job: Object) -> Iterator[FieldError]:
    count = reading.integer(reading.at(job, "spec", "replicas"), 1)
    if not 0 <= count <= MOST_REPLICAS:
        bound = ">= 0" if count < 0 else f"<= {MOST_REPLICAS}"
        detail = f"invalid LeaderWorkerSet replicas: must be {bound}, got {count}"
        yield faults.invalid("spec.replicas", count, detail)


def _size(job: Object) -> int:
    return reading.integer(reading.at(job, *_PATH, "size"), 1)


def _templates(job: Object) -> list[Template]:
    leader, worker = (reading.at(job, *_PATH, name) for name in (_LEADER, _WORKER))
    path = ".".join(_PATH)
    if not isinstance(leader, dict):
        return [Template.of(f"{path}.{_WORKER}", worker, _size(job))]
    return [
        Template.of(f"{path}.{_LEADER}", leader, 1),
        Template.of(f"{path}.{_WORKER}", worker, _size(job) - 1),
    ]


def _check_change(request: AdmissionRequest, old: Object) -> Iterator[FieldError]:
    new, path = request.object, ".".join(_PATH)
    for name in (_LEADER, _WORKER):
        after, before = (_pod_spec(reading.at(version, *_PATH, name)) for version in (new, old))
        if (after is None) != (before is None):
            yield from faults.changed(f"{path}.{name}", after, before)
        else:
            yield from serving.check_role(f"{path}.{name}.spec", after or {}, before or {})
    if management.is_on(request, "LWSImmutableGroupSize"):
        yield from faults.changed(f"{path}.size", _size(new), _size(old))


def _pod_spec(template: Any) -> Object | None:
    return reading.mapping(template.get("spec")) if isinstance(template, dict) else None
