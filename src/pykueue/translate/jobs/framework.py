"""The contract of a job framework, and what follows from it: pod sets, a started job, a restored job.

A framework says where each pod set's template stands in the job (`Place`); reading pod sets, injecting what an admission
gives and restoring the templates are then the same for all. Used by `controllers.jobs` for every kind of job.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pykueue.api.json_copy import copied
from pykueue.api.labels import ELASTIC_JOB, QUEUE_NAME
from pykueue.api.scheme import Object, Resource
from pykueue.translate.jobs import topology_request
from pykueue.translate.pod_set_info import PodSetInfo, merged_template, restored_template

Path = tuple[str | int, ...]


class PodSetsCountError(Exception):
    """The job and its Workload disagree on the number of pod sets: permanent."""


class MissingDependencyError(Exception):
    """What the job refers to is not there (yet)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetTemplate:
    """One pod set of a job: where its template stands, and how many pods it makes."""

    name: str
    template_path: Path
    count: int
    min_count: int | None = None
    template: Object | None = None
    """Instead of what stands at the path: the template that counts (a default, or one with injected containers)."""
    pod_index_label: str | None = None
    sub_group_index_label: str | None = None
    sub_group_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    is_success: bool
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Switches of the Configuration that change how jobs are read."""

    topology_aware: bool = True
    count_default_submitter: bool = False
    elastic_jobs: bool = True
    scaled: Object | None = None
    """What a job's operator made of it and an autoscaler scales: where a job is elastic, its counts are the true ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectReference:
    resource: Resource
    name: str
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDependency:
    """An object that a job refers to, without which nobody knows its pods."""

    resources: tuple[Resource, ...]
    """The kinds that it may be of."""
    reference: Callable[[Object], ObjectReference | None]
    given: Callable[[Object | None], "JobFramework"]
    """The framework for jobs that refer to this object; for None, if it is not there."""


Injection = Callable[[Object, Sequence[PodSetTemplate], Sequence[PodSetInfo]], None]


def _never(_job: Object) -> bool:
    return False


def _nothing_reclaimable(_job: Object) -> list[Object]:
    return []


def _no_class(_job: Object) -> str:
    return ""


def _same(job: Object, _info: Sequence[PodSetInfo]) -> None:
    """Most kinds change nothing beside their templates."""
    del job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFramework:
    name: str
    """As `integrations.frameworks` spells it."""
    resource: Resource
    suspend_path: Path
    places: Callable[[Object, JobOptions], list[PodSetTemplate]]
    finished: Callable[[Object], JobResult | None]
    is_active: Callable[[Object], bool]
    """Has pods that still hold what was admitted."""
    pods_ready: Callable[[Object], bool]
    reclaimable: Callable[[Object], list[Object]] = _nothing_reclaimable
    priority_class: Callable[[Object], str] | None = None
    """A kind's own way to name a PriorityClass; None takes the first that a pod template names."""
    skips: Callable[[Object], bool] = _never
    """Left alone even with a queue name."""
    is_on_hold: Callable[[Object], bool] = _never
    adjust_started: Callable[[Object, Sequence[PodSetInfo]], None] = _same
    adjust_restored: Callable[[Object, Sequence[PodSetInfo]], None] = _same
    inject: Injection | None = None
    """A kind's own way to take what an admission gives, where its templates may not be changed."""
    eject: Injection | None = None
    """The reverse of `inject`."""
    kept_labels: tuple[str, ...] = ()
    """Labels of the template that belong to the kind's own controller: hidden from the Workload, kept on restore."""
    hidden_labels: tuple[str, ...] = ()
    runs_without_suspend: bool = False
    """Its suspend field is left out, not false, while it runs."""
    stops_in_steps: bool = False
    """batch Jobs refuse new templates while they have a start time; see `controllers.jobs.stopping`."""
    changes_while_suspended: bool = False
    """What an admission gives is written before the job runs, and taken away when it is suspended and idle."""
    dependency: JobDependency | None = None


def value_at(obj: Any, path: Path) -> Any:
    """What stands at the path, or None."""
    for step in path:
        if isinstance(step, int):
            obj = obj[step] if isinstance(obj, list) and step < len(obj) else None
        else:
            obj = obj.get(step) if isinstance(obj, dict) else None
        if obj is None:
            return None
    return obj


def put_at(obj: Any, path: Path, value: Any) -> None:
    for step in path[:-1]:
        obj = obj[step] if isinstance(step, int) else obj.setdefault(step, {})
    obj[path[-1]] = value


