"""What only controllers may change in jobs and their pods, so that quota is not had for nothing.

Kueue believes controller references, labels and gates, as Kubernetes' controllers do: the child of
an admitted job runs without quota of its own, and a pod that lost its controller is replaced by
another one. Kubernetes lets everybody write them. The embedded API server asks these rules about
the writes of users; controllers and administrators are not asked.
"""

from collections.abc import Iterator, Mapping

from pykueue.api.errors import FieldError
from pykueue.api.labels import MANAGED, PRIORITY_CLASS, QUEUE_NAME, RETRIABLE_IN_GROUP
from pykueue.api.rules import faults, reading
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object

ORPHAN = "orphan"
ORPHANING = "the pods of a job in a queue cannot be orphaned: they would run without quota"
_KUEUE = "kueue.x-k8s.io/"
_OWN_RULES = (QUEUE_NAME, PRIORITY_CLASS, RETRIABLE_IN_GROUP)
"""Keys that a user may change; the rules of the job kinds say when."""
_UNQUALIFIED_LABELS = ("controller-uid", "job-name")
_LABELS_OF_PODS = frozenset({QUEUE_NAME, MANAGED})
_CONTROLLER = "is set by controllers only: a job that belongs to another one uses its quota"


def check(obj: Object, old: Object | None) -> Iterator[FieldError]:
    """The errors of a write by somebody who is neither a controller nor an administrator."""
    after, before = _controller(obj), _controller(old)
    if after != before and (_is_job(after) or _is_job(before)):
        yield faults.forbidden("metadata.ownerReferences", _CONTROLLER)
    if ORPHAN in _finalizers(obj) and ORPHAN not in _finalizers(old) and keeps_quota(obj):
        yield faults.forbidden("metadata.finalizers", ORPHANING)
    if old is None:
        return
    if (obj.get("apiVersion"), obj.get("kind")) == ("v1", "Pod"):
        yield from _check_pod(obj, old)
    elif _is_job(before) and obj.get("spec") != old.get("spec"):
        yield faults.forbidden("spec", "is changed by its controller only: its quota is that of the job above it")


def check_status(obj: Object, old: Object | None) -> Iterator[FieldError]:
    """The errors of a write by somebody who has no rights in all namespaces.

    The status of a Workload is its admission; a job or pod that has ended gives its quota back.
    """
    if old is None or obj.get("status") == old.get("status"):
        return
    kind = (reading.text(obj.get("apiVersion")).partition("/")[0], obj.get("kind"))
    is_pod = kind == ("v1", "Pod") and (
        _is_job(_controller(old)) or not _LABELS_OF_PODS.isdisjoint(reading.labels(old))
    )
    if is_pod or kind == ("kueue.x-k8s.io", "Workload") or keeps_quota(old):
        yield faults.forbidden("status", "is written by controllers only: quota depends on it")


def keeps_quota(obj: Object) -> bool:
    """Whether the object is a job in a queue, or the child of a job: its pods use quota."""
    is_job = job_kinds.of_owner(reading.text(obj.get("apiVersion")), reading.text(obj.get("kind"))) is not None
    return is_job and (QUEUE_NAME in reading.labels(obj) or _is_job(_controller(obj)))


def _check_pod(pod: Object, old: Object) -> Iterator[FieldError]:
    gates = _gates(pod)
    for name in _gates(old):
        if name.startswith(_KUEUE) and name not in gates:
            yield faults.forbidden("spec.schedulingGates", f"{name} is removed by Kueue when the pod is admitted")
    if MANAGED in _finalizers(old) and MANAGED not in _finalizers(pod):
        yield faults.forbidden("metadata.finalizers", f"{MANAGED} is removed by Kueue when the quota is free again")
    labels, before = reading.labels(pod), reading.labels(old)
    is_child = _is_job(_controller(old))
    for key in _changed(labels, before):
        is_identity = "/" in key or key in _UNQUALIFIED_LABELS
        if key not in _OWN_RULES and (key.startswith(_KUEUE) or (is_child and is_identity)):
            yield faults.forbidden(f"metadata.labels[{key}]", "is changed by controllers only")
    for key in _changed(reading.annotations(pod), reading.annotations(old)):
        if key not in _OWN_RULES and key.startswith(_KUEUE):
            yield faults.forbidden(f"metadata.annotations[{key}]", "is changed by controllers only")


def _changed(after: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """The keys that were there and have another value now."""
    return [key for key, value in before.items() if after.get(key) != value]


def _gates(pod: Object) -> list[str]:
    return [reading.text(gate.get("name")) for gate in reading.mappings(reading.at(pod, "spec", "schedulingGates"))]


def _finalizers(obj: Object | None) -> list[str]:
    return reading.texts(reading.at(obj, "metadata", "finalizers"))


def _controller(obj: Object | None) -> tuple[str, ...]:
    for reference in reading.mappings(reading.at(obj, "metadata", "ownerReferences")):
        if reference.get("controller") is True:
            return tuple(reading.text(reference.get(field)) for field in ("apiVersion", "kind", "uid"))
    return ()


def _is_job(controller: tuple[str, ...]) -> bool:
    return bool(controller) and job_kinds.of_owner(controller[0], controller[1]) is not None
