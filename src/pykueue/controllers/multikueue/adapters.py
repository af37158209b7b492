"""How a job is copied to a worker and its status is brought back: one table for all job kinds.

Pure functions on JSON; `decide` calls them. A kind of the Configuration's
`multiKueue.externalFrameworks` gets an adapter by `external`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from pykueue.api import conditions, objects
from pykueue.api.json_copy import copied
from pykueue.api.labels import (
    COMPONENT_WORKLOAD_INDEX,
    ELASTIC_JOB,
    JOB_OWNER_GVK,
    JOB_OWNER_NAME,
    MULTI_KUEUE_ORIGIN,
    MULTI_KUEUE_ORIGIN_UID,
    PREBUILT_WORKLOAD_NAME,
)
from pykueue.api.rules import syntax
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.rules.jobs.management import MULTI_KUEUE
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import from_ns
from pykueue.controllers.jobs import construction, matching
from pykueue.controllers.jobs.context import JobPolicy
from pykueue.controllers.leader_worker_sets import decide as leader_worker_sets
from pykueue.translate.jobs import batch_job, pods, ray, training_runtime

Path = tuple[str, ...]


class StatusChange(msgspec.Struct, frozen=True):
    """The job of the manager with the status of its copy; `is_deferred`: not yet the whole one."""

    job: Object
    is_deferred: bool = False


def _unchanged(_job: Object) -> None:
    """The copy needs no change."""


def _copy_status(local: Object, remote: Object, _now_ns: int) -> StatusChange:
    return StatusChange({**local, "status": copied(objects.status(remote))})


def _no_status(_job: Object, _now_ns: int) -> Object:
    return {}


def _unchanged_status(job: Object, _now_ns: int) -> Object:
    return objects.status(job)


def _own_status(local: Object, _remote: Object, _now_ns: int) -> StatusChange:
    """Kinds without `managedBy`: their controller on the manager would overwrite the status."""
    return StatusChange(local)


class Adapter(msgspec.Struct, frozen=True, kw_only=True):
    resource: Resource
    managed_by: Path = ()
    managed_by_words: str = ""
    """The field as Kueue's message names it."""
    names_workload: bool = True
    """Whether the copy names its prebuilt Workload."""
    has_origin_uid: bool = False
    prepare: Callable[[Object], None] = _unchanged
    """Removes from a copy what belongs to the manager."""
    status: Callable[[Object, Object, int], StatusChange] = _copy_status
    idle_status: Callable[[Object, int], Object] = _no_status
    """The status of a job that runs nowhere any more."""
    sizes: Callable[[Object], Mapping[str, int]] | None = None
    """The pod counts of an elastic job, which the manager changes while the job runs."""
    resize: Callable[[Object, Object], None] = lambda _remote, _local: None
    synced_field: Path = ()
    """A field of the spec that the manager may change while the job runs."""
    has_several_workloads: bool = False

    @property
    def group_version_kind(self) -> str:
        return go_kind(self.resource.api_version, self.resource.kind)


def go_kind(api_version: str, kind: str) -> str:
    """The group, version and kind as Go prints them."""
    return f"{api_version if '/' in api_version else '/' + api_version}, Kind={kind}"


# The status of a Job


def _job_status(local: Object, remote: Object, now_ns: int) -> StatusChange:
    """A suspended Job may not have a start time, so its status waits until the Job is resumed.

    The condition Suspended is set until then: Kubernetes refuses changes of the template without.
    """
    if (
        not objects.spec(local).get("suspend")
        or objects.spec(remote).get("suspend")
        or batch_job.FRAMEWORK.finished(remote) is not None
    ):
        return _copy_status(local, remote, now_ns)
    if conditions.is_true(local, "Suspended"):
        return StatusChange(local, is_deferred=True)
    status = _suspended(local, now_ns, reason="MultiKueueAdapter", message="Set by MultiKueue adapter")
    return StatusChange({**local, "status": status}, is_deferred=True)


