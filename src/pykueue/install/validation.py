"""ValidatingAdmissionPolicies: mistakes are refused by the API server itself, by the tables of validations."""

from pykueue.api import registry
from pykueue.api.kueue.kinds import GROUP, STORAGE_VERSION
from pykueue.api.scheme import Object, Resource, Settings
from pykueue.install import admission_policies, job_validations, queue_validations, suspension
from pykueue.install.admission_policies import Subject
from pykueue.install.queue_validations import Validation

_WRITES = ("CREATE", "UPDATE")


def validations(settings: Settings) -> dict[Resource, list[Validation]]:
    """By the kind that they are about."""
    resources = {
        kind.kind: kind.resource for kind in registry.scheme() if (kind.group, kind.version) == (GROUP, STORAGE_VERSION)
    }
    found = {resources[kind]: table for kind, table in queue_validations.VALIDATIONS.items()}
    found[resources["Workload"]] = job_validations.of_workloads()
    for framework in suspension.suspendable(settings):
        found[framework.resource] = job_validations.of_jobs(framework)
    return found


def policies(settings: Settings) -> list[Object]:
    return [policy for resource, table in validations(settings).items() for policy in of_kind(resource, table)]


def of_kind(resource: Resource, table: list[Validation]) -> list[Object]:
    name = ".".join(filter(None, (resource.plural, resource.group))).replace(".", "-")
    schemas = [each.schema() for each in table]
    found = admission_policies.validating(f"validate-{name}", Subject(resource=resource, operations=_WRITES), schemas)
    if resource.kind == "Workload":
        status = Subject(resource=resource, operations=("UPDATE",), subresource="status")
        found += admission_policies.validating(f"validate-{name}-status", status, schemas)
    return found
