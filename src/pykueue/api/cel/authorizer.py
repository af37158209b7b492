"""The variable `authorizer` of admission policies: may the user of the request also do that?

`authorizer.group('apps').resource('deployments').namespace('a').check('get').allowed()` collects
what is checked; `check` asks the `decide` that the authorizer was made with.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pykueue.api.cel import cost, types
from pykueue.api.cel.errors import CelError
from pykueue.api.cel.functions import Functions
from pykueue.api.cel.types import Type
from pykueue.api.cel.values import Opaque
from pykueue.api.rules import syntax

AccessCheck = Mapping[str, Any]
"""The user and what is checked: verb, group, resource, subresource, namespace, name, path."""
Decide = Callable[[AccessCheck], bool]

_PREFIX = "kubernetes.authorization"


class _Step(Opaque):
    """A part of a chain."""

    __slots__ = ("check", "decide")

    def __init__(self, check: AccessCheck, decide: Decide | None) -> None:
        self.check = check
        self.decide = decide


class AuthorizerValue(_Step):
    __slots__ = ()
    cel_type = types.Type("struct", f"{_PREFIX}.Authorizer")


class PathCheck(_Step):
    __slots__ = ()
    cel_type = types.Type("struct", f"{_PREFIX}.PathCheck")


class GroupCheck(_Step):
    __slots__ = ()
    cel_type = types.Type("struct", f"{_PREFIX}.GroupCheck")


class ResourceCheck(_Step):
    __slots__ = ()
    cel_type = types.Type("struct", f"{_PREFIX}.ResourceCheck")


class DecisionValue(_Step):
    __slots__ = ("is_allowed",)
    cel_type = types.Type("struct", f"{_PREFIX}.Decision")

    def __init__(self, check: AccessCheck, decide: Decide | None) -> None:
        super().__init__(check, decide)
        self.is_allowed = decide is not None and decide(check)


AUTHORIZER: Type = AuthorizerValue.cel_type
RESOURCE_CHECK: Type = ResourceCheck.cel_type


def _step(kind: type[_Step], field: str, *, is_required: bool = False) -> Callable[[_Step, str], _Step]:
    def step(before: _Step, value: str) -> _Step:
        if is_required and not value.strip():
            raise CelError(f"{field} must not be empty")
        return kind({**before.check, field: value}, before.decide)

    return step


def _service_account(before: AuthorizerValue, namespace: str, name: str) -> AuthorizerValue:
    if syntax.dns_subdomain(name):
        raise CelError("Invalid service account name")
    if syntax.dns_label(namespace):
        raise CelError("Invalid service account namespace")
    user = {
        "username": f"system:serviceaccount:{namespace}:{name}",
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"],
    }
    return AuthorizerValue({**before.check, "user": user}, before.decide)


def _decision(before: _Step, verb: str) -> DecisionValue:
    return DecisionValue({**before.check, "verb": verb}, before.decide)


def _check_cost(*_: Any) -> int:
    return cost.AUTHORIZER_CHECK


def _reason(decision: DecisionValue) -> str:
    return "RBAC: allowed by a role bound to the user" if decision.is_allowed else ""


def _selector_cost(_: _Step, selector: str) -> int:
    return cost.LIST + cost.traversal(selector) + -(-len(selector) // 2) * (cost.LIST + cost.STRUCT)


def add_authorizer(functions: Functions) -> None:
    add = functions.add
    check, group, path, decision = (
        f"{_PREFIX}.{name}" for name in ("ResourceCheck", "GroupCheck", "PathCheck", "Decision")
    )
    own = f"{_PREFIX}.Authorizer"
    add("path", "authorizer_path", f"{own}.(string) -> {path}", _step(PathCheck, "path", is_required=True))
    add("group", "authorizer_group", f"{own}.(string) -> {group}", _step(GroupCheck, "group"))
    add("serviceAccount", "authorizer_serviceaccount", f"{own}.(string, string) -> {own}", _service_account)
    resource = _step(ResourceCheck, "resource", is_required=True)
    add("resource", "groupcheck_resource", f"{group}.(string) -> {check}", resource)
    for field in ("subresource", "namespace", "name"):
        add(field, f"resourcecheck_{field}", f"{check}.(string) -> {check}", _step(ResourceCheck, field))
    for field in ("fieldSelector", "labelSelector"):
        step = _step(ResourceCheck, field)
        add(field, f"authorizer_{field.lower()}", f"{check}.(string) -> {check}", step, cost=_selector_cost)
    add("check", "pathcheck_check", f"{path}.(string) -> {decision}", _decision, cost=_check_cost)
    add("check", "resourcecheck_check", f"{check}.(string) -> {decision}", _decision, cost=_check_cost)
    add("allowed", "decision_allowed", f"{decision}.() -> bool", lambda value: value.is_allowed)
    add("reason", "decision_reason", f"{decision}.() -> string", _reason)
    add("errored", "decision_errored", f"{decision}.() -> bool", lambda _: False)
    add("error", "decision_error", f"{decision}.() -> string", lambda _: "")
