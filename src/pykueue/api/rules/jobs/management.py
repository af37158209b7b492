"""Which jobs Kueue manages, and the labels and fields that are set at creation.

The queue comes from the label, or from the LocalQueue `default` of the namespace. A job whose
ancestor is managed is not managed itself. Jobs without a queue are managed only in namespaces that
match `managedJobsNamespaceSelector`.
"""

from collections.abc import Iterator, Mapping

from pykueue.api import feature_gates, resources, selectors
from pykueue.api.labels import PRIORITY_CLASS, QUEUE_NAME
from pykueue.api.rules import reading
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.rules.jobs.job_kinds import JobKind
from pykueue.api.scheme import AdmissionRequest, Object

MULTI_KUEUE = "kueue.x-k8s.io/multikueue"
_DEFAULT_NAME = "default"
_LONGEST_CHAIN = 10


def is_on(request: AdmissionRequest, gate: str) -> bool:
    return feature_gates.is_enabled(request.settings.feature_gates, gate)


def queue_name(job: Object) -> str:
    return reading.label(job, QUEUE_NAME) or ""


def is_managed(request: AdmissionRequest) -> bool:
    return request.settings.manage_jobs_without_queue_name or queue_name(request.object) != ""


def is_or_was_managed(request: AdmissionRequest, old: Object) -> bool:
    """Whether the webhook of a Ray or Spark kind checks an update."""
    return is_managed(request) or (queue_name(old) != "" and is_on(request, "ValidateRayAndSparkJobUpdates"))


def set_label(obj: Object, key: str, value: str) -> None:
    job_kinds.set_nested(obj, ("metadata", "labels", key), value=value)


def default_queue_exists(request: AdmissionRequest) -> bool:
    return request.lookup.get(resources.LOCAL_QUEUE, reading.namespace(request.object), _DEFAULT_NAME) is not None


def is_namespace_managed(request: AdmissionRequest) -> bool:
    selector = request.settings.managed_jobs_namespace_selector
    if selector is None:
        return True
    namespace = request.lookup.get(resources.NAMESPACE, "", reading.namespace(request.object))
    return namespace is not None and selectors.selects(selector, reading.labels(namespace))


def is_owner_managed(request: AdmissionRequest, job: Object) -> bool:
    """Whether the direct owner is of a job kind that Kueue or another controller queues."""
    owner = _controller(job)
    job_kind = _job_kind(request, owner) if owner else None
    return job_kind is not None and _is_enabled(request, job_kind)


def _is_enabled(request: AdmissionRequest, job_kind: JobKind) -> bool:
    return job_kind.name in request.settings.frameworks or job_kind.resource in request.settings.external_jobs


def _job_kind(request: AdmissionRequest, owner: Mapping[str, str]) -> JobKind | None:
    for resource in request.settings.external_jobs:
        if (resource.api_version, resource.kind) == (owner["apiVersion"], owner["kind"]):
            return JobKind(name=resource.kind, resource=resource)
    return job_kinds.of_owner(owner["apiVersion"], owner["kind"])


def has_managed_ancestor(request: AdmissionRequest) -> bool:
    manages_all = request.settings.manage_jobs_without_queue_name
    return any(
        _is_enabled(request, job_kind) and (manages_all or queue_name(ancestor) != "")
        for job_kind, ancestor in _ancestors(request)
    )


def _ancestors(request: AdmissionRequest) -> Iterator[tuple[JobKind, Object]]:
    """The controlling owners from the nearest to the farthest.

    They end at a kind that is not a job kind, or at a reference whose uid is not that of the
    object.
    """
    namespace, current = reading.namespace(request.object), request.object
    for _ in range(_LONGEST_CHAIN):
        owner = _controller(current)
        if owner is None:
            return
        job_kind = _job_kind(request, owner) or _replica_set(owner)
        parent = job_kind and request.lookup.get(job_kind.resource, namespace, owner["name"])
        if not job_kind or not parent or reading.at(parent, "metadata", "uid") != owner["uid"]:
            return
        yield job_kind, parent
        current = parent


def _controller(obj: Object) -> Mapping[str, str] | None:
    references = reading.mappings(reading.at(obj, "metadata", "ownerReferences"))
    fields = ("apiVersion", "kind", "name", "uid")
    return next(
        (
            {field: reading.text(reference.get(field)) for field in fields}
            for reference in references
            if reference.get("controller")
        ),
        None,
    )


_REPLICA_SET = JobKind(name="replicaset", resource=resources.REPLICA_SET)


def _replica_set(owner: Mapping[str, str]) -> JobKind | None:
    """The ReplicaSet between a Deployment and its pods, which is never managed itself."""
    return _REPLICA_SET if (owner["apiVersion"], owner["kind"]) == ("apps/v1", "ReplicaSet") else None


def should_be_suspended(request: AdmissionRequest) -> bool:
    job = request.object
    if reading.at(job, "metadata", "deletionTimestamp") and is_on(request, "SkipAncestorCheckForDeletedWorkloads"):
        return False
    if has_managed_ancestor(request):
        return False
    if queue_name(job):
        return True
    return request.settings.manage_jobs_without_queue_name and is_namespace_managed(request)


def apply_default_queue(request: AdmissionRequest) -> None:
    job = request.object
    if queue_name(job) or is_owner_managed(request, job) or not default_queue_exists(request):
        return
    if is_namespace_managed(request):
        set_label(job, QUEUE_NAME, _DEFAULT_NAME)


def apply_default_priority_class(request: AdmissionRequest) -> None:
    job = request.object
    if not is_on(request, "WorkloadPriorityClassDefaulting") or reading.label(job, PRIORITY_CLASS):
        return
    if (
        not is_owner_managed(request, job)
        and request.lookup.get(resources.WORKLOAD_PRIORITY_CLASS, "", _DEFAULT_NAME) is not None
    ):
        set_label(job, PRIORITY_CLASS, _DEFAULT_NAME)


def apply_managed_by(request: AdmissionRequest, job_kind: JobKind) -> None:
    """Set `managedBy` of a job whose queue dispatches to other clusters."""
    job = request.object
    if not job_kind.managed_by or not is_on(request, "MultiKueue"):
        return
    if reading.at(job, *job_kind.managed_by) in (None, job_kind.operator) and _dispatches(request):
        job_kinds.set_nested(job, job_kind.managed_by, value=MULTI_KUEUE)


def _dispatches(request: AdmissionRequest) -> bool:
    local_queue = request.lookup.get(
        resources.LOCAL_QUEUE, reading.namespace(request.object), queue_name(request.object)
    )
    name = reading.text(reading.at(local_queue, "spec", "clusterQueue"))
    cluster_queue = request.lookup.get(resources.CLUSTER_QUEUE, "", name) if name else None
    strategy = reading.at(cluster_queue, "spec", "admissionChecksStrategy", "admissionChecks")
    checks = (
        request.lookup.get(resources.ADMISSION_CHECK, "", reading.text(check.get("name")))
        for check in reading.mappings(strategy)
    )
    return any(reading.at(check, "spec", "controllerName") == MULTI_KUEUE for check in checks)


def add_scheduling_gate(pod_spec: Object, name: str) -> None:
    gates = pod_spec.setdefault("schedulingGates", [])
    if isinstance(gates, list) and {"name": name} not in gates:
        gates.append({"name": name})
