"""Which priority a job's Workload gets: its WorkloadPriorityClass, else a PriorityClass, else the default one, else 0."""

from collections.abc import Iterable, Mapping

import msgspec

from pykueue.api.labels import PRIORITY_CLASS
from pykueue.api.scheme import Object
from pykueue.translate.jobs import framework
from pykueue.translate.jobs.framework import Framework


class MissingPriorityClassError(Exception):
    """The job names a class that is not there (yet)."""


class PriorityClasses(msgspec.Struct, frozen=True, kw_only=True):
    """By name."""

    workload: Mapping[str, Object] = msgspec.field(default_factory=dict)
    pod: Mapping[str, Object] = msgspec.field(default_factory=dict)


def of_job(kind: Framework, job: Object, pod_sets: Iterable[Object], classes: PriorityClasses) -> Object:
    """The fields `priorityClassRef` and `priority` of a Workload spec."""
    name = framework.label(job, PRIORITY_CLASS)
    if name:
        if name not in classes.workload:
            raise MissingPriorityClassError(f'workloadpriorityclasses.kueue.x-k8s.io "{name}" not found')
        reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": name}
        return {"priorityClassRef": reference, "priority": int(classes.workload[name].get("value", 0))}
    name = kind.priority_class(job) if kind.priority_class else first_named(pod_sets)
    if not name:
        name = _default(classes)
    if not name:
        return {"priority": 0}
    if name not in classes.pod:
        raise MissingPriorityClassError(f'priorityclasses.scheduling.k8s.io "{name}" not found')
    reference = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": name}
    return {"priorityClassRef": reference, "priority": int(classes.pod[name].get("value", 0))}


def first_named(pod_sets: Iterable[Object]) -> str:
    for pod_set in pod_sets:
        name = ((pod_set.get("template") or {}).get("spec") or {}).get("priorityClassName")
        if name:
            return str(name)
    return ""


def _default(classes: PriorityClasses) -> str:
    """The global default; the lowest if there are several."""
    defaults = [item for item in classes.pod.values() if item.get("globalDefault")]
    return min(defaults, key=lambda item: int(item["value"]))["metadata"]["name"] if defaults else ""
