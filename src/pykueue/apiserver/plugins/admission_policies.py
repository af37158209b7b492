"""What validating and mutating admission policies share: selection, bindings, parameters.

`PolicySource` compiles the policies of one kind when they have changed, and returns for a request
the invocations that it causes: one for each policy, binding and parameter object.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pykueue.api import objects, resources, selectors
from pykueue.api.cel.errors import EvaluationError
from pykueue.api.policy_expressions import Evaluation, MatchConditions, PolicyExpression, Scope, compile_variables
from pykueue.api.scheme import Kind, Lookup, Object, Scheme
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.plugins import admission_rules
from pykueue.apiserver.plugins.admission_attributes import Attributes, user_info
from pykueue.apiserver.plugins.admission_rules import Matcher
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.apiserver.store.rows import StoreChange
from pykueue.apiserver.store.store import Store
from pykueue.kube.delegation import AccessRequest

if TYPE_CHECKING:
    from pykueue.api.cel.authorizer import AccessCheck, Decide

_DEFINITIONS = "apiextensions.k8s.io"
_MOST_SELECTIONS = 4096


class ConfigurationError(Exception):
    """A policy or binding cannot be used for this request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyBinding:
    name: str
    spec: Object
    matcher: Matcher | None


CompileBody = Callable[[Object, Scope], Any]
"""Compiles what the spec of a policy does; the scope has its variables."""


class PolicyProgram:
    """The expressions of a policy, compiled when a request matches it for the first time.

    `body` is what the policy does: validations or mutations. `fault` says why the policy cannot be
    evaluated.
    """

    def __init__(self, spec: Object, compile_body: CompileBody) -> None:
        has_params = spec.get("paramKind") is not None
        self.conditions = MatchConditions(expressions=())
        self.variables: Mapping[str, PolicyExpression] = {}
        self.body: Any = None
        self.fault = ""
        try:
            self.conditions = MatchConditions.of(spec.get("matchConditions") or (), has_params=has_params)
            self.variables = compile_variables(spec.get("variables") or (), has_params=has_params)
            types = tuple((name, variable.type) for name, variable in self.variables.items())
            self.body = compile_body(spec, Scope(has_params=has_params, variables=types))
        except EvaluationError as error:
            self.fault = str(error)
        except (KeyError, TypeError) as error:  # an older version stored policies unchecked
            self.fault = f"the policy is not valid: {error!r}"


@dataclass(frozen=True, kw_only=True)
class AdmissionPolicy:
    """A policy with its bindings."""

    name: str
    spec: Object
    matcher: Matcher
    bindings: Sequence[PolicyBinding]
    programs: "PolicyPrograms"
    revision: int

    @property
    def program(self) -> PolicyProgram:
        return self.programs.of(self)

    @property
    def fails_open(self) -> bool:
        return self.spec.get("failurePolicy") == "Ignore"


