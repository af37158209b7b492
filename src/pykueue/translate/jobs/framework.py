"""The interface of a job framework, and the operations on jobs of any kind.

A framework names the path of each pod set's template in the job. Reading the pod sets, starting a
job with the node selectors and tolerations of its admission, and restoring its templates are the
same for all kinds. Called by `controllers.jobs`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from pykueue.api import conditions, objects
from pykueue.api.json_copy import copied
from pykueue.api.labels import ELASTIC_JOB, QUEUE_NAME, STOPPING
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object, Resource
from pykueue.translate.jobs import topology_request
from pykueue.translate.pod_set_info import PodSetInfo, merged_template, restored_template

Path = tuple[str | int, ...]


class PodSetsCountError(Exception):
    """The job and its Workload disagree on the number of pod sets: permanent."""


class MissingDependencyError(Exception):
    """The job refers to an object that does not exist (yet)."""


class PodSetTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """One pod set of a job: the path of its pod template and the number of its pods."""

    name: str
    template_path: Path
    count: int
    min_count: int | None = None
    template: Object | None = None
    """The template for quota if it differs from the one at the path, for example by sidecars."""
    pod_index_label: str | None = None
    sub_group_index_label: str | None = None
    sub_group_count: int | None = None


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    is_success: bool
    message: str


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the Configuration that change how jobs are read."""

    topology_aware: bool = True
    count_default_submitter: bool = False
    elastic_jobs: bool = True
    scaled: Object | None = None
    """The RayCluster of an elastic RayJob or RayService, which its autoscaler scales."""


class ObjectReference(msgspec.Struct, frozen=True, kw_only=True):
    resource: Resource
    name: str
    namespace: str = ""


class JobDependency(msgspec.Struct, frozen=True, kw_only=True):
    """An object that defines the pods of jobs, such as the runtime of a TrainJob."""

    resources: tuple[Resource, ...]
    """The kinds that the object may have."""
    reference: Callable[[Object], ObjectReference | None]
    framework_for: Callable[[Object | None], "JobFramework"]
    """Returns the framework of jobs that refer to this object (None: it does not exist)."""
    is_optional: bool = False
    """Whether jobs have pod sets without the object too."""


Injection = Callable[[Object, Sequence[PodSetTemplate], Sequence[PodSetInfo]], None]


def _never(_job: Object) -> bool:
    return False


def _nothing_reclaimable(_job: Object) -> list[Object]:
    return []


def _no_adjustment(_job: Object, _infos: Sequence[PodSetInfo]) -> None:
    return


class JobFramework(msgspec.Struct, frozen=True, kw_only=True):
    description: job_kinds.JobKind
    """The name, the resource and the suspend path, which the admission rules use too."""
    pod_set_templates: Callable[[Object, JobOptions], list[PodSetTemplate]]
    finished: Callable[[Object], JobResult | None]
    is_active: Callable[[Object], bool]
    """Whether the job has pods that still use its quota."""
    pods_ready: Callable[[Object], bool]
    reclaimable: Callable[[Object], list[Object]] = _nothing_reclaimable
    priority_class: Callable[[Object], str] | None = None
    """Reads the name of the PriorityClass; None means the first one that a pod template names."""
    skips: Callable[[Object], bool] = _never
    finalizes_late: Callable[[Object], bool] = _never
    """Whether a job still needs its Workload while it is being deleted."""
    """Whether Kueue ignores the job even if it has a queue name."""
    is_on_hold: Callable[[Object], bool] = _never
    adjust_started: Callable[[Object, Sequence[PodSetInfo]], None] = _no_adjustment
    adjust_restored: Callable[[Object, Sequence[PodSetInfo]], None] = _no_adjustment
    inject: Injection | None = None
    """Writes the pod set infos into the job, for kinds whose templates must not be changed."""
    eject: Injection | None = None
    """The reverse of `inject`."""
    preserved_labels: tuple[str, ...] = ()
    """Template labels that the kind's own controller sets; restoring a template preserves them."""
    hidden_labels: tuple[str, ...] = ()
    """Template labels that the Workload does not show."""
    runs_without_suspend: bool = False
    """Whether the suspend field is absent, rather than false, while the job runs."""
    stops_in_steps: bool = False
    """Whether the job refuses new templates while it has a start time."""
    changes_while_suspended: bool = False
    """Whether `inject` and `eject` may write only while the job is suspended."""
    dependency: JobDependency | None = None
    slice_name_suffix: str = ""
    """Added to the job's generation in the names of slices, if another object scales the job."""

    @property
    def name(self) -> str:
        """The name in `integrations.frameworks`."""
        return self.description.name

    @property
    def resource(self) -> Resource:
        return self.description.resource

    @property
    def suspend_path(self) -> Path:
        return self.description.suspend


