"""ValidatingAdmissionPolicies: mistakes are refused by the API server itself, by the tables of validations."""

from pykueue.api import registry
from pykueue.api.kueue.kinds import GROUP, STORAGE_VERSION
from pykueue.api.rules.jobs import frameworks, generic, management, ray, replicas
from pykueue.api.rules.jobs.frameworks import Framework
from pykueue.api.scheme import Object, Resource, Settings
from pykueue.install import admission_policies, managed_kinds
from pykueue.install.admission_policies import Parameter, Subject
from pykueue.install.validations import batch_job, jobs, pods, queues, serving, spark, workloads
from pykueue.install.validations import ray as ray_tables
from pykueue.install.validations.table import Table

_WRITES = ("CREATE", "UPDATE")
_RAY = {rules.framework.name: rules for rules in (ray.RAY_CLUSTER, ray.RAY_JOB, ray.RAY_SERVICE)}
_BY_ROLE = {rules.framework.name: rules for rules in replicas.BY_ROLE}
_NEVER_UNQUEUED = frozenset({frameworks.DEPLOYMENT, frameworks.STATEFUL_SET, frameworks.LEADER_WORKER_SET})
"""Their queue cannot be taken away in any namespace."""


def tables(settings: Settings) -> dict[Resource, Table]:
    """By the kind that they are about."""
    return of_queues(settings) | {each.resource: of_jobs(each, settings) for each in managed_kinds.enabled(settings)}


def of_queues(settings: Settings) -> dict[Resource, Table]:
    resources = {
        kind.kind: kind.resource for kind in registry.scheme() if (kind.group, kind.version) == (GROUP, STORAGE_VERSION)
    }
    found = {resources[kind]: table for kind, table in queues.tables(settings).items()}
    return found | {resources["Workload"]: workloads.of_workloads(settings)}


def of_jobs(framework: Framework, settings: Settings) -> Table:
    if framework.name in _RAY:
        return ray_tables.of_ray(_RAY[framework.name], settings)
    if framework.name in _BY_ROLE:
        return jobs.of_replicas(_BY_ROLE[framework.name], settings)
    owned = managed_kinds.owned(settings)
    match framework:
        case frameworks.BATCH_JOB:
            return batch_job.of_jobs(settings)
        case frameworks.JOB_SET:
            return jobs.of_job_set(framework, settings)
        case frameworks.SPARK_APPLICATION:
            return spark.of_applications(settings)
        case frameworks.POD:
            return pods.of_pods(settings)
        case frameworks.DEPLOYMENT:
            return serving.of_deployments(settings)
        case frameworks.STATEFUL_SET:
            return serving.of_stateful_sets(settings, owned)
        case frameworks.LEADER_WORKER_SET:
            return serving.of_leader_worker_sets(settings, owned)
        case _:
            return jobs.plain(framework, settings)


def of_queues_and_workloads(settings: Settings) -> list[Object]:
    found: list[Object] = []
    for resource, table in of_queues(settings).items():
        found += of_kind(resource, table)
        if resource.kind == "Workload":
            status = Subject(resource=resource, operations=("UPDATE",), subresource="status")
            found += _policy(f"validate-{_slug(resource)}-status", status, workloads.of_statuses(settings))
    return found


def of_framework(framework: Framework, settings: Settings) -> list[Object]:
    found = of_kind(framework.resource, of_jobs(framework, settings))
    return found if framework in _NEVER_UNQUEUED else [*found, *_queue_kept(framework)]


def of_kind(resource: Resource, table: Table) -> list[Object]:
    subject = Subject(resource=resource, operations=_WRITES, conditions=table.conditions)
    return _policy(f"validate-{_slug(resource)}", subject, table)


def _slug(resource: Resource) -> str:
    return ".".join(filter(None, (resource.plural, resource.group))).replace(".", "-")


def _policy(name: str, subject: Subject, table: Table) -> list[Object]:
    rules, variables = ([each.schema() for each in part] for part in (table.validations, table.variables))
    return admission_policies.validating(name, subject, rules, variables=variables)


def _queue_kept(framework: Framework) -> list[Object]:
    """A job that has a queue keeps one, in a namespace with a queue `default`."""
    queue = f".metadata.?labels[?'{management.QUEUE_NAME}'].orValue('')"
    subject = Subject(
        resource=framework.resource,
        operations=("UPDATE",),
        conditions=(("unqueued", f"object{queue} == '' && oldObject{queue} != ''"),),
    )
    message = f"{generic.QUEUE_PATH}: queue-name must not be empty in namespace with default queue"
    rule = {"expression": "false", "message": message}
    parameter = Parameter(resource=managed_kinds.LOCAL_QUEUE, name="default")
    return admission_policies.validating(
        f"keep-queue-{_slug(framework.resource)}", subject, [rule], parameter=parameter
    )
