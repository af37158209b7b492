"""Builds admission policies and their bindings as objects.

A policy runs inside the API server, so that no job waits for a controller, a certificate or a
network.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from pykueue.api.scheme import Object, Resource

_API_VERSION = "admissionregistration.k8s.io/v1"
_DOMAIN = "pykueue.dev"


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The writes that a policy matches; `conditions` are (name, CEL) pairs."""

    resource: Resource
    operations: tuple[str, ...] = ("CREATE",)
    versions: tuple[str, ...] = ()
    """If empty, the version of the resource."""
    subresource: str = ""
    namespace_selector: Any = None
    conditions: tuple[tuple[str, str], ...] = ()

    def fields(self) -> Object:
        resource = self.resource
        rule = {
            "apiGroups": [resource.group],
            "apiVersions": list(self.versions or (resource.version,)),
            "operations": list(self.operations),
            "resources": [f"{resource.plural}/{self.subresource}" if self.subresource else resource.plural],
        }
        constraints: Object = {"matchPolicy": "Equivalent", "resourceRules": [rule]}
        if self.namespace_selector is not None:
            constraints["namespaceSelector"] = dict(self.namespace_selector)
        spec: Object = {"matchConstraints": constraints}
        if self.conditions:
            spec["matchConditions"] = [{"name": name, "expression": text} for name, text in self.conditions]
        return spec


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """An object in the namespace of the write; the policy acts only where it exists."""

    resource: Resource
    name: str


class Mutation(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is CEL for an `Object{…}` to merge or for a list of JSON patches."""

    text: str
    is_json_patch: bool = False

    def fields(self) -> Object:
        if self.is_json_patch:
            return {"patchType": "JSONPatch", "jsonPatch": {"expression": self.text}}
        return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": self.text}}


def object_with(path: tuple[str, ...], value: str) -> str:
    """CEL for an object with the value at the path: `Object{spec: Object.spec{suspend: true}}`."""
    text = value
    for depth in range(len(path) - 1, -1, -1):
        kind = ".".join(("Object", *path[:depth]))
        text = f"{kind}{{{path[depth]}: {text}}}"
    return text


def mutating(
    name: str, subject: Subject, mutations: Sequence[Mutation], *, parameter: Parameter | None = None
) -> list[Object]:
    """A mutating policy and its binding.

    With a parameter its errors are ignored, because the kind of the parameter may not be installed
    yet.
    """
    spec: Object = {
        **subject.fields(),
        "failurePolicy": "Fail" if parameter is None else "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "mutations": [mutation.fields() for mutation in mutations],
    }
    binding: Object = {"policyName": f"{name}.{_DOMAIN}"}
    _depend(spec, binding, parameter)
    return [_object("MutatingAdmissionPolicy", name, spec), _object("MutatingAdmissionPolicyBinding", name, binding)]


def validating(
    name: str,
    subject: Subject,
    validations: Sequence[Object],
    *,
    variables: Sequence[Object] = (),
    parameter: Parameter | None = None,
    only_warns: bool = False,
) -> list[Object]:
    may_refuse = parameter is None and not only_warns
    spec: Object = {**subject.fields(), "failurePolicy": "Fail" if may_refuse else "Ignore"}
    if variables:
        spec["variables"] = list(variables)
    spec["validations"] = list(validations)
    binding: Object = {"policyName": f"{name}.{_DOMAIN}", "validationActions": ["Warn" if only_warns else "Deny"]}
    _depend(spec, binding, parameter)
    return [
        _object("ValidatingAdmissionPolicy", name, spec),
        _object("ValidatingAdmissionPolicyBinding", name, binding),
    ]


def _depend(spec: Object, binding: Object, parameter: Parameter | None) -> None:
    if parameter is not None:
        spec["paramKind"] = {"apiVersion": parameter.resource.api_version, "kind": parameter.resource.kind}
        binding["paramRef"] = {"name": parameter.name, "parameterNotFoundAction": "Allow"}


def _object(kind: str, name: str, spec: Object) -> Object:
    metadata = {"name": f"{name}.{_DOMAIN}", "labels": {"app.kubernetes.io/part-of": "pykueue"}}
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
