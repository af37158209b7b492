"""The kinds of `kueue.x-k8s.io`: names, columns, schemas and conversion. For `api.registry`."""

import functools

import msgspec
from msgspec.structs import replace

from pykueue.api import structural
from pykueue.api.kueue import conversion, v1beta1, v1beta2
from pykueue.api.scheme import Column, Kind

GROUP = "kueue.x-k8s.io"
STORAGE_VERSION = "v1beta2"
DEPRECATION = "This version is deprecated. Use v1beta2 instead."
_NOT_DEPRECATED = {"MultiKueueConfig"}
_OLD_PATHS = {".spec.cohortName": ".spec.cohort"}
"""Columns whose field has another name in v1beta1."""

_AGE = Column(name="Age", json_path=".metadata.creationTimestamp", type="date", description="Time since creation.")


def _count(name: str, field: str, description: str, priority: int = 0) -> Column:
    return Column(name=name, json_path=f".status.{field}", type="integer", priority=priority, description=description)


def _condition(name: str, condition_type: str, description: str) -> Column:
    path = f".status.conditions[?(@.type=='{condition_type}')].status"
    return Column(name=name, json_path=path, description=description)


_PENDING = _count("Pending Workloads", "pendingWorkloads", "Workloads that wait.")


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    struct: type[structural.Part]
    plural: str
    short_names: tuple[str, ...]
    namespaced: bool = False
    has_status: bool = True
    columns: tuple[Column, ...] = ()
    selectable_fields: tuple[str, ...] = ()


_ENTRIES = (
    _Entry(
        struct=v1beta2.ClusterQueue,
        plural="clusterqueues",
        short_names=("cq",),
        columns=(
            Column(name="Cohort", json_path=".spec.cohortName", description="Cohort with which quota is shared."),
            Column(
                name="Strategy",
                json_path=".spec.queueingStrategy",
                priority=1,
                description="What happens behind a workload that does not fit.",
            ),
            _PENDING,
            _count("Admitted Workloads", "admittedWorkloads", "Workloads that are admitted and not finished.", 1),
        ),
    ),
    _Entry(struct=v1beta2.Cohort, plural="cohorts", short_names=("co",)),
    _Entry(
        struct=v1beta2.LocalQueue,
        plural="localqueues",
        short_names=("queue", "queues", "lq"),
        namespaced=True,
        columns=(
            Column(name="ClusterQueue", json_path=".spec.clusterQueue", description="ClusterQueue that serves it."),
            _PENDING,
            _count("Admitted Workloads", "admittedWorkloads", "Workloads that are admitted and not finished."),
        ),
    ),
    _Entry(
        struct=v1beta2.ResourceFlavor,
        plural="resourceflavors",
        short_names=("flavor", "flavors", "rf"),
        has_status=False,
    ),
    _Entry(struct=v1beta2.Topology, plural="topologies", short_names=("topo",), has_status=False),
    _Entry(
        struct=v1beta2.Workload,
        plural="workloads",
        short_names=("kwl", "kueueworkload", "kueueworkloads"),
        namespaced=True,
        selectable_fields=(".status.admission.clusterQueue",),
        columns=(
            Column(name="Queue", json_path=".spec.queueName", description="LocalQueue in which it waits."),
            Column(
                name="Reserved in",
                json_path=".status.admission.clusterQueue",
                description="ClusterQueue whose quota it holds.",
            ),
            _condition("Admitted", "Admitted", "Whether it may run."),
            _condition("Finished", "Finished", "Whether it has ended."),
            _AGE,
        ),
    ),
    _Entry(
        struct=v1beta2.WorkloadPriorityClass,
        plural="workloadpriorityclasses",
        short_names=("wpc",),
        has_status=False,
        columns=(Column(name="Value", json_path=".value", type="integer", description="The priority."),),
    ),
    _Entry(struct=v1beta2.AdmissionCheck, plural="admissionchecks", short_names=("ac",)),
    _Entry(
        struct=v1beta2.ProvisioningRequestConfig,
        plural="provisioningrequestconfigs",
        short_names=("prc",),
        has_status=False,
    ),
    _Entry(
        struct=v1beta2.MultiKueueCluster,
        plural="multikueueclusters",
        short_names=("mkc",),
        columns=(_condition("Connected", "Active", "Whether the cluster can be reached."), _AGE),
    ),
    _Entry(struct=v1beta2.MultiKueueConfig, plural="multikueueconfigs", short_names=("mkconf",), has_status=False),
)


@functools.cache
def kinds() -> tuple[Kind, ...]:
    return tuple(kind for entry in _ENTRIES for kind in _versions(entry))


def _versions(entry: _Entry) -> tuple[Kind, Kind]:
    name = entry.struct.__name__
    schema = structural.kind_schema(entry.struct)
    current = Kind(
        group=GROUP,
        version=STORAGE_VERSION,
        kind=name,
        plural=entry.plural,
        namespaced=entry.namespaced,
        short_names=entry.short_names,
        schema=schema,
        columns=entry.columns,
        has_status=entry.has_status,
        selectable_fields=entry.selectable_fields,
        is_builtin=False,
    )
    deprecated = replace(
        current,
        version="v1beta1",
        schema=v1beta1.schema_of(name, msgspec.json.decode(msgspec.json.encode(schema))),
        columns=tuple(_renamed(column) for column in entry.columns),
        selectable_fields=(),
        deprecation_warning="" if name in _NOT_DEPRECATED else DEPRECATION,
        storage_version=STORAGE_VERSION,
        to_storage=conversion.to_v1beta2,
        from_storage=conversion.to_v1beta1,
    )
    return current, deprecated


def _renamed(column: Column) -> Column:
    return replace(column, json_path=_OLD_PATHS.get(column.json_path, column.json_path))
