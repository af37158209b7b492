"""MutatingAdmissionPolicies: CEL that changes a write, as an apply configuration or JSON patch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pykueue.api import policy_expressions as expressions
from pykueue.api import schema
from pykueue.api.cel.errors import EvaluationError
from pykueue.api.errors import ApiError
from pykueue.api.policy_expressions import Evaluation, PolicyExpression, Scope
from pykueue.api.scheme import AdmissionRequest, Kind, Object, Scheme
from pykueue.apiserver import versions
from pykueue.apiserver.admission import Mutator
from pykueue.apiserver.calls import WriteCall
from pykueue.apiserver.patches import json_patch, merge_schema, typed
from pykueue.apiserver.patches.merge_schema import MergeSchema
from pykueue.apiserver.plugins.admission_attributes import Attributes
from pykueue.apiserver.plugins.admission_policies import (
    AdmissionPolicy,
    ConfigurationError,
    Invocation,
    PolicyBinding,
    PolicySource,
)
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.apiserver.store.store import Store

_WITHOUT_MUTATION = ("scale", "binding")
"""Subresources whose requests have another kind than the object that is stored."""


class MutatingPolicies:
    """The admission plugin."""

    def __init__(self, store: Store, scheme: Scheme, authorizer: Authorizer | None = None) -> None:
        self._authorizer = authorizer
        self._source = PolicySource(store, scheme, "mutatingadmissionpolicies", _compiled)

    @property
    def is_empty(self) -> bool:
        return self._source.is_empty

    def mutators(self, kind: Kind, request: AdmissionRequest, call: WriteCall) -> Sequence[Mutator]:
        if self._source.is_empty or request.subresource in _WITHOUT_MUTATION:
            return ()
        attributes = Attributes.of(kind, request, call)
        mutators = []
        for policy in self._source.policies_for(attributes):
            for binding, invocation in self._source.invocations(policy, attributes, request.lookup):
                if isinstance(invocation, Invocation):
                    mutators.append(_PolicyMutator(invocation=invocation, authorizer=self._authorizer))
                elif not policy.fails_open:
                    raise _refusal(attributes, policy, binding, invocation)
        return mutators


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mutation:
    patch_type: str
    expression: PolicyExpression


def _compiled(spec: Object, scope: Scope) -> list[_Mutation]:
    mutations = []
    for mutation in spec.get("mutations") or ():
        patch_type = mutation["patchType"]
        is_patch = patch_type == "JSONPatch"
        text = mutation["jsonPatch" if is_patch else "applyConfiguration"]["expression"]
        results = expressions.JSON_PATCH if is_patch else expressions.APPLY_CONFIGURATION
        mutations.append(
            _Mutation(patch_type=patch_type, expression=expressions.compile_expression(text, scope, results))
        )
    return mutations


@dataclass(frozen=True, slots=True, kw_only=True)
class _PolicyMutator:
    """One policy with one binding and one parameter object."""

    invocation: Invocation
    authorizer: Authorizer | None

    @property
    def is_reinvocable(self) -> bool:
        return bool(self.invocation.policy.spec.get("reinvocationPolicy") == "IfNeeded")

    def mutate(self, kind: Kind, request: AdmissionRequest, call: WriteCall) -> Object | None:
        """The mutations of the policy, one after another; each sees the result of the last."""
        policy, binding = self.invocation.policy, self.invocation.binding
        attributes = Attributes.of(kind, request, call)
        try:
            evaluation = self.invocation.evaluation(attributes, request.lookup, self.authorizer)
            if not policy.program.conditions.match(evaluation):
                return None
            budget = evaluation.budget
            for mutation in policy.program.body:
                evaluation = self.invocation.evaluation(attributes, request.lookup, self.authorizer)
                evaluation.budget = budget
                mutated = self._apply(mutation, evaluation)
                attributes.object = versions.to_storage(self.invocation.kind, mutated)
        except (EvaluationError, ConfigurationError) as error:
            if policy.fails_open:
                return None
            raise _refusal(attributes, policy, binding, error) from None
        return attributes.object

    def _apply(self, mutation: _Mutation, evaluation: Evaluation) -> Object:
        # Imported here because only clusters with such policies need the interpreter.
        from pykueue.api.cel import environment, mutations
        from pykueue.api.cel.values import Struct

        obj: Object = evaluation.values["object"]
        value = evaluation.run(mutation.expression)
        result = environment.json_value(value)
        if mutation.patch_type == "JSONPatch":
            return _patched(obj, result)
        if not isinstance(value, Struct):
            raise ConfigurationError(f"unsupported return type from ApplyConfiguration expression: {type(value)}")
        mutations.check_types(value)
        return _merged(self.invocation.kind, obj, result)


def _patched(obj: Object, operations: Any) -> Object:
    """A patch whose test fails changes nothing."""
    try:
        patched = json_patch.apply(obj, operations, is_conditional=True)
    except json_patch.TestFailedError:
        return obj
    except ApiError as error:
        raise ConfigurationError(f"JSON Patch: {error.message}") from None
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        raise ConfigurationError("JSON Patch: the result is not an object with metadata")
    return patched


def _merged(kind: Kind, obj: Object, configuration: Object) -> Object:
    unknown = [f".{field.path}: field not declared in schema" for field in _unknown_fields(kind, configuration)]
    if unknown:
        raise ConfigurationError(
            f"error applying patch: failed to convert patch object to typed object: {', '.join(unknown)}"
        )
    merges = merge_schema.of(kind)
    if atomics := list(_atomics(merges, configuration, "")):
        raise ConfigurationError(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
            + ", ".join(atomics)
        )
    merged: Object = typed.merge(merges, obj, _without_empty(configuration, obj))
    return merged


def _unknown_fields(kind: Kind, configuration: Object) -> list[schema.UnknownField]:
    named = {"metadata": {}, **configuration}
    return schema.unknown_fields(kind.schema, named)


def _atomics(merges: MergeSchema, value: Any, path: str) -> Iterator[str]:
    """The paths of values that would replace the whole of what is there."""
    if isinstance(value, dict):
        if merges.is_atomic:
            yield path
        for name, below in value.items():
            yield from _atomics(merges.child(name), below, f"{path}.{name}")
    elif isinstance(value, list):
        if not merges.keys and not merges.is_set:
            yield path
        for index, below in enumerate(value):
            yield from _atomics(merges.item(), below, f"{path}[{index}]")


def _without_empty(configuration: Object, obj: Any) -> Object:
    """The configuration without empty maps that the object does not have: Go drops them."""
    before = obj if isinstance(obj, dict) else {}
    result: Object = {}
    for name, value in configuration.items():
        inner = _without_empty(value, before.get(name)) if isinstance(value, dict) else value
        if inner != {} or name in before:
            result[name] = inner
    return result


def _refusal(
    attributes: Attributes, policy: AdmissionPolicy, binding: PolicyBinding | None, error: Exception
) -> ApiError:
    """Kubernetes answers with the code of Forbidden and the reason Invalid."""
    with_binding = f"policy '{policy.name}' with binding '{binding.name}'" if binding else f'policy "{policy.name}"'
    message = f"{with_binding} denied request: {error}"
    kind = attributes.kind
    details: Object = {"name": attributes.name, "kind": kind.plural, "causes": [{"message": message}]}
    if kind.group:
        details["group"] = kind.group
    return ApiError(403, "Invalid", message, details)
