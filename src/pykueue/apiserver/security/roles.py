"""The default roles of a cluster.

Those of Kubernetes are cluster-admin, admin, edit, view and the roles of all users; those of
Kueue are batch-admin, batch-user, and an editor and a viewer role for each kind.

`bootstrap` creates the roles of `defaults`; `controllers.cluster_role_aggregation` calls
`aggregated`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pykueue.api import objects, selectors
from pykueue.api.scheme import Object

GROUP = "rbac.authorization.k8s.io"
_API_VERSION = f"{GROUP}/v1"
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_EDIT = ["create", "delete", "get", "list", "patch", "update", "watch"]
_BOOTSTRAP_LABEL = {"kubernetes.io/bootstrapping": "rbac-defaults"}

_EDITABLE = {
    "": [
        "configmaps",
        "endpoints",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "serviceaccounts",
        "services",
        "podtemplates",
    ],
    "apps": ["daemonsets", "deployments", "replicasets", "statefulsets"],
    "batch": ["cronjobs", "jobs"],
    "coordination.k8s.io": ["leases"],
}
"""The resources that the role `edit` may change, by API group."""

_READ_ONLY = ["bindings", "events", "limitranges", "namespaces", "pods/log", "pods/status", "resourcequotas"]

_JOB_KINDS = (
    ("batch", "jobs", "job"),
    ("jobset.x-k8s.io", "jobsets", "jobset"),
    ("kubeflow.org", "jaxjobs", "jaxjob"),
    ("kubeflow.org", "mpijobs", "mpijob"),
    ("kubeflow.org", "paddlejobs", "paddlejob"),
    ("kubeflow.org", "pytorchjobs", "pytorchjob"),
    ("kubeflow.org", "tfjobs", "tfjob"),
    ("kubeflow.org", "xgboostjobs", "xgboostjob"),
    ("leaderworkerset.x-k8s.io", "leaderworkersets", "leaderworkerset"),
    ("ray.io", "rayclusters", "raycluster"),
    ("ray.io", "rayjobs", "rayjob"),
    ("ray.io", "rayservices", "rayservice"),
    ("sparkoperator.k8s.io", "sparkapplications", "sparkapplication"),
    ("trainer.kubeflow.org", "trainjobs", "trainjob"),
    ("workload.codeflare.dev", "appwrappers", "appwrapper"),
)
"""Group, plural and role name of the kinds that batch users submit."""

_QUEUE_KINDS = (
    ("clusterqueues", "clusterqueue", False),
    ("cohorts", "cohort", False),
    ("localqueues", "localqueue", True),
    ("resourceflavors", "resourceflavor", False),
    ("topologies", "topology", False),
    ("workloads", "workload", True),
)
"""Kueue's kinds, and whether batch users may read them."""


def defaults() -> list[Object]:
    """All roles and bindings of a new cluster, with the rules of aggregated roles."""
    cluster_roles = [*_kubernetes_roles(), *_kueue_roles()]
    for role in cluster_roles:
        if "aggregationRule" in role:
            role["rules"] = aggregated(role, cluster_roles)
    return [*cluster_roles, *_bindings()]


def aggregated(role: Object, cluster_roles: Iterable[Object]) -> list[dict[str, Any]]:
    """The rules of all roles that the selectors of an aggregated role match, each once."""
    rules: list[dict[str, Any]] = []
    role_selectors = objects.nested_list(role, "aggregationRule", "clusterRoleSelectors")
    requirements = [selectors.from_object(selector) or () for selector in role_selectors]
    for other in sorted(cluster_roles, key=objects.name):
        if objects.name(other) == objects.name(role):
            continue
        if any(selectors.matches(requirement, objects.labels(other)) for requirement in requirements):
            rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules


def cluster_role(
    name: str,
    rules: Sequence[dict[str, Any]] = (),
    *,
    labels: dict[str, str] | None = None,
    aggregation_label: str = "",
) -> Object:
    role: Object = {
        "apiVersion": _API_VERSION,
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "rules": list(rules),
    }
    if aggregation_label:
        role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {aggregation_label: "true"}}]}
    return role


def rule(groups: str | Sequence[str], resources: Sequence[str], verbs: Sequence[str]) -> dict[str, Any]:
    api_groups = [groups] if isinstance(groups, str) else list(groups)
    return {"apiGroups": api_groups, "resources": list(resources), "verbs": list(verbs)}


def cluster_role_binding(name: str, role: str, groups: Sequence[str]) -> Object:
    return {
        "apiVersion": _API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": dict(_BOOTSTRAP_LABEL)},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
    }


