"""Validation of requests and limits: of containers, of a whole pod, and of the pod's overhead."""

from collections.abc import Callable, Iterator, Mapping

from pykueue.api import resource_lists
from pykueue.api.errors import FieldError
from pykueue.api.quantity import Quantity
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.scheme import Object

_HUGE_PAGES = "hugepages-"
_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_STANDARD_RESOURCES = frozenset(
    {
        *_CONTAINER_RESOURCES,
        *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"),
        *("persistentvolumeclaims", "storage", "services.nodeports", "services.loadbalancers"),
        *("requests.cpu", "requests.memory", "requests.ephemeral-storage", "requests.storage"),
        *("limits.cpu", "limits.memory", "limits.ephemeral-storage"),
    }
)
_POD_RESOURCES = ("cpu", "hugepages-", "memory")
_NOT_INTEGER = "must be an integer"
_NANO = 10**9


def check_container(path: str, container: Object, claims: frozenset[str]) -> Iterator[FieldError]:
    resources = reading.mapping(container.get("resources"))
    yield from _check_requirements(f"{path}.resources", resources, _check_container_resource)
    yield from _check_claims(f"{path}.resources.claims", resources, claims)


def check_overhead(path: str, overhead: Mapping[str, str]) -> Iterator[FieldError]:
    if overhead:
        yield from _check_requirements(path, {"limits": overhead}, _check_container_resource)


def check_pod(path: str, spec: Object) -> Iterator[FieldError]:
    """Pod-level resources: at least what the containers request together."""
    resources = reading.mapping(spec.get("resources"))
    if not resources:
        return
    here = f"{path}.resources"
    if reading.at(spec, "os", "name") == "windows":
        yield faults.forbidden(here, "may not be set for a windows pod")
        return
    if resources.get("claims") is not None:
        yield faults.forbidden(f"{here}.claims", "claims may not be set for Resources at pod-level")
    yield from _check_requirements(here, resources, _check_pod_resource)
    requests, limits = (reading.amounts(resources.get(name)) for name in ("requests", "limits"))
    for name, amount in container_requests(spec).items():
        if name in requests and amount.nano > requests[name].nano:
            detail = f"must be greater than or equal to aggregate container requests of {amount}"
            yield faults.invalid(f"{here}.requests[{name}]", str(requests[name]), detail)
    for index, container in enumerate(reading.mappings(spec.get("containers"))):
        for name, amount in reading.amounts(reading.at(container, "resources", "limits")).items():
            if name in limits and amount.nano > limits[name].nano:
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                yield faults.invalid(f"{here}.containers[{index}][{name}].limits", str(amount), detail)


def requests(spec: Object) -> dict[str, Quantity]:
    """What a pod requests; amounts that cannot be read count nothing."""
    overhead = resource_lists.to_text(reading.amounts(spec.get("overhead")))
    return resource_lists.pod_requests({**_readable_containers(spec), **_readable(spec), "overhead": overhead})


def container_requests(spec: Object) -> dict[str, Quantity]:
    """The requests of all containers together, without pod-level requests and overhead."""
    return resource_lists.container_requests(_readable_containers(spec))


def _readable_containers(spec: Object) -> Object:
    return {name: [*map(_readable, reading.mappings(spec.get(name)))] for name in ("containers", "initContainers")}


def _readable(holder: Object) -> Object:
    amounts = reading.amounts(reading.at(holder, "resources", "requests"))
    return {
        "restartPolicy": holder.get("restartPolicy"),
        "resources": {"requests": resource_lists.to_text(amounts)},
    }


def default_pod_requests(spec: Object) -> None:
    """Set pod-level requests that follow from the pod-level limits, as the API server does.

    A request is that of the containers together if they have one, else the limit.
    """
    resources = spec.get("resources")
    if not isinstance(resources, dict) or not isinstance(resources.get("limits"), dict):
        return
    requests = reading.ensure_mapping(resources, "requests")
    of_containers = container_requests(spec)
    for name in resources["limits"]:
        if name in requests or not resource_lists.is_pod_level(name):
            continue
        amount = of_containers.get(name)
        requests[name] = resources["limits"][name] if amount is None or name.startswith(_HUGE_PAGES) else str(amount)


