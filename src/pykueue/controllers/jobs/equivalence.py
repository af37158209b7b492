"""Does a Workload still describe its job? Compared as Kubernetes compares: quantities by value, empty as absent."""

from collections.abc import Mapping, Sequence
from typing import Any

from pykueue.api import quantity
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import injection
from pykueue.controllers.workloads import predicates
from pykueue.translate import pod_set_info


def same_pod_sets(ours: Sequence[Object], theirs: Sequence[Object], *, ignore_tolerations: bool) -> bool:
    compared = ("initContainers", "containers") + (() if ignore_tolerations else ("tolerations",))
    return len(ours) == len(theirs) and all(
        _same(_shape(one, compared), _shape(other, compared)) for one, other in zip(ours, theirs, strict=True)
    )


def _same(one: list[Any], other: list[Any]) -> bool:
    """Mostly they are spelled alike, and nothing needs to be read."""
    return one == other or _semantic(one, "") == _semantic(other, "")


def _shape(pod_set: Object, compared: tuple[str, ...]) -> list[Any]:
    spec = (pod_set.get("template") or {}).get("spec") or {}
    return [int(pod_set.get("count", 1)), pod_set.get("minCount"), *map(spec.get, compared)]


def asks_the_same(one: Object, other: Object) -> bool:
    """Two pod specs that cost the same quota, whatever role their pods claim."""
    return bool(_asked(one) == _asked(other))


def _asked(spec: Object) -> Any:
    containers = [
        [_semantic(container.get("resources"), "") for container in spec.get(name) or ()]
        for name in ("initContainers", "containers")
    ]
    return containers, _semantic(spec.get("resources"), ""), _semantic({"requests": spec.get("overhead") or {}}, "")


def _semantic(value: Any, key: str) -> Any:
    """Drops what is empty and reads quantities, so that two spellings of one thing are equal."""
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
    """How the job's pod sets look while it runs with this admission; None without one, or if it cannot run."""
    if not predicates.has_quota_reservation(workload):
        return None
    try:
        given = {info.name: info for info in injection.from_admission(workload, flavors)}
        pod_sets = copied(workload["spec"]["podSets"])
        for pod_set in pod_sets:
            info = given[pod_set["name"]]
            pod_set["template"] = pod_set_info.merged_template(pod_set["template"], info)
            if "minCount" in pod_set:
                pod_set["count"] = info.count
    except (injection.InjectionError, pod_set_info.PodSetConflictError, KeyError):
        return None
    found: list[Object] = pod_sets
    return found


def describes(
    workload: Object, job: Object, pod_sets: Sequence[Object], flavors: Mapping[str, Object], *, is_suspended: bool
) -> bool:
    owner = predicates.controller_of(workload)
    metadata = job["metadata"]
    if owner is None or owner["name"] != metadata["name"] or owner["uid"] != metadata["uid"]:
        return False
    if workload["spec"].get("maximumExecutionTimeSeconds") != max_execution_seconds(job):
        return False
    ignore = predicates.is_admitted(workload)
    spec_sets = workload["spec"]["podSets"]
    if ignore and not any("minCount" in pod_set for pod_set in spec_sets):
        # An admission gives pods a place and no containers: nothing of what it adds is compared.
        return same_pod_sets(pod_sets, spec_sets, ignore_tolerations=True)
    running = running_pod_sets(workload, flavors)
    if running is None:
        return same_pod_sets(pod_sets, spec_sets, ignore_tolerations=ignore)
    if same_pod_sets(pod_sets, running, ignore_tolerations=ignore):
        return True
    return is_suspended and same_pod_sets(pod_sets, spec_sets, ignore_tolerations=ignore)


def max_execution_seconds(job: Object) -> int | None:
    text = (job["metadata"].get("labels") or {}).get("kueue.x-k8s.io/max-exec-time-seconds", "")
    return int(text) if text.isdigit() and int(text) > 0 else None
