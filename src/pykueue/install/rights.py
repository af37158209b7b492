"""RBAC: what the controllers may do, no more. What they read and write is listed here by verb; tests compare it with what they do.

Rights on job kinds follow the enabled frameworks. Users get roles of their own, which Kubernetes adds to `view`, `edit`
and `admin`.
"""

from collections.abc import Iterable, Sequence

from pykueue.api.configuration.types import Configuration
from pykueue.api.rules.jobs import frameworks
from pykueue.api.scheme import Object

NAME = "pykueue-controller"
_RBAC = "rbac.authorization.k8s.io"
_KUEUE = "kueue.x-k8s.io"
_READ = ("get", "list", "watch")
_READ_ONLY = (
    ("", ("limitranges", "namespaces")),
    ("node.k8s.io", ("runtimeclasses",)),
    ("scheduling.k8s.io", ("priorityclasses",)),
    (_KUEUE, ("provisioningrequestconfigs", "topologies", "workloadpriorityclasses")),
)
_QUEUES = ("admissionchecks", "clusterqueues", "cohorts", "localqueues", "resourceflavors")
_WITH_STATUS = ("admissionchecks", "clusterqueues", "cohorts", "localqueues", "workloads")


def objects(configuration: Configuration) -> list[Object]:
    namespace = configuration.namespace
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    everywhere = _named("ClusterRole", NAME) | {"rules": [*_rules(configuration)]}
    leases = ("coordination.k8s.io", ("leases",), ("get", "create", "update"))
    at_home = _named("Role", NAME, namespace) | {"rules": [_rule(*leases)]}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": namespace}},
        everywhere,
        _binding("ClusterRoleBinding", "ClusterRole", account),
        at_home,
        _binding("RoleBinding", "Role", account, namespace),
        *_for_users(configuration),
    ]


def _rules(configuration: Configuration) -> Iterable[Object]:
    for group, resources in _READ_ONLY:
        yield _rule(group, resources, _READ)
    yield _rule("", ("events",), ("create", "patch"))
    yield _rule("", ("podtemplates",), (*_READ, "create"))
    yield _rule("autoscaling.x-k8s.io", ("provisioningrequests",), (*_READ, "create", "delete"))
    yield _rule(_KUEUE, _QUEUES, (*_READ, "patch"))
    yield _rule(_KUEUE, ("workloads",), (*_READ, "create", "delete", "patch"))
    yield _rule(_KUEUE, [f"{plural}/status" for plural in _WITH_STATUS], ("patch",))
    for group, plurals in _job_resources(configuration).items():
        yield _rule(group, plurals, (*_READ, "delete", "patch"))
        yield _rule(group, [f"{plural}/status" for plural in plurals], ("patch",))
        yield _rule(group, [f"{plural}/finalizers" for plural in plurals], ("update",))
    if frameworks.DEPLOYMENT.name in configuration.enabled_frameworks:
        yield _rule("apps", ("replicasets",), _READ)


def _job_resources(configuration: Configuration) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in sorted(configuration.enabled_frameworks):
        resource = frameworks.FRAMEWORKS[name].resource
        found.setdefault(resource.group, []).append(resource.plural)
    for custom in configuration.integrations.custom:
        found.setdefault(custom.group, []).append(custom.plural_name)
    return found


def _for_users(configuration: Configuration) -> Iterable[Object]:
    """Everybody sees the queues of their namespace; editors handle jobs; administrators handle queues."""
    queues = [_rule(_KUEUE, ("localqueues", "workloads", "localqueues/status", "workloads/status"), _READ)]
    yield _aggregated("view", queues)
    jobs = [
        _rule(group, plurals, (*_READ, "create", "delete", "deletecollection", "patch", "update"))
        for group, plurals in _job_resources(configuration).items()
    ]
    yield _aggregated("edit", jobs)
    yield _aggregated("admin", [_rule(_KUEUE, ("localqueues", "workloads"), ("create", "delete", "patch", "update"))])


def _aggregated(role: str, rules: list[Object]) -> Object:
    made = _named("ClusterRole", f"pykueue-{role}")
    made["metadata"]["labels"] = {f"{_RBAC}/aggregate-to-{role}": "true"}
    return made | {"rules": rules}


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> Object:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _named(kind: str, name: str, namespace: str = "") -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata}


def _binding(kind: str, role: str, account: Object, namespace: str = "") -> Object:
    reference = {"apiGroup": _RBAC, "kind": role, "name": NAME}
    return _named(kind, NAME, namespace) | {"roleRef": reference, "subjects": [account]}
