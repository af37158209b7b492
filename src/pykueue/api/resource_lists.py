"""Resource lists (`{"cpu": "500m", "memory": "1Gi"}`), and the requests of a pod.

Lists keep the text that the user wrote; quantities are parsed only where they are compared or
added. Used by LimitRange validation, by `translate` and by the kube-scheduler of the embedded
cluster.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pykueue.api import quantity
from pykueue.api.quantity import Quantity

ResourceList = dict[str, str]
"""Resource name to quantity, as text."""

Quantities = dict[str, Quantity]

LARGEST_AMOUNT = 2**63 - 1
_SMALLEST_AMOUNT = -(2**63)


def parse(resources: Mapping[str, Any] | None) -> Quantities:
    return {name: quantity.parse(text) for name, text in (resources or {}).items()}


def amount(resource: str, value: Quantity) -> int:
    """The integer in which Kueue counts a resource, limited to int64.

    Thousandths for `cpu`, whole units for the others.
    """
    exact = value.milli() if resource == "cpu" else value.units()
    return max(_SMALLEST_AMOUNT, min(exact, LARGEST_AMOUNT))


def keep_first(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> ResourceList:
    return {**(second or {}), **(first or {})}


def keep_smallest(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> ResourceList:
    return _merged(first, second, lambda mine, other: other if mine.nano > other.nano else mine)


def keep_largest(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> ResourceList:
    return _merged(first, second, lambda mine, other: other if mine.nano < other.nano else mine)


def names_above(requests: Mapping[str, Any] | None, bounds: Mapping[str, Any] | None) -> list[str]:
    """The names whose amount in `requests` is above that in `bounds`, sorted.

    A name that only one of them has is not compared.
    """
    return sorted(
        name
        for name, text in (requests or {}).items()
        if bounds and name in bounds and amount(name, quantity.parse(text)) > amount(name, quantity.parse(bounds[name]))
    )


def pod_requests(pod_spec: Mapping[str, Any]) -> Quantities:
    """The requests that Kubernetes reserves for one pod.

    Containers and sidecars run together. An ordinary init container runs beside the sidecars
    started before it, and the pod needs the largest of these stages. Pod-level requests replace
    the sum for the resources they name; overhead comes on top. An API server refuses negative
    amounts, and pod-level requests below the sum. Where none has checked the pod, as in the
    template of a custom resource, neither lowers the result.
    """
    requests = _largest(_of_containers(pod_spec, "requests"), _of_pod(pod_spec, "requests"))
    overhead = _not_negative(pod_spec.get("overhead"))
    return total((requests, overhead)) if overhead else requests


def container_requests(pod_spec: Mapping[str, Any]) -> Quantities:
    """The requests of all containers together, without pod-level requests and overhead."""
    return _of_containers(pod_spec, "requests")


def pod_limits(pod_spec: Mapping[str, Any]) -> Quantities:
    """The limits of one pod. A pod-level limit may be below the sum of the containers."""
    limits = _of_containers(pod_spec, "limits") | _of_pod(pod_spec, "limits")
    overhead = _not_negative(pod_spec.get("overhead"))
    return total((limits, {name: value for name, value in overhead.items() if name in limits}))


def _of_containers(pod_spec: Mapping[str, Any], field: str) -> Quantities:
    running = total(_amounts(container, field) for container in pod_spec.get("containers") or ())
    sidecars: Quantities = {}
    largest_stage: Quantities = {}
    for container in pod_spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            running = total((running, _amounts(container, field)))
            sidecars = total((sidecars, _amounts(container, field)))
            stage = sidecars
        else:
            stage = total((_amounts(container, field), sidecars))
        largest_stage = _largest(largest_stage, stage)
    return _largest(running, largest_stage)


def _of_pod(pod_spec: Mapping[str, Any], field: str) -> Quantities:
    return {name: value for name, value in _amounts(pod_spec, field).items() if is_pod_level(name)}


def is_pod_level(name: str) -> bool:
    """Whether a pod may have requests and limits of this resource beside its containers."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def grown(before: Quantities, after: Quantities) -> dict[str, tuple[Quantity, Quantity]]:
    """The amounts that grew, from and to."""
    nothing = quantity.from_units(0)
    return {
        name: (before.get(name, nothing), value)
        for name, value in after.items()
        if value.nano > before.get(name, nothing).nano
    }


def total(lists: Iterable[Quantities]) -> Quantities:
    summed: Quantities = {}
    for quantities in lists:
        for name, value in quantities.items():
            summed[name] = summed[name] + value if name in summed else value
    return summed


def to_text(quantities: Mapping[str, Quantity]) -> ResourceList:
    return {name: str(value) for name, value in quantities.items()}


def _amounts(holder: Mapping[str, Any], field: str) -> Quantities:
    resources = holder.get("resources")
    return _not_negative(resources.get(field)) if resources else {}


def _not_negative(resources: Mapping[str, Any] | None) -> Quantities:
    """The amounts of a resource list; 0 for a negative one."""
    if not resources:
        return {}
    quantities = parse(resources)
    for name, value in quantities.items():
        if value.nano < 0:
            quantities[name] = quantity.from_units(0)
    return quantities


def _largest(first: Quantities, second: Quantities) -> Quantities:
    largest = dict(first)
    for name, value in second.items():
        if name not in largest or largest[name].nano < value.nano:
            largest[name] = value
    return largest


def _merged(
    first: Mapping[str, Any] | None, second: Mapping[str, Any] | None, choose: Callable[[Quantity, Quantity], Quantity]
) -> ResourceList:
    mine, others = parse(first), parse(second)
    return to_text(
        {name: choose(mine.get(name, value), others.get(name, value)) for name, value in (others | mine).items()}
    )
