"""Create, update and patch: from a request's body to a version in the store.

Everything here runs without giving up the event loop, so reading the newest version, deciding and writing are one
step: two writers never see the same version as their own to replace. Bodies are taken over and changed in place.
"""

from dataclasses import dataclass

import msgspec

from pykueue.api import errors
from pykueue.api.errors import FieldError
from pykueue.api.scheme import Kind, Object
from pykueue.apiserver import metadata, namespaces, scales, structure, versions
from pykueue.apiserver.admission import Admission
from pykueue.apiserver.calls import Patch, Target, WriteCall
from pykueue.apiserver.context import OBJECT_BYTES, Context, Outcome
from pykueue.apiserver.patches import json_patch, managed_fields, merge, merge_schema, strategic
from pykueue.apiserver.patches.managed_fields import Managers, Writer
from pykueue.apiserver.store.rows import Key, Stored
from pykueue.kube.client import PatchType

_ATTEMPTS_AT_A_FREE_NAME = 8
_KEEPS_STATUS_ON_CREATE = {("", "Node"), ("", "PersistentVolume")}


@dataclass(slots=True, kw_only=True)
class _Write:
    """One request on its way to the store."""

    target: Target
    call: WriteCall
    admission: Admission
    managers: Managers | None = None
    """Who owns what afterwards, if server-side apply has decided it; else it follows from what changed."""

    @property
    def kind(self) -> Kind:
        return self.target.kind

    def outcome(self, stored: Stored, *, is_created: bool = False, is_gone: bool = False) -> Outcome:
        warnings = list(dict.fromkeys(self.admission.warnings))
        if self.kind.deprecation_warning:
            warnings.insert(0, self.kind.deprecation_warning)
        return Outcome(
            kind=self.kind,
            stored=stored,
            warnings=tuple(warnings),
            is_created=is_created,
            is_gone=is_gone,
            is_written=not self.call.dry_run,
        )


