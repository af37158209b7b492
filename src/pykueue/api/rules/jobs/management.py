"""Which jobs Kueue manages, and the labels and fields that creation fills in.

The queue comes from the label, or from the LocalQueue `default` of the namespace. A job below a managed job is left to
that job. Namespaces outside `managedJobsNamespaceSelector` are left alone.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pykueue.api import feature_gates
from pykueue.api.rules import reading
from pykueue.api.rules.jobs import frameworks
from pykueue.api.rules.jobs.frameworks import Framework
from pykueue.api.scheme import Object, Request, Resource

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
ELASTIC_GATE = "kueue.x-k8s.io/elastic-job"
MULTI_KUEUE = "kueue.x-k8s.io/multikueue"
_DEFAULT_NAME = "default"
_LONGEST_CHAIN = 10

_NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
_LOCAL_QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue", namespaced=True)
_CLUSTER_QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False)
_CHECKS = Resource("kueue.x-k8s.io", "v1beta2", "admissionchecks", "AdmissionCheck", namespaced=False)
_PRIORITY_CLASSES = Resource(
    "kueue.x-k8s.io", "v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False
)


def is_on(request: Request, gate: str) -> bool:
    return feature_gates.is_enabled(request.settings.feature_gates, gate)


def queue_name(job: Object) -> str:
    return reading.labels(job).get(QUEUE_NAME, "")


def is_managed(request: Request) -> bool:
    return request.settings.manage_jobs_without_queue_name or queue_name(request.object) != ""


def is_or_was_managed(request: Request, old: Object) -> bool:
    """Whether an update concerns us, of kinds whose webhooks leave others alone."""
    return is_managed(request) or (queue_name(old) != "" and is_on(request, "ValidateRayAndSparkJobUpdates"))


def set_label(obj: Object, key: str, value: str) -> None:
    frameworks.put(obj, ("metadata", "labels", key), value=value)


def default_queue_exists(request: Request) -> bool:
    return request.lookup.get(_LOCAL_QUEUES, reading.namespace(request.object), _DEFAULT_NAME) is not None


def is_namespace_managed(request: Request) -> bool:
    selector = request.settings.managed_jobs_namespace_selector
    if selector is None:
        return True
    namespace = request.lookup.get(_NAMESPACES, "", reading.namespace(request.object))
    return namespace is not None and selects(selector, reading.labels(namespace))


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_meets(requirement, labels) for requirement in selector.get("matchExpressions") or ())


def _meets(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator = str(requirement["key"]), str(requirement["operator"])
    values: list[str] = requirement.get("values") or []
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    return (key in labels) == (operator == "Exists")


def is_owner_managed(request: Request, job: Object) -> bool:
    """Whether the direct owner is of a kind that Kueue manages here."""
    owner = _controller(job)
    framework = frameworks.of_owner(owner["apiVersion"], owner["kind"]) if owner else None
    return framework is not None and framework.name in request.settings.frameworks


def has_managed_ancestor(request: Request) -> bool:
    manages_all = request.settings.manage_jobs_without_queue_name
    return any(
        framework.name in request.settings.frameworks and (manages_all or queue_name(ancestor) != "")
        for framework, ancestor in _ancestors(request)
    )


def _ancestors(request: Request) -> Iterator[tuple[Framework, Object]]:
    """Owners upwards, as long as each is of a known kind and is the very object meant."""
    namespace, current = reading.namespace(request.object), request.object
    for _ in range(_LONGEST_CHAIN):
        owner = _controller(current)
        if owner is None:
            return
        framework = frameworks.of_owner(owner["apiVersion"], owner["kind"]) or _replica_set(owner)
        parent = framework and request.lookup.get(framework.resource, namespace, owner["name"])
        if not framework or not parent or reading.at(parent, "metadata", "uid") != owner["uid"]:
            return
        yield framework, parent
        current = parent


def _controller(obj: Object) -> Mapping[str, str] | None:
    references = reading.mappings(reading.at(obj, "metadata", "ownerReferences"))
    fields = ("apiVersion", "kind", "name", "uid")
    return next(
        ({field: reading.text(each.get(field)) for field in fields} for each in references if each.get("controller")),
        None,
    )


_REPLICA_SET = Framework(
    name="replicaset", resource=Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True)
)


def _replica_set(owner: Mapping[str, str]) -> Framework | None:
    """Between a Deployment and its pods: known, never managed itself."""
    return _REPLICA_SET if (owner["apiVersion"], owner["kind"]) == ("apps/v1", "ReplicaSet") else None


def should_be_suspended(request: Request) -> bool:
    job = request.object
    if reading.at(job, "metadata", "deletionTimestamp") and is_on(request, "SkipAncestorCheckForDeletedWorkloads"):
        return False
    if has_managed_ancestor(request):
        return False
    if queue_name(job):
        return True
    return request.settings.manage_jobs_without_queue_name and is_namespace_managed(request)


def apply_default_queue(request: Request) -> None:
    job = request.object
    if queue_name(job) or is_owner_managed(request, job) or not default_queue_exists(request):
        return
    if is_namespace_managed(request):
        set_label(job, QUEUE_NAME, _DEFAULT_NAME)


def apply_default_priority_class(request: Request) -> None:
    job = request.object
    if not is_on(request, "WorkloadPriorityClassDefaulting") or reading.labels(job).get(PRIORITY_CLASS):
        return
    if not is_owner_managed(request, job) and request.lookup.get(_PRIORITY_CLASSES, "", _DEFAULT_NAME) is not None:
        set_label(job, PRIORITY_CLASS, _DEFAULT_NAME)


def apply_managed_by(request: Request, framework: Framework) -> None:
    """A job whose queue dispatches to other clusters is not for the local controller."""
    job = request.object
    if not framework.managed_by or not is_on(request, "MultiKueue"):
        return
    if reading.at(job, *framework.managed_by) in (None, framework.operator) and _dispatches(request):
        frameworks.put(job, framework.managed_by, value=MULTI_KUEUE)


def _dispatches(request: Request) -> bool:
    local_queue = request.lookup.get(_LOCAL_QUEUES, reading.namespace(request.object), queue_name(request.object))
    name = reading.text(reading.at(local_queue, "spec", "clusterQueue"))
    cluster_queue = request.lookup.get(_CLUSTER_QUEUES, "", name) if name else None
    strategy = reading.at(cluster_queue, "spec", "admissionChecksStrategy", "admissionChecks")
    checks = (request.lookup.get(_CHECKS, "", reading.text(each.get("name"))) for each in reading.mappings(strategy))
    return any(reading.at(check, "spec", "controllerName") == MULTI_KUEUE for check in checks)


def add_scheduling_gate(pod_spec: Object, name: str) -> None:
    gates = pod_spec.setdefault("schedulingGates", [])
    if isinstance(gates, list) and {"name": name} not in gates:
        gates.append({"name": name})
