"""All admission policies of a cluster: mutations, validations and warnings.

`mutations` and `validations` hold the CEL of each kind; this module builds the policies. What
Kueue's webhooks only warn of (in Python: the warnings of `api.rules`) becomes a policy with the
action Warn. Called by `pykueue manifests` and `chart`.
"""

from pykueue.api import feature_gates, resources
from pykueue.api.labels import MANAGED, POD_SUSPENDING_PARENT, QUEUE_NAME
from pykueue.api.rules import cluster_queue as cluster_queue_rules
from pykueue.api.rules.jobs import generic, job_kinds, pod, ray, replicas
from pykueue.api.rules.jobs.job_kinds import JobKind
from pykueue.api.scheme import Object, Resource, Settings
from pykueue.install import admission_policies, managed_kinds, version_aliases
from pykueue.install.admission_policies import Parameter, Subject
from pykueue.install.mutations import queue_defaults, suspension
from pykueue.install.validations import batch_job, cluster_queue, resource_flavor, serving, spark, workload
from pykueue.install.validations import generic as generic_tables
from pykueue.install.validations import pod as pod_tables
from pykueue.install.validations import ray as ray_tables
from pykueue.install.validations.table import Table

_WRITES = ("CREATE", "UPDATE")
_RAY = {rules.job_kind.name: rules for rules in (ray.RAY_CLUSTER, ray.RAY_JOB, ray.RAY_SERVICE)}
_BY_ROLE = {rules.job_kind.name: rules for rules in replicas.BY_ROLE}
_NEVER_UNQUEUED = frozenset({job_kinds.DEPLOYMENT, job_kinds.STATEFUL_SET, job_kinds.LEADER_WORKER_SET})
"""Kinds whose queue cannot be removed in any namespace, so that they need no policy for it."""


def objects(settings: Settings) -> list[Object]:
    policies = [
        *version_aliases.policies(),
        *queue_defaults.policies(settings),
        *_validating_queues(settings),
        *_warning_of_workloads(),
        *_warning_of_gates(settings),
    ]
    for job_kind in managed_kinds.enabled(settings):
        policies += of_job_kind(job_kind, settings)
    return policies


def of_job_kind(job_kind: JobKind, settings: Settings) -> list[Object]:
    return [
        *suspension.of_job_kind(job_kind, settings),
        *_validating(job_kind, settings),
        *_warning_of_pods(job_kind, settings),
    ]


def tables(settings: Settings) -> dict[Resource, Table]:
    """The tables of all enabled kinds, by resource."""
    return of_queues(settings) | {
        job_kind.resource: of_jobs(job_kind, settings) for job_kind in managed_kinds.enabled(settings)
    }


def of_queues(settings: Settings) -> dict[Resource, Table]:
    return {
        resources.CLUSTER_QUEUE: cluster_queue.of_cluster_queues(settings),
        resources.COHORT: cluster_queue.of_cohorts(),
        resources.RESOURCE_FLAVOR: resource_flavor.of_resource_flavors(),
        resources.WORKLOAD: workload.of_workloads(settings),
    }


def of_jobs(job_kind: JobKind, settings: Settings) -> Table:
    if job_kind.name in _RAY:
        return ray_tables.of_ray(_RAY[job_kind.name], settings)
    if job_kind.name in _BY_ROLE:
        return generic_tables.of_replicas(_BY_ROLE[job_kind.name], settings)
    owned = managed_kinds.owned(settings)
    match job_kind:
        case job_kinds.BATCH_JOB:
            return batch_job.of_jobs(settings)
        case job_kinds.JOB_SET:
            return generic_tables.of_job_set(job_kind, settings)
        case job_kinds.SPARK_APPLICATION:
            return spark.of_applications(settings)
        case job_kinds.POD:
            return pod_tables.of_pods(settings)
        case job_kinds.DEPLOYMENT:
            return serving.of_deployments(settings)
        case job_kinds.STATEFUL_SET:
            return serving.of_stateful_sets(settings, owned)
        case job_kinds.LEADER_WORKER_SET:
            return serving.of_leader_worker_sets(settings, owned)
        case _:
            return generic_tables.plain(job_kind, settings)


