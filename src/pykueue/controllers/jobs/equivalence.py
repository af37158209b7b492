"""Compares a Workload with its job semantically: quantities by value, empty fields as absent."""

from collections.abc import Mapping, Sequence
from typing import Any

from pykueue.api import objects, quantity
from pykueue.api.json_copy import copied
from pykueue.api.labels import MAX_EXEC_TIME_SECONDS
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import injection
from pykueue.controllers.workloads import predicates
from pykueue.translate import pod_set_info

_COUNTED_FIELDS = ("initContainers", "containers", "resources", "runtimeClassName", "resourceClaims")
"""The fields of a template that quota depends on. Kueue compares the containers alone, so that a
template could grow by the others after its admission."""


def same_pod_sets(pod_sets: Sequence[Object], other_pod_sets: Sequence[Object], *, ignore_tolerations: bool) -> bool:
    fields = _COUNTED_FIELDS if ignore_tolerations else (*_COUNTED_FIELDS, "tolerations")
    return len(pod_sets) == len(other_pod_sets) and all(
        _same(_compared_fields(one, fields), _compared_fields(other, fields))
        for one, other in zip(pod_sets, other_pod_sets, strict=True)
    )


def _same(one: list[Any], other: list[Any]) -> bool:
    """Compares the JSON first, because it is equal in most cases and needs no parsing."""
    return one == other or _semantic(one, "") == _semantic(other, "")


def _compared_fields(pod_set: Object, fields: tuple[str, ...]) -> list[Any]:
    spec = objects.nested(pod_set, "template", "spec")
    overhead = {"requests": spec.get("overhead") or {}}
    return [int(pod_set.get("count", 1)), pod_set.get("minCount"), overhead, *map(spec.get, fields)]


def has_same_requests(one: Object, other: Object) -> bool:
    """Whether two pod specs use the same quota."""
    return bool(_requests(one) == _requests(other))


def _requests(spec: Object) -> Any:
    containers = [
        [_semantic(container.get("resources"), "") for container in spec.get(name) or ()]
        for name in ("initContainers", "containers")
    ]
    overhead = _semantic({"requests": spec.get("overhead") or {}}, "")
    return containers, _semantic(spec.get("resources"), ""), overhead, _semantic(spec.get("resourceClaims"), "")


def _semantic(value: Any, key: str) -> Any:
    """The value without empty fields and with parsed quantities, for comparisons."""
    if isinstance(value, dict):
        if key in ("requests", "limits"):
            return {name: quantity.parse(str(amount)).nano for name, amount in value.items()}
        fields = {name: _semantic(inner, name) for name, inner in value.items()}
        if key == "ports[]":
            fields.setdefault("protocol", "TCP")
        return {name: inner for name, inner in fields.items() if inner not in (None, {}, [], "")} or None
    if isinstance(value, list):
        return [_semantic(inner, f"{key}[]") for inner in value] or None
    return value


def running_pod_sets(workload: Object, flavors: Mapping[str, Object]) -> list[Object] | None:
    """The pod sets of the job while it runs with this admission; None if it cannot run."""
    if not predicates.has_quota_reservation(workload):
        return None
    try:
        infos = {info.name: info for info in injection.from_admission(workload, flavors)}
        pod_sets = copied(workload["spec"]["podSets"])
        for pod_set in pod_sets:
            info = infos[pod_set["name"]]
            pod_set["template"] = pod_set_info.merged_template(pod_set["template"], info)
            if "minCount" in pod_set:
                pod_set["count"] = info.count
    except (injection.InjectionError, pod_set_info.PodSetConflictError, KeyError):
        return None
    return pod_sets  # type: ignore[no-any-return]


def describes(
    workload: Object, job: Object, pod_sets: Sequence[Object], flavors: Mapping[str, Object], *, is_suspended: bool
) -> bool:
    owner = objects.controller_of(workload)
    metadata = job["metadata"]
    if owner is None or owner["name"] != metadata["name"] or owner["uid"] != metadata["uid"]:
        return False
    if workload["spec"].get("maximumExecutionTimeSeconds") != max_execution_seconds(job):
        return False
    ignore_tolerations = predicates.is_admitted(workload)
    spec_sets = workload["spec"]["podSets"]
    if ignore_tolerations and not any("minCount" in pod_set for pod_set in spec_sets):
        # An admission does not change containers, and the other fields that it changes are not
        # compared.
        return same_pod_sets(pod_sets, spec_sets, ignore_tolerations=True)
    running = running_pod_sets(workload, flavors)
    if running is None:
        return same_pod_sets(pod_sets, spec_sets, ignore_tolerations=ignore_tolerations)
    if same_pod_sets(pod_sets, running, ignore_tolerations=ignore_tolerations):
        return True
    return is_suspended and same_pod_sets(pod_sets, spec_sets, ignore_tolerations=ignore_tolerations)


def max_execution_seconds(job: Object) -> int | None:
    text = objects.labels(job).get(MAX_EXEC_TIME_SECONDS, "")
    return int(text) if text.isdigit() and int(text) > 0 else None