class Writing:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    # Verbs

    def create(self, target: Target, body: Object, call: WriteCall) -> Outcome:
        write = self._begin(target, call)
        obj = structure.check(target.kind, body)
        obj["metadata"].pop("managedFields", None)
        return self._create(write, obj)

    def update(self, target: Target, body: Object, call: WriteCall) -> Outcome:
        write = self._begin(target, call)
        existing = self._existing(target)
        if target.subresource == "scale":
            new = self._scaled(target, existing, body)
        else:
            new = structure.check(target.kind, body)
            _check_address(target, new)
            _check_has_version(target, new)
        return self._replace(write, existing, _shown(target.kind, existing), new)

    def patch(self, target: Target, patch: Patch, call: WriteCall) -> Outcome:
        if patch.type is PatchType.APPLY:
            return self._apply(target, patch.body, call)
        write = self._begin(target, call, is_patch=True)
        existing = self._existing(target)
        old = _patchable(target, existing, patch)
        if target.subresource == "scale":
            new = self._scaled(target, existing, _patched(target.kind, scales.read(target.kind, old), patch))
        else:
            new = structure.check_patched(
                target.kind, _patched(target.kind, old, patch), existing.key.name, existing.meta.uid
            )
            _check_address(target, new)
        return self._replace(write, existing, old, new)

    def _apply(self, target: Target, body: Object, call: WriteCall) -> Outcome:
        write = self._begin(target, call)
        applied = _checked_configuration(target, body, call)
        write.admission.check_configuration(target.kind, applied)
        existing = self._store.head(versions.key_of(target.kind, target.namespace, target.name))
        live = _shown(target.kind, existing) if existing else None
        if live is not None:
            metadata.check_update_preconditions(target.kind, applied, live)
        result, write.managers = managed_fields.apply(
            merge_schema.of(target.kind),
            live,
            _applicable(target, applied),
            writer=self._writer(write),
            force=call.force,
        )
        if existing is not None and live is not None:
            return self._replace(write, existing, live, result)
        if target.subresource:
            raise errors.not_found(target.kind.group, target.kind.plural, target.name)
        return self._create(write, result)

    # The path to the store

    def _create(self, write: _Write, obj: Object) -> Outcome:
        target, kind = write.target, write.kind
        _check_address(target, obj)
        if kind.namespaced:
            namespaces.check_accepts_new_content(self._context, target, str(obj["metadata"].get("name", "")))
        self._name(target, obj)
        metadata.prepare_create(kind, obj, self._context.clock())
        if kind.has_status and (kind.group, kind.kind) not in _KEEPS_STATUS_ON_CREATE:
            obj.pop("status", None)
        obj = self._admitted(write, obj, None)
        self._own(write, None, obj)
        key = versions.key_of(kind, target.namespace, obj["metadata"]["name"])
        if (present := self._store.head(key)) is not None:
            refusal = errors.already_exists(kind.group, kind.plural, key.name)
            if present.meta.deletion_timestamp:
                refusal.message = f"object is being deleted: {refusal.message}"
            raise refusal
        return write.outcome(self._put(write, key, obj), is_created=True)

    def _replace(self, write: _Write, existing: Stored, shown: Object, new: Object) -> Outcome:
        """`shown` is what `new` was made from, in the version of the request; both are used up."""
        metadata.check_update_preconditions(write.kind, new, shown)
        obj = _separated(write.target, new, shown)
        old = existing.peek()
        obj = self._admitted(write, obj, old)
        self._own(write, existing, obj)
        obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if _is_unchanged(obj, old, existing.managed()):
            return write.outcome(existing)
        if is_ready_to_go(write.kind, obj):
            stored = existing if write.call.dry_run else self._store.remove(existing.key, obj)
            return write.outcome(stored, is_gone=True)
        return write.outcome(self._put(write, existing.key, obj))

    def _admitted(self, write: _Write, obj: Object, old: Object | None) -> Object:
        """The object in its storage version, defaulted and found valid."""
        admission, kind = write.admission, versions.storage_kind(self._context.scheme, write.kind)
        admission.read(write.kind, obj, old if kind is write.kind else None, write.call)
        if kind is not write.kind:
            shown = versions.from_storage(write.kind, _copy(old)) if old else None
            admission.check_structure(write.kind, obj, shown)
            obj = versions.to_storage(write.kind, obj)
        request = admission.request(obj, old, write.target.subresource)
        if not write.target.subresource:
            if (kind.group, kind.kind) == ("", "Namespace"):
                namespaces.prepare(obj, old)
            admission.mutate(kind, request)
        if old is None:
            faults = metadata.faults_of_create(kind, obj)
        else:
            metadata.prepare_update(kind, obj, old)
            faults = metadata.faults_of_update(kind, obj, old)
        admission.check_structure(kind, obj, old, faults)
        admission.validate(kind, request)
        return obj

    def _own(self, write: _Write, existing: Stored | None, obj: Object) -> None:
        """Write down who owns which field, in the version in which the writer sees the object."""
        managers = write.managers
        if managers is None:
            old = _peeked(write.kind, existing) if existing else None
            new = versions.from_storage(write.kind, obj)
            if write.kind.has_status and write.target.subresource != "status":
                old, new = (_without_status(old) if old else None), _without_status(new)
            owners = managed_fields.read_text(existing.managed()) if existing else {}
            managers = managed_fields.after_update(
                merge_schema.of(write.kind), old, new, managers=owners, writer=self._writer(write)
            )
        managed_fields.write(obj, managers)

    def _put(self, write: _Write, key: Key, obj: Object) -> Stored:
        if write.call.dry_run:
            return Stored.of(key, 0, msgspec.json.encode(obj))
        stored = self._store.put(key, obj, limit=OBJECT_BYTES)
        if stored is None:
            raise errors.too_large(
                f"Request entity too large: {write.kind.kind} {key.name} exceeds {OBJECT_BYTES} bytes"
            )
        return stored

    # Small parts

    def _begin(self, target: Target, call: WriteCall, *, is_patch: bool = False) -> _Write:
        return _Write(
            target=target, call=call, admission=self._context.admission(target.subresource, is_patch=is_patch)
        )

    def _existing(self, target: Target) -> Stored:
        existing = self._store.head(versions.key_of(target.kind, target.namespace, target.name))
        if existing is None:
            raise errors.not_found(target.kind.group, target.kind.plural, target.name)
        return existing

    def _scaled(self, target: Target, existing: Stored, scale: Object) -> Object:
        new = _shown(target.kind, existing)
        version = scales.checked(target.kind, scale)["metadata"].get("resourceVersion")
        if version:
            new["metadata"]["resourceVersion"] = version
        scales.write(target.kind, new, scale)
        return new

    def _name(self, target: Target, obj: Object) -> None:
        given = obj["metadata"]
        if given.get("name") or not given.get("generateName"):
            return
        for _ in range(_ATTEMPTS_AT_A_FREE_NAME):
            given["name"] = metadata.generate_name(given["generateName"])
            if self._store.head(versions.key_of(target.kind, target.namespace, given["name"])) is None:
                return

    def _writer(self, write: _Write) -> Writer:
        return Writer(
            name=write.call.field_manager or write.call.user_agent.split("/")[0] or "unknown",
            api_version=write.kind.api_version,
            time=metadata.timestamp(self._context.clock()),
            subresource=write.target.subresource,
        )


def _shown(kind: Kind, stored: Stored) -> Object:
    return versions.from_storage(kind, stored.decode())


def _shown_unmanaged(kind: Kind, stored: Stored) -> Object:
    return versions.from_storage(kind, stored.decode_unmanaged())


def _peeked(kind: Kind, stored: Stored) -> Object:
    """To read only."""
    return stored.peek() if versions.is_stored_as_shown(kind) else _shown_unmanaged(kind, stored)


def _patchable(target: Target, existing: Stored, patch: Patch) -> Object:
    """What a patch is laid over. Patches copy what they touch, so that a new status may share the rest with what is stored."""
    if _names_managers(patch):
        return _shown(target.kind, existing)
    if target.subresource == "status":
        return _peeked(target.kind, existing)
    return _shown_unmanaged(target.kind, existing)