def _suspended(job: Object, now_ns: int, *, reason: str, message: str) -> Object:
    """The status with a new condition Suspended."""
    now = from_ns(now_ns)
    condition = {"type": "Suspended", "status": "True", "reason": reason, "message": message}
    status: Object = copied(objects.status(job))
    others = [old for old in status.get("conditions") or () if old.get("type") != "Suspended"]
    status["conditions"] = [*others, {**condition, "lastTransitionTime": now, "lastProbeTime": now}]
    return status


def _idle_job(job: Object, now_ns: int) -> Object:
    """As the Job controller leaves a Job that it suspends; a Job that runs is suspended first.

    Counts of pods that ended stay: Kubernetes lets no such count decrease.
    """
    if not objects.spec(job).get("suspend") or not objects.status(job):
        return objects.status(job)
    status = objects.status(job)
    if not conditions.is_true(job, "Suspended"):
        status = _suspended(job, now_ns, reason="JobSuspended", message="Job suspended")
    ended = {name: value for name, value in status.items() if name not in ("active", "startTime")}
    return {**ended, "ready": 0, "terminating": 0}


def _prepare_job(job: Object) -> None:
    job["spec"].pop("selector", None)
    labels = objects.nested(job, "spec", "template", "metadata").get("labels") or {}
    for name in batch_job.FRAMEWORK.hidden_labels:
        labels.pop(name, None)


def _parallelism(job: Object) -> dict[str, int]:
    return {"main": int(objects.spec(job).get("parallelism", 1))}


def _set_parallelism(remote: Object, local: Object) -> None:
    remote["spec"]["parallelism"] = objects.spec(local).get("parallelism", 1)


# Pods


def _pod_status(local: Object, remote: Object, now_ns: int) -> StatusChange:
    """A gated pod of the manager keeps PodScheduled until the pod of the worker is scheduled, so
    that no autoscaler adds a node for it.
    """
    if objects.is_deleted(local):
        return StatusChange(local)
    change = _copy_status(local, remote, now_ns)
    scheduled = conditions.find(local, "PodScheduled")
    if scheduled is not None and pods.is_gated(local) and not conditions.is_true(remote, "PodScheduled"):
        status = change.job["status"]
        others = [old for old in status.get("conditions") or () if old.get("type") != "PodScheduled"]
        status["conditions"] = [*others, scheduled]
    return change


def _idle_pod(pod: Object, _now_ns: int) -> Object:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    return {"phase": "Pending", "conditions": [gated]} if pods.is_gated(pod) else objects.status(pod)


# Ray and TrainJob


def _worker_counts(cluster: Object) -> dict[str, int]:
    groups = objects.nested_list(cluster, "spec", "workerGroupSpecs")
    return {str(group.get("groupName", "")): ray.worker_count(group) for group in groups}


def _set_worker_counts(remote: Object, local: Object) -> None:
    by_name = {group.get("groupName"): group for group in objects.nested_list(local, "spec", "workerGroupSpecs")}
    for group in objects.nested_list(remote, "spec", "workerGroupSpecs"):
        source: Object = by_name.get(group.get("groupName")) or group
        sizes = {name: source[name] for name in ("replicas", "numOfHosts") if name in source}
        for name in ("replicas", "numOfHosts"):
            group.pop(name, None)
        group.update(sizes)


def _prepare_train_job(job: Object) -> None:
    patches = objects.nested_list(job, "spec", "runtimePatches")
    if patches:
        job["spec"]["runtimePatches"] = [patch for patch in patches if patch.get("manager") != training_runtime.MANAGER]


# The table


def _of(kind: job_kinds.JobKind, words: str = "spec.managedBy") -> Adapter:
    return Adapter(resource=kind.resource, managed_by=kind.managed_by, managed_by_words=words)


