"""RBAC: the rules that the controllers need, by verb, and roles for users.

Rules for job kinds follow the enabled frameworks. The roles for users are aggregated to `view`,
`edit` and `admin`.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from pykueue.api.configuration.types import Configuration
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object
from pykueue.install import webhooks

NAME = "pykueue-controller"
METRICS_READER = "pykueue-metrics-reader"
"""The role for those who read the metrics, such as Prometheus."""
_RBAC = "rbac.authorization.k8s.io"
_KUEUE = "kueue.x-k8s.io"
_READ = ("get", "list", "watch")
_READ_ONLY = (
    ("", ("limitranges", "namespaces", "nodes")),
    ("node.k8s.io", ("runtimeclasses",)),
    ("resource.k8s.io", ("deviceclasses", "resourceclaimtemplates", "resourceslices")),
    ("scheduling.k8s.io", ("priorityclasses",)),
    (
        _KUEUE,
        (
            "multikueueclusters",
            "multikueueconfigs",
            "provisioningrequestconfigs",
            "topologies",
            "workloadpriorityclasses",
        ),
    ),
)
_QUEUES = ("admissionchecks", "clusterqueues", "cohorts", "localqueues", "resourceflavors")
_WITH_STATUS = ("admissionchecks", "clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")


def objects(configuration: Configuration) -> list[Object]:
    roles = of_controller(configuration.namespace)
    for name in sorted(configuration.enabled_frameworks):
        resource = job_kinds.JOB_KINDS[name].resource
        roles += of_jobs(resource.group, resource.plural, configuration.namespace)
    if configuration.is_on("FailureRecoveryPolicy"):
        roles += of_failure_recovery(configuration.namespace)
    for custom in configuration.integrations.custom:
        roles += of_jobs(custom.group, custom.plural_name, configuration.namespace)
    for framework in configuration.multi_kueue.external_frameworks:
        resource = job_kinds.external(framework.name)
        roles += of_jobs(resource.group, resource.plural, configuration.namespace)
    return roles


def required_access(objects: Iterable[Object]) -> Iterator[Object]:
    """The permissions of the controller in these roles, as attributes of access reviews."""
    for role in objects:
        if not role["metadata"]["name"].startswith(NAME):
            continue
        place = {"namespace": role["metadata"].get("namespace", "")}
        for rule in role.get("rules", ()):
            for access in itertools.product(
                rule["apiGroups"], rule["resources"], rule["verbs"], rule.get("resourceNames", [""])
            ):
                group, resource, verb, name = access
                plural, _, subresource = resource.partition("/")
                yield {
                    "group": group,
                    "resource": plural,
                    "subresource": subresource,
                    "verb": verb,
                    "name": name,
                    **place,
                }


def of_controller(namespace: str) -> list[Object]:
    """The rules that every controller needs, and the roles by which users see and edit queues."""
    leases = _rule("coordination.k8s.io", ("leases",), ("get", "create", "update"))
    kubeconfigs = _rule("", ("secrets",), _READ)
    profiles = _rule("multicluster.x-k8s.io", ("clusterprofiles",), _READ)
    watched = _rule(_KUEUE, ("localqueues", "workloads", "localqueues/status", "workloads/status"), _READ)
    handled = _rule(_KUEUE, ("localqueues", "workloads"), ("create", "delete", "patch", "update"))
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": namespace}},
        _named("ClusterRole", NAME) | {"rules": [*_rules()]},
        _binding("ClusterRoleBinding", NAME, namespace),
        _named("Role", NAME, namespace) | {"rules": [leases, kubeconfigs, profiles]},
        _binding("RoleBinding", NAME, namespace),
        _named("ClusterRole", METRICS_READER) | {"rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]},
        _aggregated("view", "queues", [watched]),
        _aggregated("admin", "queues", [handled]),
    ]


def of_jobs(group: str, plural: str, namespace: str) -> list[Object]:
    """For one job kind: the rules of the controller, and the role by which users edit the kind."""
    name = f"{NAME}-{plural}"
    rules = [
        _rule(group, (plural,), (*_READ, "delete", "patch")),
        _rule(group, (f"{plural}/status",), ("patch",)),
        _rule(group, (f"{plural}/finalizers",), ("update",)),
    ]
    if plural == job_kinds.DEPLOYMENT.resource.plural:
        rules.append(_rule(group, ("replicasets",), _READ))
    if plural == job_kinds.LEADER_WORKER_SET.resource.plural:
        rules.append(_rule("apps", ("statefulsets",), _READ))
    if plural == job_kinds.TRAIN_JOB.resource.plural:
        rules.append(_rule(group, ("clustertrainingruntimes", "trainingruntimes"), _READ))
    if plural in (job_kinds.RAY_JOB.resource.plural, job_kinds.RAY_SERVICE.resource.plural):
        rules.append(_rule(group, (job_kinds.RAY_CLUSTER.resource.plural,), _READ))
    edited = _rule(group, (plural,), (*_READ, "create", "delete", "deletecollection", "patch", "update"))
    return [
        _named("ClusterRole", name) | {"rules": rules},
        _binding("ClusterRoleBinding", name, namespace),
        _aggregated("edit", plural, [edited]),
    ]


def of_failure_recovery(namespace: str) -> list[Object]:
    """The right to delete pods on unreachable nodes."""
    name = f"{NAME}-failure-recovery"
    return [
        _named("ClusterRole", name) | {"rules": [_rule("", ("pods",), ("delete",))]},
        _binding("ClusterRoleBinding", name, namespace),
    ]


def of_webhooks(namespace: str, secret: str) -> list[Object]:
    """The rules of a controller that serves webhooks: its Secret, and the owners of jobs."""
    name = f"{NAME}-webhooks"
    configurations = _rule(
        webhooks.MUTATING.group, (webhooks.MUTATING.plural, webhooks.VALIDATING.plural), (*_READ, "patch")
    )
    owners = [resource.resource for resource in job_kinds.JOB_KINDS.values()]
    read = [
        _rule(group, sorted(resource.plural for resource in owners if resource.group == group), ("get",))
        for group in sorted({resource.group for resource in owners})
    ]
    secrets = _rule("", ("secrets",), (*_READ, "update")) | {"resourceNames": [secret]}
    return [
        _named("ClusterRole", name)
        | {
            "rules": [
                configurations | {"resourceNames": [webhooks.QUEUED, webhooks.UNQUEUED]},
                _rule("apps", ("replicasets",), ("get",)),
                *read,
            ]
        },
        _binding("ClusterRoleBinding", name, namespace),
        _named("Role", name, namespace) | {"rules": [_rule("", ("secrets",), ("create",)), secrets]},
        _binding("RoleBinding", name, namespace),
    ]


def _rules() -> Iterable[Object]:
    for group, resources in _READ_ONLY:
        yield _rule(group, resources, _READ)
    yield _rule("authentication.k8s.io", ("tokenreviews",), ("create",))
    yield _rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",))
    yield _rule("events.k8s.io", ("events",), ("create", "patch"))
    yield _rule("", ("pods",), (*_READ, "patch"))
    yield _rule("", ("pods/status",), ("patch",))
    yield _rule("", ("podtemplates",), (*_READ, "create"))
    yield _rule("autoscaling.x-k8s.io", ("provisioningrequests",), (*_READ, "create", "delete"))
    yield _rule(_KUEUE, _QUEUES, (*_READ, "patch"))
    yield _rule(_KUEUE, ("workloads",), (*_READ, "create", "delete", "patch"))
    yield _rule(_KUEUE, [f"{plural}/status" for plural in _WITH_STATUS], ("patch",))


def _aggregated(role: str, subject: str, rules: list[Object]) -> Object:
    cluster_role = _named("ClusterRole", f"pykueue-{role}-{subject}")
    cluster_role["metadata"]["labels"] = {f"{_RBAC}/aggregate-to-{role}": "true"}
    return cluster_role | {"rules": rules}


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> Object:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _named(kind: str, name: str, namespace: str = "") -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata}


def _binding(kind: str, role: str, namespace: str) -> Object:
    """Bind the controller: a Role in its own namespace, a ClusterRole everywhere."""
    role_kind = kind.removesuffix("Binding")
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    reference = {"apiGroup": _RBAC, "kind": role_kind, "name": role}
    place = namespace if role_kind == "Role" else ""
    return _named(kind, role, place) | {"roleRef": reference, "subjects": [account]}
