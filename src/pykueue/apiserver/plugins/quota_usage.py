"""What objects count for in a ResourceQuota: pure functions, as Kubernetes' quota evaluators.

`resource_quota` enforces quotas with them; `controllers.resource_quota_status` shows the usage.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from pykueue.api import objects, quantity, resource_lists, times
from pykueue.api.quantity import Quantity
from pykueue.api.resource_lists import Quantities
from pykueue.api.rules.builtin.pod import qos_class
from pykueue.api.scheme import Object

GroupPlural = tuple[str, str]

POD: GroupPlural = ("", "pods")
_CLAIM: GroupPlural = ("", "persistentvolumeclaims")
_SERVICE: GroupPlural = ("", "services")
_COUNTED = ("configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services")
"""Resources of the core group that a quota may name without `count/`."""
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_MUST_BE_SET = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
_POD_NAMES = frozenset(
    ("pods", "count/pods", *_COMPUTE, *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _COMPUTE))
)
_CLASS = ".storageclass.storage.k8s.io/"
_STORAGE_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_ONE = quantity.from_units(1)


def kind_of(name: str) -> GroupPlural:
    """The group and plural of the objects that use a resource of a quota."""
    if name.startswith("count/"):
        plural, _, group = name.removeprefix("count/").partition(".")
        return (group, plural)
    if name in _COUNTED:
        return ("", name)
    if name in ("services.nodeports", "services.loadbalancers"):
        return _SERVICE
    if name == "requests.storage" or _CLASS in name:
        return _CLAIM
    return POD


def hard_of(quota: Object) -> Quantities:
    return resource_lists.parse(objects.spec(quota).get("hard"))


def usage_of(kind: GroupPlural, obj: Object, now: datetime) -> Quantities:
    """What one object uses."""
    group, plural = kind
    usage = {f"count/{plural}.{group}" if group else f"count/{plural}": _ONE}
    if not group and plural in _COUNTED:
        usage[plural] = _ONE
    if kind == POD:
        return usage | _pod_usage(obj, now)
    if kind == _SERVICE:
        return usage | _service_usage(objects.spec(obj))
    if kind == _CLAIM:
        return usage | _claim_usage(obj)
    return usage


def _pod_usage(pod: Object, now: datetime) -> Quantities:
    """The compute resources of a pod that has not ended."""
    if objects.status(pod).get("phase") in ("Succeeded", "Failed"):
        return {}
    end = end_of(pod)
    if end is not None and now > end:
        return {}
    spec = objects.spec(pod)
    return _compute_usage(resource_lists.pod_requests(spec), pod_limits(spec))


def end_of(pod: Object) -> datetime | None:
    """When a deleted pod no longer uses compute resources, though it may not be gone."""
    metadata = pod["metadata"]
    if "deletionTimestamp" not in metadata or "deletionGracePeriodSeconds" not in metadata:
        return None
    return times.parse(metadata["deletionTimestamp"]) + times.span(metadata["deletionGracePeriodSeconds"])


def pod_limits(spec: Object) -> Quantities:
    """The limits of a pod: computed as its requests are, with overhead on what is limited."""
    swapped = {
        **{field: spec.get(field) for field in ("overhead",)},
        "resources": _limits_as_requests(spec),
        **{
            field: [{**container, "resources": _limits_as_requests(container)} for container in spec.get(field) or ()]
            for field in ("containers", "initContainers")
        },
    }
    limited = resource_lists.pod_requests({**swapped, "overhead": None})
    return {name: value for name, value in resource_lists.pod_requests(swapped).items() if name in limited}


def _limits_as_requests(holder: Object) -> Object:
    return {"requests": objects.nested(holder, "resources").get("limits")}


def _compute_usage(requests: Quantities, limits: Quantities) -> Quantities:
    usage = {"pods": _ONE}
    for name, value in requests.items():
        usage[f"requests.{name}"] = value
        if name in _COMPUTE or name.startswith("hugepages-"):
            usage[name] = value
    usage |= {f"limits.{name}": limits[name] for name in _COMPUTE if name in limits}
    return usage


def _service_usage(spec: Object) -> Quantities:
    ports = spec.get("ports") or []
    of_type = spec.get("type", "ClusterIP")
    node_ports = 0
    if of_type == "NodePort":
        node_ports = len(ports)
    elif of_type == "LoadBalancer":
        allocates = spec.get("allocateLoadBalancerNodePorts", True)
        node_ports = len(ports) if allocates else sum(1 for port in ports if port.get("nodePort"))
    return {
        "services.nodeports": quantity.from_units(node_ports),
        "services.loadbalancers": quantity.from_units(int(of_type == "LoadBalancer")),
    }


def _claim_usage(claim: Object) -> Quantities:
    usage: Quantities = {}
    spec = objects.spec(claim)
    storage_class = objects.annotations(claim).get(_STORAGE_CLASS_ANNOTATION) or spec.get("storageClassName")
    storage = resource_lists.parse(objects.nested(spec, "resources").get("requests")).get("storage")
    if storage_class:
        usage[f"{storage_class}{_CLASS}persistentvolumeclaims"] = _ONE
    if storage is not None:
        usage["requests.storage"] = storage
        if storage_class:
            usage[f"{storage_class}{_CLASS}requests.storage"] = storage
    return usage


def applies(quota: Object, kind: GroupPlural, obj: Object) -> bool:
    """Whether a quota limits a resource of the kind, and its scopes match the object."""
    if not any(kind_of(name) == kind for name in objects.spec(quota).get("hard") or ()):
        return False
    return all(_matches_scope(scope, kind, obj) for scope in _scopes(quota))


def _scopes(quota: Object) -> Iterator[Object]:
    for name in objects.spec(quota).get("scopes") or ():
        yield {"scopeName": name, "operator": "Exists"}
    yield from objects.nested_list(quota, "spec", "scopeSelector", "matchExpressions")


def _matches_scope(scope: Object, kind: GroupPlural, obj: Object) -> bool:
    spec = objects.spec(obj)
    if kind == _CLAIM and scope["scopeName"] == "VolumeAttributesClass":
        return _selects(scope, spec.get("volumeAttributesClassName") or "")
    if kind != POD:
        return False
    match scope["scopeName"]:
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "PriorityClass":
            return _selects(scope, spec.get("priorityClassName") or "")
        case "CrossNamespacePodAffinity":
            return any(term.get("namespaces") or "namespaceSelector" in term for term in _affinity_terms(spec))
    return False


def _selects(scope: Object, name: str) -> bool:
    values = scope.get("values") or ()
    return {
        "Exists": bool(name),
        "DoesNotExist": not name,
        "In": bool(name) and name in values,
        "NotIn": name not in values,
    }.get(scope.get("operator", ""), False)


def _affinity_terms(spec: Object) -> Iterator[Object]:
    for field in ("podAffinity", "podAntiAffinity"):
        affinity = objects.nested(spec, "affinity", field)
        yield from affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield term.get("podAffinityTerm") or {}


def unset_resources(hard: Iterable[str], pod: Object) -> str:
    """Which resources of the quota which containers do not set; "" if all are set.

    A quota of CPU or memory counts only pods that say how much they use.
    """
    spec = objects.spec(pod)
    pod_level = objects.nested(spec, "resources")
    if pod_level.get("requests") or pod_level.get("limits"):
        return ""
    required = sorted(_MUST_BE_SET.intersection(hard))
    missing: dict[str, set[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = objects.nested(container, "resources")
        usage = _compute_usage(
            resource_lists.parse(resources.get("requests")), resource_lists.parse(resources.get("limits"))
        )
        for name in required:
            if name not in usage:
                missing.setdefault(name, set()).add(str(container.get("name", "")))
    return "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in required if name in missing)


def within(usage: Quantities, hard: Mapping[str, Quantity]) -> Quantities:
    """The part of a usage that the quota limits."""
    return {name: value for name, value in usage.items() if name in hard}


def increase(new: Quantities, old: Quantities) -> Quantities:
    """What a change adds; less usage counts as none."""
    zero = Quantity(0)
    added = {name: value - old.get(name, zero) for name, value in new.items()}
    return {name: value for name, value in added.items() if value.nano > 0}