def _names_managers(patch: Patch) -> bool:
    """Whether the patch may have something to say of `managedFields`."""
    metadata = patch.body.get("metadata") if isinstance(patch.body, dict) else None
    is_plain = patch.type in (PatchType.MERGE, PatchType.STRATEGIC) and (metadata is None or isinstance(metadata, dict))
    return not is_plain or any("managedFields" in name for name in metadata or ())


def _is_unchanged(obj: Object, old: Object, managed: bytes) -> bool:
    metadata = dict(obj["metadata"])
    return bytes(metadata.pop("managedFields", b"")) == managed and {**obj, "metadata": metadata} == old


def _copy(obj: Object) -> Object:
    copied: Object = msgspec.json.decode(msgspec.json.encode(obj))
    return copied


def _without_status(obj: Object) -> Object:
    """What the server itself sets in a status while the object is written belongs to nobody."""
    return {name: value for name, value in obj.items() if name != "status"}


def _checked_configuration(target: Target, body: Object, call: WriteCall) -> Object:
    """The body of server-side apply, which must say who applies it and may not say who owns it."""
    if not call.field_manager:
        fault = FieldError("FieldValueRequired", "fieldManager", "is required for apply patch")
        raise errors.invalid("meta.k8s.io", "PatchOptions", "", [fault])
    applied = structure.check(target.kind, body)
    _check_address(target, applied)
    if applied["metadata"].pop("managedFields", None):
        raise errors.bad_request("metadata.managedFields must be nil")
    return applied


def is_ready_to_go(kind: Kind, obj: Object) -> bool:
    """Deletion was asked for and nothing holds the object any longer."""
    given = obj["metadata"]
    if not given.get("deletionTimestamp") or given.get("finalizers") or given.get("deletionGracePeriodSeconds"):
        return False
    return kind.kind != "Namespace" or bool(kind.group) or not (obj.get("spec") or {}).get("finalizers")


def _check_address(target: Target, obj: Object) -> None:
    """The body may repeat the address, not contradict it."""
    given = obj["metadata"]
    if target.kind.namespaced:
        if not target.namespace:
            raise errors.bad_request("an empty namespace may not be set during creation")
        if given.setdefault("namespace", target.namespace) != target.namespace:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
    else:
        given.pop("namespace", None)
    if target.name and given.setdefault("name", target.name) != target.name:
        raise errors.bad_request(
            f"the name of the object ({given['name']}) does not match the name on the URL ({target.name})"
        )


def _check_has_version(target: Target, obj: Object) -> None:
    """Custom resources may not be replaced blindly."""
    if target.kind.is_builtin or obj["metadata"].get("resourceVersion"):
        return
    fault = FieldError("FieldValueInvalid", "metadata.resourceVersion", "must be specified for an update", 0)
    raise errors.invalid(target.kind.group, target.kind.plural, target.name, [fault])


def _patched(kind: Kind, old: Object, patch: Patch) -> Object:
    match patch.type:
        case PatchType.JSON:
            new = json_patch.apply(old, patch.body)
        case PatchType.MERGE:
            new = merge.apply(old, patch.body)
        case PatchType.STRATEGIC if kind.is_builtin:
            new = strategic.apply(merge_schema.of(kind), old, patch.body)
        case _:
            accepted = ", ".join(each.value for each in (PatchType.JSON, PatchType.MERGE, PatchType.APPLY))
            raise errors.unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: " + accepted
            )
    if not isinstance(new, dict):
        raise errors.bad_request(f"error decoding patch: {kind.kind} cannot become {new!r:.40}")
    return new


def _applicable(target: Target, applied: Object) -> Object:
    """What of an applied configuration this endpoint takes: all but the status, or the status alone."""
    if not target.kind.has_status:
        return applied
    if target.subresource == "status":
        kept = {"apiVersion", "kind", "metadata", "status"}
        identity = {name: value for name, value in applied["metadata"].items() if name in ("name", "namespace")}
        return {name: value for name, value in applied.items() if name in kept} | {"metadata": identity}
    return {name: value for name, value in applied.items() if name != "status"}


def _separated(target: Target, new: Object, old: Object) -> Object:
    """`new` in what its endpoint may change, `old` in the rest."""
    kind = target.kind
    if target.subresource == "finalize":
        return {**old, "spec": new.get("spec") or {}}
    if target.subresource == "status":
        if kind.is_builtin:
            kept = {**new["metadata"], "ownerReferences": old["metadata"].get("ownerReferences")}
            given = {name: value for name, value in kept.items() if value is not None}
        else:
            given = dict(old["metadata"])
            if "managedFields" in new["metadata"]:
                given["managedFields"] = new["metadata"]["managedFields"]
        separated = {**old, "metadata": given}
        separated.pop("status", None)
        return separated | ({"status": new["status"]} if "status" in new else {})
    separated = {**new, "metadata": dict(new["metadata"])}
    if kind.has_status:
        separated.pop("status", None)
        if "status" in old:
            separated["status"] = old["status"]
    return separated
