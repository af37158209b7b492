"""Registers the visibility API, by which the API server forwards requests to the controllers.

Two APIServices, the Service behind them, the right to know the API server, and roles for users.
"""

from pykueue.api.configuration.types import Configuration
from pykueue.api.scheme import Object
from pykueue.install import deployment, rbac

GROUP = "visibility.kueue.x-k8s.io"
SERVICE = "visibility-server"
_RBAC = "rbac.authorization.k8s.io"


def objects(configuration: Configuration) -> list[Object]:
    """Empty if the feature is disabled."""
    if not configuration.is_on("VisibilityOnDemand") or not configuration.visibility_server.bind_port:
        return []
    return of_port(configuration.visibility_server.bind_port, configuration.namespace)


def of_port(port: int, namespace: str) -> list[Object]:
    return [
        *_rights(namespace),
        _service(port, namespace),
        *(_api_service(version, namespace) for version in ("v1beta1", "v1beta2")),
    ]


def _rights(namespace: str) -> list[Object]:
    account = {"kind": "ServiceAccount", "name": rbac.NAME, "namespace": namespace}
    reader = {"apiGroup": _RBAC, "kind": "Role", "name": "extension-apiserver-authentication-reader"}
    return [
        _object("RoleBinding", {"name": "visibility-server-auth-reader", "namespace": "kube-system"})
        | {"roleRef": reader, "subjects": [account]},
        _role_of_users("edit", "localqueues"),
        _role_of_users("admin", "clusterqueues"),
        _role_of_explanations(),
    ]


def _role_of_explanations() -> Object:
    labels = {f"{_RBAC}/aggregate-to-{role}": "true" for role in ("view", "edit", "admin")}
    labels |= {f"rbac.kueue.x-k8s.io/{role}": "true" for role in ("batch-admin", "batch-user")}
    rules = [_rule(GROUP, "explanations", "get")]
    return _object("ClusterRole", {"name": "pykueue-explanations-viewer-role", "labels": labels}) | {"rules": rules}


def _role_of_users(role: str, plural: str) -> Object:
    metadata = {"name": f"pykueue-{role}-pending-{plural}", "labels": {f"{_RBAC}/aggregate-to-{role}": "true"}}
    return _object("ClusterRole", metadata) | {"rules": [_rule(GROUP, f"{plural}/pendingworkloads", "get")]}


def _object(kind: str, metadata: Object) -> Object:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata}


def _rule(group: str, resource: str, verb: str) -> Object:
    return {"apiGroups": [group], "resources": [resource], "verbs": [verb]}


def _service(port: int, namespace: str) -> Object:
    ports = [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": namespace, "labels": deployment.labels()},
        "spec": {"selector": deployment.labels(), "ports": ports},
    }


def _api_service(version: str, namespace: str) -> Object:
    """Without verification of the controllers' certificate, as in Kueue."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{GROUP}", "labels": deployment.labels()},
        "spec": {
            "group": GROUP,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": SERVICE, "namespace": namespace},
        },
    }
