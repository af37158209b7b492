"""Admission in the embedded API server: field validation, metadata and namespaces.

The schemas are those of the version of the request; the rules of webhooks see the storage version.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec import structs

from pykueue.api import errors, reserved_keys, schema
from pykueue.api.admission import AdmissionPipeline
from pykueue.api.errors import ApiError, FieldError
from pykueue.api.rules import controlled_objects, faults
from pykueue.api.schema import UnknownField
from pykueue.api.scheme import AdmissionRequest, Kind, Object
from pykueue.apiserver import metadata, namespace_lifecycle, structure, trust, versions
from pykueue.apiserver.calls import WriteCall
from pykueue.apiserver.security.authorizer import Authorizer

_SIMILAR_ENOUGH_TO_SUGGEST = 0.8
_MOST_REPORTED_FIELDS = 100


class AdmissionPlugin(Protocol):
    """A check of every write, after the rules of its kind."""

    def validate(self, kind: Kind, request: AdmissionRequest, call: WriteCall) -> list[str]:
        """The warnings for the client; ApiError if the write is refused.

        `kind` and the objects of `request` are in the storage version.
        """
        ...


class Mutator(Protocol):
    """One change of a write, such as a policy with its binding, or a webhook."""

    @property
    def is_reinvocable(self) -> bool:
        """Whether it runs a second time if a later mutator changes the object."""
        ...

    def mutate(self, kind: Kind, request: AdmissionRequest, call: WriteCall) -> Object | None:
        """The new object in the storage version, None if it does not change it."""
        ...


class MutatingPlugin(Protocol):
    def mutators(self, kind: Kind, request: AdmissionRequest, call: WriteCall) -> Sequence[Mutator]:
        """What may change this write, in its order."""
        ...


@dataclass(slots=True, kw_only=True)
class ServerAdmission(AdmissionPipeline):
    call: WriteCall
    is_patch: bool = False
    authorizer: Authorizer | None = None
    plugins: Sequence[AdmissionPlugin] = ()
    mutating_plugins: Sequence[MutatingPlugin] = ()
    is_event: bool = False

    @property
    def is_trusted(self) -> bool:
        """A controller of this process writes statuses and events that keep the rules.

        A version guards its writes, so that the rules of transitions hold, too. Tests and the
        simulation run the same controllers with all rules checked.
        """
        return self.call.is_trusted and (self.subresource == "status" or self.is_event)

    def check_applied_configuration(self, kind: Kind, applied: Object) -> None:
        """Server-side apply refuses unknown fields, because no manager could own them.

        Kubernetes answers with code 500; the error is the client's, so the code is 400 here.
        """
        if kind.reader is not None:
            self.warnings += kind.reader(applied)
        unknown = [
            f".{field.path}: field not declared in schema" for field in schema.unknown_fields(kind.schema, applied)
        ]
        if unknown:
            name = f"{applied['metadata'].get('namespace', '')}/{applied['metadata'].get('name', '')}"
            unknown = unknown[:_MOST_REPORTED_FIELDS]
            lines = unknown[0] if len(unknown) == 1 else "errors:\n" + "\n".join(f"  {line}" for line in unknown)
            raise errors.bad_request(
                f"failed to create typed patch object ({name}; {kind.api_version}, Kind={kind.kind}): {lines}"
            )

    def in_version(self, kind: Kind, stored: Object) -> Object:
        return versions.from_storage(kind, msgspec.json.decode(msgspec.json.encode(stored)))

    def in_storage_version(self, kind: Kind, obj: Object) -> Object:
        return versions.to_storage(kind, obj)

    def prepare(self, kind: Kind, request: AdmissionRequest) -> None:
        if (kind.group, kind.kind) == ("", "Namespace"):
            namespace_lifecycle.prepare(request.object, request.old)

    def mutate_by_plugins(self, kind: Kind, request: AdmissionRequest) -> None:
        """Run the mutators of all plugins, and those again that saw an older object."""
        mutators = [
            mutator for plugin in self.mutating_plugins for mutator in plugin.mutators(kind, request, self.call)
        ]
        if not mutators:
            return
        self._default_by_schema(kind, request)
        before: list[Mutator] = []
        due: list[Mutator] = []
        for mutator in mutators:
            if self._mutate_by(mutator, kind, request):
                due, before = [*due, *before], []
            if mutator.is_reinvocable:
                before.append(mutator)
        for mutator in due:
            self._mutate_by(mutator, kind, request)

    def _mutate_by(self, mutator: Mutator, kind: Kind, request: AdmissionRequest) -> bool:
        """Whether the object has changed. It keeps its identity; new parts get defaults."""
        changed = mutator.mutate(kind, request, self.call)
        if changed is None or changed == request.object:
            return False
        before = request.object["metadata"]
        structure.check(kind, changed)
        for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp"):
            if changed["metadata"].get(name) != before.get(name):
                raise errors.bad_request(f"admission cannot change metadata.{name} of {kind.kind} {before.get('name')}")
        request.object.clear()
        request.object.update(changed)
        self._was_valid = False
        if not self.subresource:
            self.mutate(kind, request)
        self._default_by_schema(kind, request)
        return True

    def _default_by_schema(self, kind: Kind, request: AdmissionRequest) -> None:
        """Unchanged fields may be shared with the stored object, and have their defaults."""
        unchanged = self._unchanged_fields(kind, request.object, request.old)
        schema.apply_defaults(kind.schema, request.object, unchanged)

    def check_metadata(self, kind: Kind, request: AdmissionRequest) -> list[FieldError]:
        if request.old is None:
            return [*metadata.faults_of_create(kind, request.object), *self._faults_of_user(kind, request)]
        metadata.prepare_update(kind, request.object, request.old)
        faults_of_update = metadata.faults_of_update(kind, request.object, request.old)
        return [*faults_of_update, *self._faults_of_user(kind, request)]

    def _faults_of_user(self, kind: Kind, request: AdmissionRequest) -> list[FieldError]:
        """Only components write reserved keys, and only controllers what quota depends on.

        Those of a Namespace are the administrator's. Whoever has all rights in a namespace may
        change its Namespace, but has no rights in all of them.
        """
        if self.call.is_component:
            return []
        user, wrong = self.call.user, []
        is_namespace = (kind.group, kind.kind) == ("", "Namespace")
        if not is_namespace or not trust.may_write_everywhere(user, kind, self.authorizer):
            writer = "the administrator" if is_namespace else "pykueue"
            detail = f"is written by {writer} only: remove this key, or leave it as it is"
            paths = reserved_keys.changes(request.object, request.old)
            wrong = [faults.forbidden(path, detail) for path in paths]
        if not trust.is_trusted(user, kind, request.object["metadata"].get("namespace", ""), self.authorizer):
            wrong += controlled_objects.check(request.object, request.old)
            if self.subresource == "status" and not trust.may_write_everywhere(user, kind, self.authorizer):
                wrong += controlled_objects.check_status(request.object, request.old)
        return wrong

    def validate(self, kind: Kind, request: AdmissionRequest) -> None:
        AdmissionPipeline.validate(self, kind, request)
        for plugin in self.plugins:
            self.warnings += plugin.validate(kind, request, self.call)

    def on_unknown_fields(self, kind: Kind, unknown: Sequence[UnknownField], as_sent: bytes) -> None:
        """Strict refuses unknown and repeated fields, Warn warns of them, Ignore drops them."""
        if self.call.field_validation == "Ignore":
            return
        unknown = unknown[:_MOST_REPORTED_FIELDS]
        if self.call.field_validation == "Strict":
            parts = [self.call.decoding_faults, tuple(map(str, unknown))]
            # Kubernetes finds both at once in its own kinds, unknown fields of others later.
            faults = ", ".join(fault for part in (reversed(parts) if kind.is_builtin else parts) for fault in part)
            if faults:
                raise self._undecodable(kind, as_sent, f"strict decoding error: {faults}")
        self.warnings += [*self.call.decoding_faults, *map(_warning, unknown)]

    def _undecodable(self, kind: Kind, as_sent: bytes, why: str) -> ApiError:
        if self.is_patch:
            fault = FieldError("FieldValueInvalid", "patch", why, as_sent.decode())
            return errors.invalid("", "", "", [fault])
        return errors.bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}')

    def on_invalid(self, kind: Kind, obj: Object, field_errors: Sequence[FieldError]) -> None:
        AdmissionPipeline.on_invalid(self, kind, obj, [_relative_to_status(error) for error in field_errors])


def _relative_to_status(error: FieldError) -> FieldError:
    """The schema error of a status names the field relative to the status, as in Kubernetes."""
    if not error.field.startswith("status."):
        return error
    from_top, from_status = f"{error.field} in body", f"{error.field.removeprefix('status.')} in body"
    return structs.replace(error, detail=error.detail.replace(from_top, from_status, 1))


def _warning(unknown: UnknownField) -> str:
    """Kubernetes' words, with a suggestion if a known field is spelled nearly the same."""
    likeness = difflib.SequenceMatcher(None, unknown.name.lower(), unknown.suggestion.lower()).ratio()
    return unknown.hint() if likeness >= _SIMILAR_ENOUGH_TO_SUGGEST else str(unknown)