def _check_requirements(
    path: str, resources: Object, check_name: Callable[[str, str], Iterator[FieldError]]
) -> Iterator[FieldError]:
    limits, requests = reading.amounts(resources.get("limits")), reading.amounts(resources.get("requests"))
    for name, amount in limits.items():
        yield from check_name(f"{path}.limits[{name}]", name)
        yield from _check_amount(f"{path}.limits[{name}]", name, amount)
    for name, amount in requests.items():
        yield from check_name(f"{path}.requests[{name}]", name)
        yield from _check_amount(f"{path}.requests[{name}]", name, amount)
        limit, may_overcommit = limits.get(name), _may_overcommit(name)
        if limit is None:
            if not may_overcommit:
                yield faults.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif limit.nano != amount.nano and not may_overcommit:
            detail = f"must be equal to {name} limit of {limit}"
            yield faults.invalid(f"{path}.requests", str(amount), detail)
        elif amount.nano > limit.nano:
            detail = f"must be less than or equal to {name} limit of {limit}"
            yield faults.invalid(f"{path}.requests", str(amount), detail)
    names = limits.keys() | requests.keys()
    if any(name.startswith(_HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        yield faults.forbidden(path, "HugePages require cpu or memory")


def _may_overcommit(name: str) -> bool:
    return ("/" not in name or "kubernetes.io/" in name) and not name.startswith(_HUGE_PAGES)


def _is_extended(name: str) -> bool:
    is_native = "/" not in name or "kubernetes.io/" in name
    return not is_native and not name.startswith("requests.") and not syntax.label_key(f"requests.{name}")


def _check_resource_name(path: str, name: str) -> list[FieldError]:
    if explanations := syntax.label_key(name):
        return [faults.invalid(path, name, explanation) for explanation in explanations]
    if "/" not in name and name not in _STANDARD_RESOURCES and not name.startswith(_HUGE_PAGES):
        return [faults.invalid(path, name, "must be a standard resource type or fully qualified")]
    return []


def _check_container_resource(path: str, name: str) -> Iterator[FieldError]:
    yield from _check_resource_name(path, name)
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not name.startswith(_HUGE_PAGES):
            yield faults.invalid(path, name, "must be a standard resource for containers")
    elif "kubernetes.io/" not in name and not _is_extended(name):
        yield faults.invalid(path, name, "doesn't follow extended resource name standard")


def _check_pod_resource(path: str, name: str) -> Iterator[FieldError]:
    wrong = _check_resource_name(path, name)
    yield from wrong
    if not wrong and not resource_lists.is_pod_level(name):
        yield faults.not_supported(path, name, _POD_RESOURCES)


def _check_amount(path: str, name: str, amount: Quantity) -> Iterator[FieldError]:
    if amount.nano < 0:
        yield faults.invalid(path, str(amount), faults.NEGATIVE)
    if _is_extended(name) and amount.nano % _NANO:
        yield faults.invalid(path, str(amount), _NOT_INTEGER)


def _check_claims(path: str, resources: Object, claims: frozenset[str]) -> Iterator[FieldError]:
    keys: set[tuple[str, str]] = set()
    for index, claim in enumerate(reading.mappings(resources.get("claims"))):
        here, name = f"{path}[{index}]", reading.text(claim.get("name"))
        request = reading.text(claim.get("request"))
        if not name:
            yield faults.required(here)
            continue
        if (name, "") in keys or (name, request) in keys or (not request and any(key[0] == name for key in keys)):
            yield faults.duplicate(here, f"{name}/{request}" if request and (name, "") not in keys else name)
        elif request:
            yield from syntax.check_dns_label(f"{here}.request", request)
        keys.add((name, request))
        if name not in claims:
            choices = f": {', '.join(sorted(claims))}" if claims else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{choices}"
            yield FieldError("FieldValueNotFound", here, detail, name)