def _validating_queues(settings: Settings) -> list[Object]:
    policies: list[Object] = []
    for resource, table in of_queues(settings).items():
        policies += of_kind(resource, table)
        if resource == resources.WORKLOAD:
            status = Subject(resource=resource, operations=("UPDATE",), subresource="status")
            policies += _policy(f"validate-{_slug(resource)}-status", status, workload.of_statuses(settings))
    return policies


def _validating(job_kind: JobKind, settings: Settings) -> list[Object]:
    policies = of_kind(job_kind.resource, of_jobs(job_kind, settings))
    return policies if job_kind in _NEVER_UNQUEUED else [*policies, *_keep_queue(job_kind)]


def of_kind(resource: Resource, table: Table) -> list[Object]:
    subject = Subject(resource=resource, operations=_WRITES, conditions=table.conditions)
    return _policy(f"validate-{_slug(resource)}", subject, table)


def _slug(resource: Resource) -> str:
    return ".".join(filter(None, (resource.plural, resource.group))).replace(".", "-")


def _policy(name: str, subject: Subject, table: Table) -> list[Object]:
    rules, variables = ([entry.schema() for entry in part] for part in (table.validations, table.variables))
    return admission_policies.validating(name, subject, rules, variables=variables)


def _keep_queue(job_kind: JobKind) -> list[Object]:
    """A policy that keeps the queue of a job in a namespace that has a LocalQueue `default`."""
    queue = f".metadata.?labels[?'{QUEUE_NAME}'].orValue('')"
    subject = Subject(
        resource=job_kind.resource,
        operations=("UPDATE",),
        conditions=(("unqueued", f"object{queue} == '' && oldObject{queue} != ''"),),
    )
    message = f"{generic.QUEUE_PATH}: {generic.QUEUE_REMOVED}"
    rule = {"expression": "false", "message": message}
    parameter = Parameter(resource=resources.LOCAL_QUEUE, name="default")
    return admission_policies.validating(f"keep-queue-{_slug(job_kind.resource)}", subject, [rule], parameter=parameter)


def _warning_of_workloads() -> list[Object]:
    rule = {
        "expression": "object.?spec.?podSets.orValue([]).all(p, p.?topologyRequest.?subGroupCount.orValue(0) >= 0)",
        "message": "spec.podSets: a negative topologyRequest.subGroupCount is deprecated and will be rejected in a future release",
    }
    subject = Subject(resource=resources.WORKLOAD, operations=_WRITES)
    return admission_policies.validating("warn-of-workloads", subject, [rule], only_warns=True)


def _warning_of_gates(settings: Settings) -> list[Object]:
    if feature_gates.is_enabled(settings.feature_gates, "ConcurrentAdmission"):
        return []
    rule = {"expression": "!has(object.spec.concurrentAdmissionPolicy)", "message": cluster_queue_rules.NOT_CONCURRENT}
    subject = Subject(resource=resources.CLUSTER_QUEUE)
    return admission_policies.validating("warn-of-clusterqueues", subject, [rule], only_warns=True)


def _warning_of_pods(job_kind: JobKind, settings: Settings) -> list[Object]:
    if job_kind != job_kinds.POD:
        return []
    is_marked = f"object.metadata.?labels[?'{MANAGED}'].orValue('') == 'true'"
    is_looked_at = f"oldObject == null || !('{POD_SUSPENDING_PARENT}' in object.metadata.?annotations.orValue({{}}))"
    conditions = (("marked", is_marked), ("lookedAt", is_looked_at))
    rule = {"expression": f"!({managed_kinds.owned(settings)})", "message": pod.OWNER_IS_MANAGED}
    subject = Subject(resource=job_kind.resource, operations=_WRITES, conditions=conditions)
    return admission_policies.validating("warn-of-pods", subject, [rule], only_warns=True)
