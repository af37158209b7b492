"""v1beta1 on a cluster without a conversion webhook: one schema, old field names as aliases.

An API server without conversion relabels objects and drops the fields that the schema of the
requested version does not have. So both versions get the schema of v1beta2 with the old field
names beside the new ones, and nothing is lost. A policy in the API server copies a value that was
written under the old name to the new one, which the controllers read.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from pykueue.api import json_copy, registry
from pykueue.api.kueue.kinds import GROUP, STORAGE_VERSION
from pykueue.api.rules import quota, reading
from pykueue.api.scheme import Kind, Object, Schema
from pykueue.install import admission_policies
from pykueue.install.admission_policies import Mutation, Subject

OLD_VERSION = "v1beta1"
_VERSIONS = (OLD_VERSION, STORAGE_VERSION)
_NOT_SERVED = frozenset({"MultiKueueCluster"})
"""Kinds of which v1beta1 is not served.

In v1beta1 the fields of a MultiKueueCluster are one level higher, so that one schema cannot serve
both versions.
"""


class Alias(msgspec.Struct, frozen=True, kw_only=True):
    """A field of v1beta1 and the field of v1beta2 that has its value; both are below `spec`."""

    kind: str
    old: str
    new: str
    value: str
    """CEL for the new value of the old field; `convert` is the same in Python."""
    schema: Schema
    convert: Callable[[Any], Any] = json_copy.copied

    def apply(self, spec: Object, old_spec: Object, version: str) -> bool:
        """Do what `mutations` do, for a webhook; return whether the old name was written."""
        if self.old in spec and (self.old not in old_spec or spec[self.old] != old_spec[self.old]):
            spec[self.new] = self.convert(spec[self.old])
            return True
        if self.old in old_spec and self.old not in spec:
            if version == OLD_VERSION and self.new in spec and spec[self.new] == old_spec.get(self.new):
                del spec[self.new]
        elif self.old in spec and spec.get(self.new) != self.convert(spec[self.old]):
            del spec[self.old]
        return False

    @property
    def warning(self) -> str:
        return f"spec.{self.old}: read as spec.{self.new}; write {self.new} instead"

    @property
    def mutations(self) -> tuple[Mutation, ...]:
        """The field that was changed wins: the old one if it was written, else the new one."""
        old, new = f"object.spec.{self.old}", f"object.spec.{self.new}"
        had_old = f"(has(oldObject.spec) && has(oldObject.spec.{self.old}))"
        is_old_unchanged = f"oldObject.spec.{self.old} == {old}"
        is_written = f"has({old}) && (oldObject == null || !{had_old} || !({is_old_unchanged}))"
        is_withdrawn = (
            f"request.resource.version == '{OLD_VERSION}' && oldObject != null && {had_old} && !has({old}) && "
            f"has({new}) && has(oldObject.spec.{self.new}) && {new} == oldObject.spec.{self.new}"
        )
        is_overruled = f"oldObject != null && has({old}) && {had_old} && {is_old_unchanged} && (!has({new}) || {new} != {self.value})"
        return (
            _patch(is_written, f"JSONPatch{{op: 'add', path: '/spec/{self.new}', value: {self.value}}}"),
            _patch(is_withdrawn, f"JSONPatch{{op: 'remove', path: '/spec/{self.new}'}}"),
            _patch(is_overruled, f"JSONPatch{{op: 'remove', path: '/spec/{self.old}'}}"),
        )


def _patch(condition: str, patch: str) -> Mutation:
    return Mutation(text=f"has(object.spec) && {condition} ? [{patch}] : []", is_json_patch=True)


_COHORT = Alias(
    kind="ClusterQueue", old="cohort", new="cohortName", value="object.spec.cohort", schema={"type": "string"}
)
_CHECKS = Alias(
    kind="ClusterQueue",
    old="admissionChecks",
    new="admissionChecksStrategy",
    value="{'admissionChecks': object.spec.admissionChecks.map(check, {'name': check})}",
    schema={"type": "array", "maxItems": 64, "items": {"type": "string", "maxLength": 316}},
    convert=lambda names: {"admissionChecks": [{"name": name} for name in reading.sequence(names)]},
)
_NODE_SELECTOR = Alias(
    kind="ResourceFlavor",
    old="nodeSelector",
    new="nodeLabels",
    value="object.spec.nodeSelector",
    schema={"type": "object", "maxProperties": 8, "additionalProperties": {"type": "string"}},
)
ALIASES = (_COHORT, _CHECKS, _NODE_SELECTOR)
_SYNONYMS = (("whenCanBorrow", "Borrow"), ("whenCanPreempt", "Preempt"))
_SYNONYM = "MayStopSearch"
_WITH_QUOTA = ("ClusterQueue", "Cohort")
_GROUP_INDEXES = ", ".join(map(str, range(16)))


def kinds() -> list[Kind]:
    """Kueue's kinds as a cluster without conversion serves them."""
    kueue_kinds = [kind for kind in registry.scheme() if kind.group == GROUP]
    current = {kind.kind: _with_aliases(kind) for kind in kueue_kinds if kind.version == STORAGE_VERSION}
    return [*current.values(), *(_relabelled(kind, current[kind.kind]) for kind in kueue_kinds if kind.to_storage)]


