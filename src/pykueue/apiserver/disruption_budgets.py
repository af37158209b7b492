"""How many pods of a PodDisruptionBudget may be evicted now.

Kubernetes' disruption controller writes the numbers into the status; evictions here count again,
so that two evictions at once never use the same allowance.
"""

from collections.abc import Iterable, Sequence

from pykueue.api import conditions, objects, resources, selectors
from pykueue.api.scheme import Lookup, Object

_FINISHED = ("Succeeded", "Failed")
_SCALED = {
    ("apps/v1", "ReplicaSet"): resources.REPLICA_SET,
    ("apps/v1", "StatefulSet"): resources.STATEFUL_SET,
    ("v1", "ReplicationController"): resources.REPLICATION_CONTROLLER,
}


def budgets_of(pod: Object, budgets: Iterable[Object]) -> list[Object]:
    return [budget for budget in budgets if selects(budget, pod)]


def selects(budget: Object, pod: Object) -> bool:
    """An absent selector selects no pods, an empty one all pods of the namespace."""
    selector = objects.spec(budget).get("selector")
    return selector is not None and selectors.selects(selector, objects.labels(pod))


def is_healthy(pod: Object) -> bool:
    return conditions.is_true(pod, "Ready") and not objects.is_deleted(pod)


def may_be_deleted_anyway(pod: Object) -> bool:
    """Pods that do not run count for no budget."""
    return objects.is_deleted(pod) or objects.status(pod).get("phase") in ("Pending", *_FINISHED)


def counted_part(pod: Object) -> Object:
    """What `counts` reads of a pod."""
    metadata, status = pod["metadata"], objects.status(pod)
    names = ("name", "namespace", "labels", "ownerReferences", "deletionTimestamp")
    ready = [condition for condition in objects.nested_list(status, "conditions") if condition.get("type") == "Ready"]
    return {
        "metadata": {name: metadata[name] for name in names if name in metadata},
        "status": {"phase": status.get("phase"), "conditions": ready},
    }


def counts_for(budget: Object, pod: Object) -> bool:
    return selects(budget, pod) and objects.status(pod).get("phase") not in _FINISHED


def counts(budget: Object, pods: Iterable[Object], lookup: Lookup) -> dict[str, int]:
    """The numbers of the status, by their names."""
    return counts_of([pod for pod in pods if counts_for(budget, pod)], budget, lookup)


def counts_of(active: Sequence[Object], budget: Object, lookup: Lookup) -> dict[str, int]:
    """The same, of the pods that count for the budget."""
    healthy = sum(map(is_healthy, active))
    expected, desired = _expected_and_desired(objects.spec(budget), active, lookup)
    allowed = max(0, healthy - desired) if expected else 0
    return {
        "expectedPods": expected,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
    }


def _expected_and_desired(spec: Object, active: Sequence[Object], lookup: Lookup) -> tuple[int, int]:
    most, least = spec.get("maxUnavailable"), spec.get("minAvailable", 1)
    if most is None and isinstance(least, int):
        return len(active), least
    expected = _replicas(active, lookup)
    if most is not None:
        return expected, max(0, expected - _scaled(most, expected))
    return expected, _scaled(least, expected)


def _scaled(value: int | str, total: int) -> int:
    """A count, or a percentage of the total, rounded up."""
    return value if isinstance(value, int) else -(-total * int(value.removesuffix("%")) // 100)


def _replicas(active: Sequence[Object], lookup: Lookup) -> int:
    """The pods that their controllers want. Other pods do not count, as in Kubernetes."""
    replicas: dict[str, int] = {}
    for pod in active:
        owner = objects.controller_of(pod) or {}
        if owner.get("uid") in replicas:
            continue
        resource = _SCALED.get((owner.get("apiVersion", ""), owner.get("kind", "")))
        controller = lookup.get(resource, objects.namespace(pod), owner["name"]) if resource else None
        if controller is not None and objects.uid(controller) == owner.get("uid"):
            replicas[owner["uid"]] = int(objects.spec(controller).get("replicas", 1))
    return sum(replicas.values())