ADAPTERS: Mapping[str, Adapter] = {
    job_kinds.BATCH_JOB.name: replace(
        _of(job_kinds.BATCH_JOB),
        prepare=_prepare_job,
        status=_job_status,
        idle_status=_idle_job,
        sizes=_parallelism,
        resize=_set_parallelism,
    ),
    job_kinds.RAY_CLUSTER.name: replace(_of(job_kinds.RAY_CLUSTER), sizes=_worker_counts, resize=_set_worker_counts),
    job_kinds.RAY_SERVICE.name: replace(_of(job_kinds.RAY_SERVICE), synced_field=("spec", "serveConfigV2")),
    job_kinds.TRAIN_JOB.name: replace(_of(job_kinds.TRAIN_JOB), prepare=_prepare_train_job),
    job_kinds.MPI_JOB.name: _of(job_kinds.MPI_JOB, "spec.runPolicy.managedBy"),
    **{
        kind.name: _of(kind)
        for kind in (
            job_kinds.JOB_SET,
            job_kinds.PYTORCH_JOB,
            job_kinds.TF_JOB,
            job_kinds.XGBOOST_JOB,
            job_kinds.PADDLE_JOB,
            job_kinds.JAX_JOB,
            job_kinds.RAY_JOB,
            job_kinds.APP_WRAPPER,
        )
    },
    job_kinds.POD.name: Adapter(resource=job_kinds.POD.resource, status=_pod_status, idle_status=_idle_pod),
    job_kinds.STATEFUL_SET.name: Adapter(
        resource=job_kinds.STATEFUL_SET.resource,
        has_origin_uid=True,
        status=_own_status,
        idle_status=_unchanged_status,
    ),
    job_kinds.LEADER_WORKER_SET.name: Adapter(
        resource=job_kinds.LEADER_WORKER_SET.resource,
        names_workload=False,
        has_origin_uid=True,
        status=_own_status,
        idle_status=_unchanged_status,
        has_several_workloads=True,
    ),
}
"""By the name of the integration. Pods of Deployments are copied as pods."""


def external(kind_version_group: str) -> Adapter:
    return Adapter(
        resource=job_kinds.external(kind_version_group),
        managed_by=("spec", "managedBy"),
        managed_by_words=".spec.managedBy",
    )


# What the functions above have in common


def unmanaged_reason(adapter: Adapter, job: Object) -> str:
    """Why the job is not MultiKueue's; "" if it is."""
    if not adapter.managed_by:
        return ""
    manager = objects.nested(job, *adapter.managed_by[:-1]).get(adapter.managed_by[-1]) or ""
    if manager == MULTI_KUEUE:
        return ""
    return f'Expecting {adapter.managed_by_words} to be "{MULTI_KUEUE}" not "{manager}"'


def clone_metadata(obj: Object, origin: str) -> Object:
    """The metadata of a copy: names, labels and annotations, and whose copy it is."""
    metadata: Object = {"name": objects.name(obj), "namespace": objects.namespace(obj)}
    metadata["labels"] = {**objects.labels(obj), MULTI_KUEUE_ORIGIN: origin}
    if objects.annotations(obj):
        metadata["annotations"] = dict(objects.annotations(obj))
    return metadata


def copy_of(adapter: Adapter, job: Object, workload_name: str, *, origin: str, policy: JobPolicy) -> Object:
    """The copy of a job that is created on a worker."""
    remote: Object = {
        "apiVersion": adapter.resource.api_version,
        "kind": adapter.resource.kind,
        "metadata": clone_metadata(job, origin),
        "spec": copied(objects.spec(job)),
    }
    adapter.prepare(remote)
    if adapter.managed_by:
        objects.nested(remote, *adapter.managed_by[:-1]).pop(adapter.managed_by[-1], None)
    if adapter.names_workload:
        set_workload_name(remote, workload_name, policy)
    if adapter.has_origin_uid:
        remote["metadata"].setdefault("annotations", {})[MULTI_KUEUE_ORIGIN_UID] = objects.uid(job)
    return remote