def _kubernetes_roles() -> Iterable[Object]:
    everything = {"nonResourceURLs": ["*"], "verbs": ["*"]}
    yield cluster_role("cluster-admin", [rule("*", ["*"], ["*"]), everything], labels=_BOOTSTRAP_LABEL)
    for name in ("admin", "edit", "view"):
        yield cluster_role(name, labels=_BOOTSTRAP_LABEL, aggregation_label=f"{GROUP}/aggregate-to-{name}")
    readable = [rule(group, resources, _READ) for group, resources in _EDITABLE.items()]
    readable.append(rule("", _READ_ONLY, _READ))
    readable.append(rule("events.k8s.io", ["events"], _READ))
    readable.append(rule("metrics.k8s.io", ["pods"], ["get", "list"]))
    editable = [rule(group, resources, _WRITE) for group, resources in _EDITABLE.items()]
    editable.append(rule("", ["pods/attach", "pods/exec", "pods/portforward", "pods/eviction"], ["create"]))
    editable.append(rule("", ["serviceaccounts/token"], ["create"]))
    editable.append(rule("", ["secrets"], [*_READ, *_WRITE]))
    editable.append(rule("apps", ["deployments/scale", "replicasets/scale", "statefulsets/scale"], _EDIT))
    administered = [
        rule(GROUP, ["roles", "rolebindings"], [*_READ, *_WRITE]),
        rule("authorization.k8s.io", ["localsubjectaccessreviews"], ["create"]),
    ]
    for name, rules, aggregated_to in (
        ("view", readable, ("view", "edit", "admin")),
        ("edit", editable, ("edit", "admin")),
        ("admin", administered, ("admin",)),
    ):
        labels = {f"{GROUP}/aggregate-to-{role}": "true" for role in aggregated_to}
        yield cluster_role(f"system:aggregate-to-{name}", rules, labels=labels | _BOOTSTRAP_LABEL)
    yield from _roles_of_all_users()


def _roles_of_all_users() -> Iterable[Object]:
    reviews = rule("authorization.k8s.io", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"])
    self_review = rule("authentication.k8s.io", ["selfsubjectreviews"], ["create"])
    yield cluster_role("system:basic-user", [reviews, self_review], labels=_BOOTSTRAP_LABEL)
    documents = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz"]
    paths = {"nonResourceURLs": [*documents, "/version", "/version/"], "verbs": ["get"]}
    yield cluster_role("system:discovery", [paths], labels=_BOOTSTRAP_LABEL)
    page = {"nonResourceURLs": ["/dashboard/*"], "verbs": ["get", "create"]}
    history = {"nonResourceURLs": ["/history"], "verbs": ["get"]}
    yield cluster_role("pykueue-dashboard", [page, history], labels=_BOOTSTRAP_LABEL)
    health = {"nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"], "verbs": ["get"]}
    yield cluster_role("system:public-info-viewer", [health], labels=_BOOTSTRAP_LABEL)


def _kueue_roles() -> Iterable[Object]:
    for name in ("batch-admin", "batch-user"):
        yield cluster_role(f"kueue-{name}-role", aggregation_label=f"rbac.kueue.x-k8s.io/{name}")
    for group, plural, name in _JOB_KINDS:
        yield _editor(group, plural, name, is_for_users=True)
        yield _viewer(group, plural, name, is_for_users=True)
    for plural, name, is_for_users in _QUEUE_KINDS:
        yield _editor("kueue.x-k8s.io", plural, name, is_for_users=False)
        yield _viewer("kueue.x-k8s.io", plural, name, is_for_users=is_for_users)
    for plural, name, is_for_users in (("clusterqueues", "cq", False), ("localqueues", "lq", True)):
        pending = rule("visibility.kueue.x-k8s.io", [f"{plural}/pendingworkloads"], ["get"])
        role = f"pending-workloads-{name}-viewer"
        yield cluster_role(f"kueue-{role}-role", [pending], labels=_kueue_labels(role, is_for_users=is_for_users))
    yield cluster_role("system:monitoring", [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}])
    labels = _kueue_labels("explanations-viewer", is_for_users=True)
    labels |= {f"{GROUP}/aggregate-to-{role}": "true" for role in ("view", "edit", "admin")}
    explained = rule("visibility.kueue.x-k8s.io", ["explanations"], ["get"])
    yield cluster_role("pykueue-explanations-viewer-role", [explained], labels=labels)


def _editor(group: str, plural: str, name: str, *, is_for_users: bool) -> Object:
    rules = [rule(group, [plural], _EDIT), rule(group, [f"{plural}/status"], ["get"])]
    labels = _kueue_labels(f"{name}-editor", is_for_users=is_for_users)
    return cluster_role(f"kueue-{name}-editor-role", rules, labels=labels)


def _viewer(group: str, plural: str, name: str, *, is_for_users: bool) -> Object:
    rules = [rule(group, [plural], _READ), rule(group, [f"{plural}/status"], ["get"])]
    labels = _kueue_labels(f"{name}-viewer", is_for_users=is_for_users)
    if name in ("localqueue", "workload"):
        labels |= {f"{GROUP}/aggregate-to-{role}": "true" for role in ("view", "edit", "admin")}
    return cluster_role(f"kueue-{name}-viewer-role", rules, labels=labels)


def _kueue_labels(role: str, *, is_for_users: bool) -> dict[str, str]:
    labels = {"rbac.kueue.x-k8s.io/role": role, "rbac.kueue.x-k8s.io/batch-admin": "true"}
    return labels | ({"rbac.kueue.x-k8s.io/batch-user": "true"} if is_for_users else {})


def _bindings() -> Iterable[Object]:
    yield cluster_role_binding("cluster-admin", "cluster-admin", ["system:masters"])
    yield cluster_role_binding("system:basic-user", "system:basic-user", ["system:authenticated"])
    yield cluster_role_binding("system:discovery", "system:discovery", ["system:authenticated"])
    yield cluster_role_binding("pykueue-dashboard", "pykueue-dashboard", ["system:authenticated"])
    all_users = ["system:authenticated", "system:unauthenticated"]
    yield cluster_role_binding("system:public-info-viewer", "system:public-info-viewer", all_users)