def value_at(obj: Any, path: Path) -> Any:
    """The value at the path, or None."""
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
    stopping = objects.annotations(job).get(STOPPING) == "true"
    return bool(value_at(job, framework.suspend_path)) and not (framework.stops_in_steps and stopping)


def is_elastic(job: Object, options: JobOptions) -> bool:
    """Whether the number of the job's pods may change while it runs."""
    return options.elastic_jobs and objects.annotations(job).get(ELASTIC_JOB) == "true"


def queue_name(job: Object) -> str:
    """The label `queue-name`, or else the deprecated annotation of the same name."""
    return objects.labels(job).get(QUEUE_NAME, "") or objects.annotations(job).get(QUEUE_NAME, "")


def pod_sets(framework: JobFramework, job: Object, options: JobOptions) -> list[Object]:
    """The value of `Workload.spec.podSets`."""
    return copied(shared_pod_sets(framework, job, options))  # type: ignore[no-any-return]


def shared_pod_sets(framework: JobFramework, job: Object, options: JobOptions) -> list[Object]:
    """The same value, to be compared but not changed: the job shares its templates."""
    return [_pod_set(framework, job, template, options) for template in framework.pod_set_templates(job, options)]


def _pod_set(framework: JobFramework, job: Object, description: PodSetTemplate, options: JobOptions) -> Object:
    template = description.template or value_at(job, description.template_path) or {}
    labels = objects.nested(template, "metadata", "labels")
    if not labels.keys().isdisjoint(framework.hidden_labels):
        visible = {name: value for name, value in labels.items() if name not in framework.hidden_labels}
        metadata = {**template["metadata"], "labels": visible}
        if not visible:
            del metadata["labels"]
        template = {**template, "metadata": metadata}
    pod_set: Object = {"name": description.name, "count": description.count, "template": template}
    if description.min_count is not None:
        pod_set["minCount"] = description.min_count
    request = topology_request.from_annotations(
        objects.nested(template, "metadata", "annotations"),
        pod_index_label=description.pod_index_label,
        sub_group_index_label=description.sub_group_index_label,
        sub_group_count=description.sub_group_count,
    )
    if options.topology_aware and request is not None:
        pod_set["topologyRequest"] = request
    return pod_set


def started(framework: JobFramework, job: Object, infos: Sequence[PodSetInfo], options: JobOptions) -> Object:
    """The unsuspended job, with the pod set infos of its admission merged into the templates."""
    templates = framework.pod_set_templates(job, options)
    if len(infos) != len(templates):
        raise PodSetsCountError(f"invalid podset infos: expecting {len(templates)} podset, got {len(infos)}")
    job = copied(job)
    _resume(framework, job)
    if framework.inject is not None:
        framework.inject(job, templates, infos)
        return job
    framework.adjust_started(job, infos)
    for pod_set, info in zip(templates, infos, strict=True):
        template = value_at(job, pod_set.template_path)
        if template is None:
            template = pod_set.template or {}
        put_at(job, pod_set.template_path, merged_template(template, info))
    return job


def _resume(framework: JobFramework, job: Object) -> None:
    put_at(job, framework.suspend_path, value=False)
    if framework.runs_without_suspend:
        del value_at(job, framework.suspend_path[:-1])[framework.suspend_path[-1]]


def suspended(framework: JobFramework, job: Object) -> Object:
    job = copied(job)
    put_at(job, framework.suspend_path, value=True)
    return job


def restored(framework: JobFramework, job: Object, infos: Sequence[PodSetInfo], options: JobOptions) -> Object:
    """The job with the original templates from its Workload; unchanged if their number differs."""
    templates = framework.pod_set_templates(job, options)
    if len(infos) != len(templates):
        return job
    job = copied(job)
    if framework.eject is not None:
        framework.eject(job, templates, infos)
        return job
    framework.adjust_restored(job, infos)
    for pod_set, info in zip(templates, infos, strict=True):
        template = value_at(job, pod_set.template_path)
        if template is None:
            continue
        labels = objects.nested(template, "metadata", "labels")
        preserved = {name: labels[name] for name in framework.preserved_labels if name in labels}
        put_at(job, pod_set.template_path, restored_template(template, _with_labels(info, preserved)))
    return job


def _with_labels(info: PodSetInfo, labels: dict[str, str]) -> PodSetInfo:
    return replace(info, labels={**info.labels, **labels}) if labels else info


def finished_by_condition(job: Object, success: str, failure: str) -> JobResult | None:
    for condition in objects.nested_list(job, "status", "conditions"):
        if condition.get("type") in (success, failure) and conditions.has_status_true(condition):
            return JobResult(is_success=condition["type"] == success, message=str(condition.get("message", "")))
    return None
