"""The roles that are there from the start: those of Kubernetes (cluster-admin, admin, edit, view and what every user
needs) and those of Kueue (batch-admin, batch-user, an editor and a viewer for each kind).

`defaults` is called by the bootstrap; `aggregated` also by the part that keeps aggregated roles up to date.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pykueue.api import selectors
from pykueue.api.scheme import Object

GROUP = "rbac.authorization.k8s.io"
_API_VERSION = f"{GROUP}/v1"
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_EDIT = ["create", "delete", "get", "list", "patch", "update", "watch"]
_BOOTSTRAP_LABEL = {"kubernetes.io/bootstrapping": "rbac-defaults"}

_NAMESPACED = {
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
"""What an editor of a namespace works with, by API group."""

_ONLY_SEEN = ["bindings", "events", "limitranges", "namespaces", "pods/log", "pods/status", "resourcequotas"]

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
)
"""Group, plural and role name of kinds that batch users submit."""

_QUEUE_KINDS = (
    ("clusterqueues", "clusterqueue", False),
    ("cohorts", "cohort", False),
    ("localqueues", "localqueue", True),
    ("resourceflavors", "resourceflavor", False),
    ("topologies", "topology", False),
    ("workloads", "workload", True),
)
"""Kueue's own kinds, and whether a batch user may look at them."""


def defaults() -> list[Object]:
    """Every role and binding of a new cluster, aggregated roles filled in."""
    found = [*_kubernetes_roles(), *_kueue_roles()]
    for role in found:
        if "aggregationRule" in role:
            role["rules"] = aggregated(role, found)
    return [*found, *_bindings()]


def aggregated(role: Object, cluster_roles: Iterable[Object]) -> list[dict[str, Any]]:
    """The rules that an aggregated role has: those of every role that its selectors choose, each once."""
    rules: list[dict[str, Any]] = []
    chosen = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    requirements = [selectors.from_object(selector) or () for selector in chosen]
    for other in sorted(cluster_roles, key=lambda each: str(each["metadata"]["name"])):
        labels = other["metadata"].get("labels")
        if other["metadata"]["name"] == role["metadata"]["name"]:
            continue
        if any(selectors.matches(each, labels) for each in requirements):
            rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules


def cluster_role(
    name: str, rules: Sequence[dict[str, Any]] = (), *, labels: dict[str, str] | None = None, gathers: str = ""
) -> Object:
    role: Object = {
        "apiVersion": _API_VERSION,
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "rules": list(rules),
    }
    if gathers:
        role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {gathers: "true"}}]}
    return role


def rule(groups: str | Sequence[str], resources: Sequence[str], verbs: Sequence[str]) -> dict[str, Any]:
    listed = [groups] if isinstance(groups, str) else list(groups)
    return {"apiGroups": listed, "resources": list(resources), "verbs": list(verbs)}


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
        yield cluster_role(name, labels=_BOOTSTRAP_LABEL, gathers=f"{GROUP}/aggregate-to-{name}")
    seen = [rule(group, resources, _READ) for group, resources in _NAMESPACED.items()]
    seen.append(rule("", _ONLY_SEEN, _READ))
    seen.append(rule("events.k8s.io", ["events"], _READ))
    seen.append(rule("metrics.k8s.io", ["pods"], ["get", "list"]))
    changed = [rule(group, resources, _WRITE) for group, resources in _NAMESPACED.items()]
    changed.append(rule("", ["pods/attach", "pods/exec", "pods/portforward", "pods/eviction"], ["create"]))
    changed.append(rule("", ["serviceaccounts/token"], ["create"]))
    changed.append(rule("", ["secrets"], [*_READ, *_WRITE]))
    changed.append(rule("apps", ["deployments/scale", "replicasets/scale", "statefulsets/scale"], _EDIT))
    managed = [
        rule(GROUP, ["roles", "rolebindings"], [*_READ, *_WRITE]),
        rule("authorization.k8s.io", ["localsubjectaccessreviews"], ["create"]),
    ]
    for name, rules, gathered_by in (
        ("view", seen, ("view", "edit", "admin")),
        ("edit", changed, ("edit", "admin")),
        ("admin", managed, ("admin",)),
    ):
        labels = {f"{GROUP}/aggregate-to-{gatherer}": "true" for gatherer in gathered_by}
        yield cluster_role(f"system:aggregate-to-{name}", rules, labels=labels | _BOOTSTRAP_LABEL)
    yield from _roles_of_everybody()


def _roles_of_everybody() -> Iterable[Object]:
    reviews = rule("authorization.k8s.io", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"])
    oneself = rule("authentication.k8s.io", ["selfsubjectreviews"], ["create"])
    yield cluster_role("system:basic-user", [reviews, oneself], labels=_BOOTSTRAP_LABEL)
    documents = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz"]
    paths = {"nonResourceURLs": [*documents, "/version", "/version/"], "verbs": ["get"]}
    yield cluster_role("system:discovery", [paths], labels=_BOOTSTRAP_LABEL)
    health = {"nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"], "verbs": ["get"]}
    yield cluster_role("system:public-info-viewer", [health], labels=_BOOTSTRAP_LABEL)


def _kueue_roles() -> Iterable[Object]:
    for name in ("batch-admin", "batch-user"):
        yield cluster_role(f"kueue-{name}-role", gathers=f"rbac.kueue.x-k8s.io/{name}")
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


def _editor(group: str, plural: str, name: str, *, is_for_users: bool) -> Object:
    rules = [rule(group, [plural], _EDIT), rule(group, [f"{plural}/status"], ["get"])]
    labels = _kueue_labels(f"{name}-editor", is_for_users=is_for_users)
    return cluster_role(f"kueue-{name}-editor-role", rules, labels=labels)


def _viewer(group: str, plural: str, name: str, *, is_for_users: bool) -> Object:
    rules = [rule(group, [plural], _READ), rule(group, [f"{plural}/status"], ["get"])]
    labels = _kueue_labels(f"{name}-viewer", is_for_users=is_for_users)
    if name in ("localqueue", "workload"):
        labels |= {f"{GROUP}/aggregate-to-{gatherer}": "true" for gatherer in ("view", "edit", "admin")}
    return cluster_role(f"kueue-{name}-viewer-role", rules, labels=labels)


def _kueue_labels(role: str, *, is_for_users: bool) -> dict[str, str]:
    labels = {"rbac.kueue.x-k8s.io/role": role, "rbac.kueue.x-k8s.io/batch-admin": "true"}
    return labels | ({"rbac.kueue.x-k8s.io/batch-user": "true"} if is_for_users else {})


def _bindings() -> Iterable[Object]:
    yield cluster_role_binding("cluster-admin", "cluster-admin", ["system:masters"])
    yield cluster_role_binding("system:basic-user", "system:basic-user", ["system:authenticated"])
    yield cluster_role_binding("system:discovery", "system:discovery", ["system:authenticated"])
    everybody = ["system:authenticated", "system:unauthenticated"]
    yield cluster_role_binding("system:public-info-viewer", "system:public-info-viewer", everybody)