def _with_aliases(kind: Kind) -> Kind:
    schema: Schema = json_copy.copied(kind.schema)
    for alias in ALIASES:
        if alias.kind == kind.kind:
            note = f"Older spelling of {alias.new}."
            schema["properties"]["spec"]["properties"][alias.old] = alias.schema | {"description": note}
    if kind.kind == "ClusterQueue":
        fungibility = schema["properties"]["spec"]["properties"]["flavorFungibility"]["properties"]
        for field, synonym in _SYNONYMS:
            fungibility[field]["enum"].append(synonym)
    if kind.kind == "AdmissionCheck":
        ignored = {"type": "integer", "format": "int64", "description": "Of v1beta1; not used."}
        schema["properties"]["spec"]["properties"]["retryDelayMinutes"] = ignored
    return replace(kind, schema=schema)


def _relabelled(old: Kind, current: Kind) -> Kind:
    if old.kind in _NOT_SERVED:
        return old
    schema = current.schema | {"description": f"The same as {STORAGE_VERSION}, under its older name."}
    return replace(old, schema=schema, columns=current.columns, to_storage=None, from_storage=None)


def policies() -> list[Object]:
    resources = {kind.kind: kind.resource for kind in registry.scheme() if kind.group == GROUP}
    by_kind: dict[str, list[Mutation]] = {}
    for alias in ALIASES:
        by_kind.setdefault(alias.kind, []).extend(alias.mutations)
    by_kind["ClusterQueue"] += _synonyms()
    for kind in _WITH_QUOTA:
        by_kind.setdefault(kind, []).append(_covered_resources())
    objects: list[Object] = []
    for kind, mutations in by_kind.items():
        subject = Subject(resource=resources[kind], versions=_VERSIONS, operations=("CREATE", "UPDATE"))
        objects += admission_policies.mutating(f"spellings-{resources[kind].plural}", subject, mutations)
    return objects


def apply(obj: Object, old: Object | None, version: str) -> list[str]:
    """Do what the policies do, for a webhook; return warnings. The object is not validated yet."""
    spec, kind = obj.get("spec"), str(obj.get("kind"))
    if not str(obj.get("apiVersion")).startswith(f"{GROUP}/") or not isinstance(spec, dict):
        return []
    old_spec = reading.mapping((old or {}).get("spec"))
    written = [alias for alias in ALIASES if alias.kind == kind and alias.apply(spec, old_spec, version)]
    warnings = [alias.warning for alias in written if version != OLD_VERSION]
    fungibility = reading.mapping(spec.get("flavorFungibility"))
    for field, synonym in _SYNONYMS:
        if fungibility.get(field) == synonym:
            fungibility[field] = _SYNONYM
    if kind in _WITH_QUOTA:
        warnings += quota.set_covered_resources(obj)
    return warnings


def _synonyms() -> Iterable[Mutation]:
    for field, synonym in _SYNONYMS:
        path = f"object.spec.flavorFungibility.{field}"
        is_used = f"has(object.spec.flavorFungibility) && has({path}) && {path} == '{synonym}'"
        patch = f"JSONPatch{{op: 'replace', path: '/spec/flavorFungibility/{field}', value: '{_SYNONYM}'}}"
        yield _patch(is_used, patch)


def _covered_resources() -> Mutation:
    """Set the missing `coveredResources` of a group to the resources of its first flavor."""
    groups = "object.spec.resourceGroups"
    is_silent = f"i < size({groups}) && !has({groups}[i].coveredResources) && size({groups}[i].flavors) > 0"
    names = f"{groups}[i].flavors[0].resources.map(resource, resource.name)"
    path = "'/spec/resourceGroups/' + string(i) + '/coveredResources'"
    patches = f"[{_GROUP_INDEXES}].filter(i, {is_silent}).map(i, JSONPatch{{op: 'add', path: {path}, value: {names}}})"
    return Mutation(text=f"has(object.spec) && has({groups}) ? {patches} : []", is_json_patch=True)