def set_workload_name(job: Object, workload_name: str, policy: JobPolicy) -> None:
    by_annotation = policy.identifies_by_annotation or len(workload_name) > syntax.LABEL_VALUE_LENGTH
    part = "annotations" if by_annotation else "labels"
    job["metadata"].setdefault(part, {})[PREBUILT_WORKLOAD_NAME] = workload_name


def workload_names(adapter: Adapter, job: Object, policy: JobPolicy) -> list[str]:
    """The Workloads that a job of a worker belongs to: those that the job itself names.

    A Workload is never believed about the job that it belongs to: its annotations and owner
    references could name the job of somebody else.
    """
    if adapter.has_several_workloads:
        count = leader_worker_sets.replicas(job)
        return [leader_worker_sets.workload_name(job, index) for index in range(count)]
    name = matching.prebuilt_name(job, policy)
    return [name] if name else []


def changed_copy(
    adapter: Adapter, local: Object, remote: Object, *, workload_name: str, policy: JobPolicy, syncs_spec: bool
) -> Object | None:
    """The copy with what the manager changed since: the size of an elastic job, or one field."""
    new: Object = copied(remote)
    if _is_resized(adapter, local, remote, workload_name=workload_name, policy=policy):
        adapter.resize(new, local)
        set_workload_name(new, workload_name, policy)
    elif adapter.synced_field and syncs_spec:
        *parents, name = adapter.synced_field
        value = objects.nested(local, *parents).get(name)
        if value != objects.nested(remote, *parents).get(name):
            job_kinds.set_nested(new, adapter.synced_field, value=value)
    return new if new != remote else None


def _is_resized(adapter: Adapter, local: Object, remote: Object, *, workload_name: str, policy: JobPolicy) -> bool:
    """Whether the copy has another size than the job, or belongs to a former slice.

    While a job grows, its newest Workload is not admitted yet: a former one changes nothing.
    """
    is_elastic = policy.slices_workloads and objects.annotations(local).get(ELASTIC_JOB) == "true"
    if adapter.sizes is None or not is_elastic:
        return False
    old, new = adapter.sizes(remote), adapter.sizes(local)
    generation = str(local["metadata"].get("generation", ""))
    name = construction.workload_name(adapter.resource, objects.name(local), objects.uid(local), generation)
    if sum(old.values()) < sum(new.values()) and workload_name != name:
        return False
    return old != new or matching.prebuilt_name(remote, policy) != workload_name


def component_index(workload: Object) -> int:
    """The number of a Workload among those of its job; -1 if it has none."""
    text = objects.annotations(workload).get(COMPONENT_WORKLOAD_INDEX, "")
    return int(text) if text.isdecimal() else -1


class JobOwner(msgspec.Struct, frozen=True):
    """The job of a Workload, and its adapter; None if there is none for its kind."""

    adapter: Adapter | None
    kind: str
    name: str


class AdapterTable:
    """The adapters of the enabled kinds."""

    def __init__(self, adapters: Iterable[Adapter]) -> None:
        self._by_kind = {adapter.group_version_kind: adapter for adapter in adapters}

    def __iter__(self) -> Iterator[Adapter]:
        return iter(self._by_kind.values())

    def owner_of(self, workload: Object) -> JobOwner:
        """The job of a Workload, from its annotations, its controller or its first owner."""
        annotations = objects.annotations(workload)
        kind, name = annotations.get(JOB_OWNER_GVK, ""), annotations.get(JOB_OWNER_NAME, "")
        if name and kind in self._by_kind:
            return JobOwner(self._by_kind[kind], kind, name)
        references = objects.owner_references(workload)
        reference = objects.controller_of(workload) or (references[0] if references else None)
        if reference is None:
            return JobOwner(None, "", "")
        kind = go_kind(str(reference.get("apiVersion", "")), str(reference.get("kind", "")))
        return JobOwner(self._by_kind.get(kind), kind, str(reference["name"]))
