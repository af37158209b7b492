"""The variable `authorizer` of admission policies: may the user of the request also do that?

`authorizer.group('apps').resource('deployments').namespace('a').check('get').allowed()` is a
chain of maps. The last call asks `DECIDE`, which whoever evaluates the expression sets.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

AccessCheck = Mapping[str, Any]
"""The user and what is checked: verb, group, resource, subresource, namespace, name, path."""

Decide = Callable[[AccessCheck], bool]

DECIDE: ContextVar[Decide | None] = ContextVar("DECIDE", default=None)


def _as_service_account(check: AccessCheck, namespace: str, name: str) -> dict[str, Any]:
    user = {
        "username": f"system:serviceaccount:{namespace}:{name}",
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"],
    }
    return {**check, "user": user}


STEPS: tuple[tuple[str, Callable[..., dict[str, Any]]], ...] = (
    ("path", lambda check, path: {**check, "path": path}),
    ("serviceAccount", _as_service_account),
    ("group", lambda check, group: {**check, "group": group}),
    ("resource", lambda check, resource: {**check, "resource": resource}),
    ("subresource", lambda check, subresource: {**check, "subresource": subresource}),
    ("namespace", lambda check, namespace: {**check, "namespace": namespace}),
    ("name", lambda check, name: {**check, "name": name}),
    ("check", lambda check, verb: {**check, "verb": verb}),
)
"""The steps of a chain, by name."""


def is_allowed(check: AccessCheck) -> bool:
    decide = DECIDE.get()
    return decide is not None and decide(check)


def reason(check: AccessCheck) -> str:
    return "RBAC: allowed by a role bound to the user" if is_allowed(check) else ""