class PolicyPrograms:
    """Compiled policies by name. A policy is compiled again when it has changed."""

    def __init__(self, compile_body: CompileBody) -> None:
        self._compile_body = compile_body
        self._by_name: dict[str, tuple[int, PolicyProgram]] = {}

    def of(self, policy: AdmissionPolicy) -> PolicyProgram:
        revision, program = self._by_name.get(policy.name, (0, None))
        if program is None or revision != policy.revision:
            program = PolicyProgram(policy.spec, self._compile_body)
            self._by_name[policy.name] = (policy.revision, program)
        return program

    def retain(self, names: Collection[str]) -> None:
        """Drop the programs of other policies."""
        for name in self._by_name.keys() - set(names):
            del self._by_name[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A policy, binding and parameter object that a request matches, in the version of a rule."""

    policy: AdmissionPolicy
    binding: PolicyBinding
    kind: Kind
    param: Object | None

    def evaluation(self, attributes: Attributes, lookup: Lookup, authorizer: Authorizer | None) -> Evaluation:
        obj, old = attributes.in_version(self.kind)
        values: dict[str, Any] = {
            "object": obj,
            "oldObject": old,
            "request": attributes.request(self.kind),
            "namespaceObject": _namespace_object(attributes, lookup),
            "params": self.param,
            **authorizer_values(attributes, authorizer),
        }
        return Evaluation(values=values, variables=self.policy.program.variables)


def _access_decision(authorizer: Authorizer | None) -> "Decide | None":
    """Answers the checks of the variable `authorizer`."""
    if authorizer is None:
        return None

    def decide(check: "AccessCheck") -> bool:
        user = check.get("user") or {}
        fields = ("verb", "group", "resource", "subresource", "namespace", "name", "path")
        access = AccessRequest(**{name: str(check.get(name) or "") for name in fields})
        subject = UserInfo(name=str(user.get("username", "")), groups=tuple(user.get("groups") or ()))
        return authorizer.allows(subject, access)

    return decide


def authorizer_values(attributes: Attributes, authorizer: Authorizer | None) -> dict[str, Any]:
    """The variables `authorizer` and `authorizer.requestResource`."""
    from pykueue.api.cel import authorizer as cel_authorizer

    decide, user = _access_decision(authorizer), user_info(attributes.user)
    resource = {
        "user": user,
        "group": attributes.kind.group,
        "resource": attributes.kind.plural,
        "subresource": attributes.subresource,
        "namespace": "" if attributes.is_namespace else attributes.namespace,
        "name": attributes.name,
    }
    return {
        "authorizer": cel_authorizer.AuthorizerValue({"user": user}, decide),
        "authorizer.requestResource": cel_authorizer.ResourceCheck(resource, decide),
    }


def _namespace_object(attributes: Attributes, lookup: Lookup) -> Object | None:
    if attributes.is_namespace or not attributes.namespace:
        return None
    return lookup.get(resources.NAMESPACE, "", attributes.namespace)


class PolicySource:
    def __init__(self, store: Store, scheme: Scheme, plural: str, compile_body: CompileBody) -> None:
        self._store = store
        self._programs = PolicyPrograms(compile_body)
        self._scheme = scheme
        self._plural = plural
        self._policies: list[AdmissionPolicy] | None = None
        self._selected: dict[tuple[int, str, str], tuple[Kind, list[AdmissionPolicy]]] = {}
        store.listeners.append(self._on_changes)

    def _on_changes(self, changes: Sequence[StoreChange]) -> None:
        for change in changes:
            if change.now.key.group in (admission_rules.GROUP, _DEFINITIONS):
                self._policies = None

    @property
    def is_empty(self) -> bool:
        return not self._current()

    def _current(self) -> list[AdmissionPolicy]:
        if self._policies is None:
            self._policies = list(self._with_bindings())
            self._programs.retain([policy.name for policy in self._policies])
            self._selected.clear()
        return self._policies

    def policies_for(self, attributes: Attributes) -> list[AdmissionPolicy]:
        """The policies with rules for this resource and operation, sorted by name."""
        policies = self._current()
        if not policies or admission_rules.is_exempt(attributes.kind):
            return []
        kind = attributes.kind
        key = (id(kind), attributes.subresource, attributes.operation)
        selected = self._selected.get(key)
        if selected is None:
            if len(self._selected) >= _MOST_SELECTIONS:
                self._selected.clear()
            of_kind = [policy for policy in policies if policy.matcher.may_match(kind, *key[1:])]
            selected = self._selected[key] = (kind, of_kind)
        return selected[1]

    def invocations(
        self, policy: AdmissionPolicy, attributes: Attributes, lookup: Lookup
    ) -> Iterator[tuple[PolicyBinding | None, Invocation | ConfigurationError]]:
        """What a policy does for a request, or why it cannot be used."""
        kind = policy.matcher.matched_kind(attributes, lookup)
        if kind is None:
            return
        if policy.program.fault:
            yield None, ConfigurationError(f"failed to configure policy: {policy.program.fault}")
            return
        for binding in policy.bindings:
            if binding.matcher is not None and binding.matcher.matched_kind(attributes, lookup) is None:
                continue
            try:
                params = self._params(policy, binding, attributes, lookup)
            except ConfigurationError as error:
                yield binding, ConfigurationError(f"failed to configure binding: {error}")
                continue
            for param in params:
                yield binding, Invocation(policy=policy, binding=binding, kind=kind, param=param)

    def _params(
        self, policy: AdmissionPolicy, binding: PolicyBinding, attributes: Attributes, lookup: Lookup
    ) -> Sequence[Object | None]:
        param_kind, reference = policy.spec.get("paramKind"), binding.spec.get("paramRef")
        if not param_kind or not reference:
            return (None,)
        kind = self._scheme.for_kind(param_kind["apiVersion"], param_kind["kind"])
        if kind is None:
            raise ConfigurationError(
                f"paramKind kind `{param_kind['apiVersion']}, Kind={param_kind['kind']}` not known"
            )
        namespace = str(reference.get("namespace") or "")
        if namespace and not kind.namespaced:
            raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        if kind.namespaced:
            namespace = namespace or attributes.namespace
            if not namespace:
                raise ConfigurationError(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                )
        params = list(_selected_params(reference, kind, namespace, lookup))
        if not params and reference.get("parameterNotFoundAction") == "Deny":
            raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
        return params

    def _with_bindings(self) -> Iterator[AdmissionPolicy]:
        group, kind = admission_rules.GROUP, self._plural.replace("policies", "policybindings")
        bindings: dict[str, list[PolicyBinding]] = {}
        for stored in sorted(self._store.select(group, kind), key=lambda stored: stored.key.name):
            binding = stored.shared_or_decoded()
            spec = objects.spec(binding)
            match = spec.get("matchResources")
            matcher = Matcher(match, self._scheme) if match else None
            compiled = PolicyBinding(name=objects.name(binding), spec=spec, matcher=matcher)
            bindings.setdefault(spec.get("policyName", ""), []).append(compiled)
        for stored in sorted(self._store.select(group, self._plural), key=lambda stored: stored.key.name):
            policy = stored.shared_or_decoded()
            if of_policy := bindings.get(objects.name(policy)):
                spec = objects.spec(policy)
                yield AdmissionPolicy(
                    name=objects.name(policy),
                    spec=spec,
                    matcher=Matcher(spec.get("matchConstraints") or {}, self._scheme),
                    bindings=of_policy,
                    programs=self._programs,
                    revision=stored.revision,
                )


def _selected_params(reference: Object, kind: Kind, namespace: str, lookup: Lookup) -> Iterator[Object]:
    if name := reference.get("name"):
        param = lookup.get(kind.resource, namespace, name)
        if param is not None:
            yield param
        return
    selector = reference.get("selector") or {}
    for param in lookup.list(kind.resource, namespace):
        if selectors.selects(selector, objects.labels(param)):
            yield param