def is_suspended(framework: JobFramework, job: Object) -> bool:
    stopping = (job["metadata"].get("annotations") or {}).get("kueue.x-k8s.io/stopping") == "true"
    return bool(value_at(job, framework.suspend_path)) and not (framework.stops_in_steps and stopping)


def label(job: Object, name: str) -> str:
    return str((job["metadata"].get("labels") or {}).get(name, ""))


def is_elastic(job: Object, options: JobOptions) -> bool:
    """Its pods may become more or fewer while it runs."""
    return options.elastic_jobs and (job["metadata"].get("annotations") or {}).get(ELASTIC_JOB) == "true"


def queue_name(job: Object) -> str:
    """The label; the annotation of the same name is its deprecated form."""
    return label(job, QUEUE_NAME) or str((job["metadata"].get("annotations") or {}).get(QUEUE_NAME, ""))


def pod_sets(framework: JobFramework, job: Object, options: JobOptions) -> list[Object]:
    """As `Workload.spec.podSets`."""
    return [_pod_set(framework, job, place, options) for place in framework.places(job, options)]


def _pod_set(framework: JobFramework, job: Object, place: PodSetTemplate, options: JobOptions) -> Object:
    template = copied(place.template or value_at(job, place.template_path) or {})
    labels = (template.get("metadata") or {}).get("labels")
    if labels:
        kept = {name: value for name, value in labels.items() if name not in framework.hidden_labels}
        if kept:
            template["metadata"]["labels"] = kept
        else:
            del template["metadata"]["labels"]
    pod_set: Object = {"name": place.name, "count": place.count, "template": template}
    if place.min_count is not None:
        pod_set["minCount"] = place.min_count
    request = topology_request.from_annotations(
        (template.get("metadata") or {}).get("annotations") or {},
        pod_index_label=place.pod_index_label,
        sub_group_index_label=place.sub_group_index_label,
        sub_group_count=place.sub_group_count,
    )
    if options.topology_aware and request is not None:
        pod_set["topologyRequest"] = request
    return pod_set


def started(framework: JobFramework, job: Object, info: Sequence[PodSetInfo], options: JobOptions) -> Object:
    """The job as it runs: unsuspended, with what its admission gives merged into the templates."""
    places = framework.places(job, options)
    if len(info) != len(places):
        raise PodSetsCountError(f"invalid podset infos: expecting {len(places)} podset, got {len(info)}")
    job = copied(job)
    _resume(framework, job)
    if framework.inject is not None:
        framework.inject(job, places, info)
        return job
    framework.adjust_started(job, info)
    for place, given in zip(places, info, strict=True):
        present = value_at(job, place.template_path)
        template = present if present is not None else place.template or {}
        put_at(job, place.template_path, merged_template(template, given))
    return job


def _resume(framework: JobFramework, job: Object) -> None:
    put_at(job, framework.suspend_path, value=False)
    if framework.runs_without_suspend:
        del value_at(job, framework.suspend_path[:-1])[framework.suspend_path[-1]]


def suspended(framework: JobFramework, job: Object) -> Object:
    job = copied(job)
    put_at(job, framework.suspend_path, value=True)
    return job


def restored(framework: JobFramework, job: Object, info: Sequence[PodSetInfo], options: JobOptions) -> Object:
    """The job with the templates that its Workload kept; unchanged if their number differs."""
    places = framework.places(job, options)
    if len(info) != len(places):
        return job
    job = copied(job)
    if framework.eject is not None:
        framework.eject(job, places, info)
        return job
    framework.adjust_restored(job, info)
    for place, kept in zip(places, info, strict=True):
        template = value_at(job, place.template_path)
        if template is None:
            continue
        present = (template.get("metadata") or {}).get("labels") or {}
        own = {name: present[name] for name in framework.kept_labels if name in present}
        put_at(job, place.template_path, restored_template(template, _with_labels(kept, own)))
    return job


def _with_labels(info: PodSetInfo, labels: dict[str, str]) -> PodSetInfo:
    if not labels:
        return info
    return PodSetInfo(
        name=info.name,
        count=info.count,
        annotations=info.annotations,
        labels={**info.labels, **labels},
        node_selector=info.node_selector,
        tolerations=info.tolerations,
        scheduling_gates=info.scheduling_gates,
    )


def condition_true(job: Object, *types: str) -> Object | None:
    """The first condition of these types that is True."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") in types and condition.get("status") == "True":
            found: Object = condition
            return found
    return None


def finished_by_condition(job: Object, success: str, failure: str) -> JobResult | None:
    condition = condition_true(job, success, failure)
    if condition is None:
        return None
    return JobResult(is_success=condition["type"] == success, message=str(condition.get("message", "")))
