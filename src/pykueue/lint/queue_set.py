"""A set of queues: everything that a rule may look at, as engine values.

The objects come from files or from a cluster. References that lead out of a set of files are not
judged: a flavor that the set does not define is taken to exist.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import structs

from pykueue.api import objects, resources
from pykueue.api.scheme import Object, Resource
from pykueue.controllers.jobs import construction
from pykueue.controllers.jobs.context import PriorityClasses
from pykueue.engine import values
from pykueue.engine.policy import Policy
from pykueue.lint.findings import LintSubject
from pykueue.translate import policy, queues, workload
from pykueue.translate.jobs import framework, registry

_NAME_LABEL = "kubernetes.io/metadata.name"
_GROWING_KINDS = ("NodePool",)


class QueuedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job or a Workload that waits for quota, and the Workload that it has."""

    subject: LintSubject
    workload: values.Workload


class QueueSet(msgspec.Struct, frozen=True, kw_only=True):
    cluster_queues: dict[values.ClusterQueueName, values.ClusterQueue] = msgspec.field(default_factory=dict)
    cohorts: dict[values.CohortName, values.Cohort] = msgspec.field(default_factory=dict)
    local_queues: dict[values.LocalQueueKey, values.LocalQueue] = msgspec.field(default_factory=dict)
    flavors: dict[values.FlavorName, values.ResourceFlavor] = msgspec.field(default_factory=dict)
    checks: dict[values.CheckName, values.AdmissionCheck] = msgspec.field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    """The labels of the namespaces that the set defines."""
    nodes: tuple[Object, ...] = ()
    nodes_may_grow: bool = False
    """An autoscaler may add nodes, so that those of today are no limit."""
    jobs: tuple[QueuedJob, ...] = ()
    priorities: frozenset[int] = frozenset()
    """The values of the priority classes."""
    policy: Policy = msgspec.field(default_factory=Policy)
    configuration: Mapping[str, Any] | None = None
    """None if the set has no Configuration: the defaults are in force."""
    is_complete: bool = False
    """The set was read from a cluster, which has no other objects."""

    @property
    def owners(self) -> "list[values.ClusterQueue | values.Cohort]":
        """Everything that has quota."""
        return [*self.cluster_queues.values(), *self.cohorts.values()]

    @property
    def knows_namespaces(self) -> bool:
        return self.is_complete or bool(self.namespaces)

    def labels_of(self, namespace: str) -> dict[str, str] | None:
        """The labels of a namespace; those that every namespace has if the set lacks it."""
        if self.knows_namespaces and namespace in self.namespaces:
            return {_NAME_LABEL: namespace} | self.namespaces[namespace]
        return None if self.knows_namespaces else {_NAME_LABEL: namespace}

    def has_users(self, name: values.ClusterQueueName) -> bool:
        """Whether a LocalQueue leads to the ClusterQueue; a set without LocalQueues has users."""
        if not self.local_queues and not self.is_complete:
            return True
        return any(queue.cluster_queue == name for queue in self.local_queues.values())

    def members(self, cohort: values.CohortName) -> list[values.ClusterQueue]:
        """The ClusterQueues in the subtree of a cohort."""
        below = {cohort}
        for _ in self.cohorts:
            below |= {child.name for child in self.cohorts.values() if child.parent in below}
        return [queue for queue in self.cluster_queues.values() if queue.cohort in below]

    def root(self, cohort: values.CohortName) -> values.CohortName:
        visited = {cohort}
        while (value := self.cohorts.get(cohort)) is not None and value.parent and value.parent not in visited:
            cohort = value.parent
            visited.add(cohort)
        return cohort

    def tree_of(self, queue: values.ClusterQueue) -> list[values.ClusterQueue]:
        """The ClusterQueues that share quota with this one, and itself."""
        return [queue] if queue.cohort is None else self.members(self.root(queue.cohort))


def from_objects(
    items: Iterable[Object], configuration: Mapping[str, Any] | None, *, is_complete: bool = False
) -> QueueSet:
    """A set from objects as an API server stores them."""
    by_kind: dict[tuple[str, str], list[Object]] = {}
    for obj in items:
        by_kind.setdefault((obj["apiVersion"].rpartition("/")[0], obj["kind"]), []).append(obj)

    def of(resource: Resource) -> list[Object]:
        return by_kind.get((resource.group, resource.kind), [])

    document = configuration or {}
    workload_classes = of(resources.WORKLOAD_PRIORITY_CLASS)
    classes = PriorityClasses(
        workload={objects.name(obj): obj for obj in workload_classes},
        pod={objects.name(obj): obj for obj in of(resources.PRIORITY_CLASS)},
    )
    return QueueSet(
        cluster_queues={queue.name: queue for queue in map(queues.cluster_queue, of(resources.CLUSTER_QUEUE))},
        cohorts={cohort.name: cohort for cohort in map(queues.cohort, of(resources.COHORT))},
        local_queues={queue.key: queue for queue in map(queues.local_queue, of(resources.LOCAL_QUEUE))},
        flavors={flavor.name: flavor for flavor in map(queues.resource_flavor, of(resources.RESOURCE_FLAVOR))},
        checks={check.name: check for check in map(queues.admission_check, of(resources.ADMISSION_CHECK))},
        namespaces={objects.name(obj): objects.labels(obj) for obj in of(resources.NAMESPACE)},
        nodes=tuple(of(resources.NODE)),
        nodes_may_grow=any(kind in _GROWING_KINDS for _, kind in by_kind),
        jobs=(
            *_workloads(of(resources.WORKLOAD), document),
            *(
                job
                for kind in registry.FRAMEWORKS.values()
                for job in _jobs(kind, of(kind.resource), classes, document)
            ),
        ),
        priorities=frozenset(int(obj.get("value", 0)) for obj in workload_classes),
        policy=structs.replace(policy.engine_policy(document), topology_aware=False),
        configuration=configuration,
        is_complete=is_complete,
    )


def _workloads(items: Iterable[Object], configuration: Mapping[str, Any]) -> Iterable[QueuedJob]:
    for obj in items:
        value = _value(obj, configuration)
        if value.may_queue:
            yield QueuedJob(subject=_subject(obj), workload=value)


def _jobs(
    kind: framework.JobFramework, items: Iterable[Object], classes: PriorityClasses, configuration: Mapping[str, Any]
) -> Iterable[QueuedJob]:
    for obj in items:
        if not framework.queue_name(obj) or kind.finished(obj) is not None:
            continue
        job = {**obj, "metadata": {"uid": objects.name(obj), **obj["metadata"]}}
        try:
            pod_sets = framework.pod_sets(kind, job, framework.JobOptions())
            priority = construction.priority_of(kind, job, pod_sets, classes)
        except (framework.MissingDependencyError, construction.MissingPriorityClassError):
            continue
        built = construction.workload_of(kind, job, pod_sets, priority=priority)
        yield QueuedJob(subject=_subject(obj), workload=_value(built, configuration))


def _value(obj: Object, configuration: Mapping[str, Any]) -> values.Workload:
    """The engine value of a Workload, without topology requests: lint does not place pods."""
    value = workload.workload(obj, policy.workload_options(configuration))
    pod_sets = tuple(structs.replace(pod_set, topology_request=None) for pod_set in value.pod_sets)
    return structs.replace(value, pod_sets=pod_sets, uid=value.uid or value.key)


def _subject(obj: Object) -> LintSubject:
    return LintSubject(kind=obj["kind"], name=objects.name(obj), namespace=objects.namespace(obj))
