"""Requests to a running embedded API without a socket: parsed, authorized and answered in process."""

import json
from dataclasses import dataclass

import msgspec

from pykueue.api.errors import ApiError
from pykueue.apiserver.calls import ADMIN, UserInfo
from pykueue.apiserver.http import routes
from pykueue.apiserver.http.messages import HttpRequest

GROUP = "rbac.authorization.k8s.io"


@dataclass(frozen=True, kw_only=True)
class Answer:
    code: int
    body: object = None
    warnings: tuple[str, ...] = ()

    @property
    def message(self):
        return self.body.get("message", "") if isinstance(self.body, dict) else ""


def user(name, *groups):
    return UserInfo(name=name, uid=f"uid-{name}", groups=(*groups, "system:authenticated"))


async def send(api, method, target, body=None, *, by=ADMIN, content_type="application/json"):
    """The answer to a request of this user. A watch is only authorized."""
    path, query = routes.split_target(target)
    request = HttpRequest(
        method=method,
        route=routes.parse(method, path, query),
        user=by,
        query=query,
        content_type=content_type,
        target=target,
        data=b"" if body is None else json.dumps(body).encode(),
    )
    try:
        endpoint = api.application.authorize(request)
        if request.route.verb == "watch":
            return Answer(code=200)
        response = await api.application.respond(request, endpoint)
    except ApiError as error:
        return Answer(code=error.code, body=error.status(), warnings=error.warnings)
    content = b"".join(response.body) if isinstance(response.body, list) else response.body
    if isinstance(content, bytes) and response.content_type == "application/json":
        content = msgspec.json.decode(content)
    return Answer(code=response.status, body=content, warnings=tuple(response.warnings))


async def create(api, obj, *, by=ADMIN):
    kind = api.scheme.for_object(obj)
    path = kind.resource.path(obj["metadata"].get("namespace", ""))
    return await send(api, "POST", path, obj, by=by)


def namespace(name, **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def cluster_role(name, *rules, **fields):
    metadata = {"name": name}
    return {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": list(rules), **fields}


def binding(role, *subjects, namespace="", kind="ClusterRole", name=""):
    """A RoleBinding, or a ClusterRoleBinding without a namespace. A string is the name of a user."""
    named = [{"kind": "User", "name": it, "apiGroup": GROUP} if isinstance(it, str) else it for it in subjects]
    metadata = {"name": name or f"{role}-{len(subjects)}", **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": named,
    }


def rule(groups, resources, verbs, **names):
    return {"apiGroups": [groups], "resources": resources.split(), "verbs": verbs.split(), **names}
