"""Create, update and patch: from the body of a request to a new version in the store.

Nothing here awaits, so reading the newest version, deciding and writing are one step: two writers
never replace the same version. A body belongs to the verb from then on and is changed in place.
"""

from dataclasses import dataclass

import msgspec

from pykueue.api import errors, generated_names, objects, times
from pykueue.api.admission import LARGEST_OBJECT_BYTES
from pykueue.api.errors import FieldError
from pykueue.api.scheme import Kind, Object
from pykueue.apiserver import metadata, namespace_lifecycle, scales, status_writes, structure, versions
from pykueue.apiserver.admission import ServerAdmission
from pykueue.apiserver.calls import PatchBody, ResourceTarget, WriteCall
from pykueue.apiserver.context import Context, WriteOutcome
from pykueue.apiserver.patches import json_patch, managed_fields, merge, merge_schema, strategic
from pykueue.apiserver.patches.managed_fields import Managers, Writer
from pykueue.apiserver.store.rows import Stored, StoreKey
from pykueue.kube.client import PatchType

_GENERATED_NAME_ATTEMPTS = 8
_KEEPS_STATUS_ON_CREATE = {("", "Node"), ("", "PersistentVolume")}


@dataclass(slots=True, kw_only=True)
class _Write:
    """The state of one write request."""

    target: ResourceTarget
    kind: Kind
    call: WriteCall
    admission: ServerAdmission
    managers: Managers | None = None
    """The field managers after server-side apply; None if they follow from the changes."""

    def outcome(self, stored: Stored, *, is_created: bool = False, is_removed: bool = False) -> WriteOutcome:
        warnings = list(dict.fromkeys(self.admission.warnings))
        if self.kind.deprecation_warning:
            warnings.insert(0, self.kind.deprecation_warning)
        return WriteOutcome(
            kind=self.kind,
            stored=stored,
            warnings=tuple(warnings),
            is_created=is_created,
            is_removed=is_removed,
            is_written=not self.call.dry_run,
        )


class WriteHandler:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    # Verbs

    def create(self, target: ResourceTarget, body: Object, call: WriteCall) -> WriteOutcome:
        write = self._begin(target, call)
        obj = structure.check(target.kind, body)
        obj["metadata"].pop("managedFields", None)
        return self._create(write, obj)

    def update(self, target: ResourceTarget, body: Object, call: WriteCall) -> WriteOutcome:
        write = self._begin(target, call)
        existing = self._existing(target)
        if target.subresource == "scale":
            new = self._scaled(target, existing, body)
        else:
            new = structure.check(target.kind, body)
            _check_name(target, new)
            _check_has_version(target, new)
        return self._replace(write, existing, _decoded(target.kind, existing), new)

    def patch(self, target: ResourceTarget, patch: PatchBody, call: WriteCall) -> WriteOutcome:
        if patch.type is PatchType.APPLY:
            return self._apply(target, patch.body, call)
        existing = self._existing(target)
        if target.subresource == "status" and call.is_trusted and not self._context.has_user_rules():
            outcome = self._patch_status(target, existing, patch, call)
            if outcome is not None:
                return outcome
        write = self._begin(target, call, is_patch=True)
        old = _patch_base(target, existing, patch)
        if target.subresource == "scale":
            new = self._scaled(target, existing, _patched(target.kind, scales.read(target.kind, old), patch))
        else:
            new = structure.check_patched(
                target.kind, _patched(target.kind, old, patch), existing.key.name, existing.meta.uid
            )
            _check_name(target, new)
        return self._replace(write, existing, old, new)

    def _patch_status(
        self, target: ResourceTarget, existing: Stored, patch: PatchBody, call: WriteCall
    ) -> WriteOutcome | None:
        """The result of the shorter way; None if the write takes the ordinary one."""
        if call.dry_run or target.kind.deprecation_warning:
            return None
        patched = status_writes.patched(target, existing, patch, self._writer(target, call))
        if patched is None:
            return None
        if not isinstance(patched, Stored):
            patched = self._put(target.kind, call, existing.key, patched)
        return WriteOutcome(kind=target.kind, stored=patched)

    def _apply(self, target: ResourceTarget, body: Object, call: WriteCall) -> WriteOutcome:
        write = self._begin(target, call)
        applied = _checked_configuration(target, body, call)
        write.admission.check_applied_configuration(target.kind, applied)
        existing = self._store.head(versions.key_of(target.kind, target.namespace, target.name))
        live = _base(target, existing) if existing else None
        if live is not None:
            metadata.check_update_preconditions(target.kind, applied, live)
        result, write.managers = managed_fields.apply(
            merge_schema.of(target.kind),
            live,
            _applicable(target, applied),
            managers=managed_fields.read_text(existing.managed()) if existing else {},
            writer=self._writer(write.target, write.call),
            force=call.force,
        )
        if existing is not None and live is not None:
            return self._replace(write, existing, live, result)
        if target.subresource:
            raise errors.not_found(target.kind.group, target.kind.plural, target.name)
        return self._create(write, result)

    # Steps of a write

    def _create(self, write: _Write, obj: Object) -> WriteOutcome:
        target, kind = write.target, write.kind
        _check_name(target, obj)
        if kind.namespaced:
            namespace_lifecycle.check_accepts_new_content(self._store, target, str(obj["metadata"].get("name", "")))
        self._set_name(target, obj)
        metadata.prepare_create(kind, obj, self._context.clock())
        if write.call.reviews is not None:
            write.call.reviews.keep_identity(obj["metadata"])
        if kind.has_status and (kind.group, kind.kind) not in _KEEPS_STATUS_ON_CREATE:
            obj.pop("status", None)
        obj = self._admitted(write, obj, None)
        self._set_managers(write, None, obj)
        key = versions.key_of(kind, target.namespace, obj["metadata"]["name"])
        if (present := self._store.head(key)) is not None:
            refusal = errors.already_exists(kind.group, kind.plural, key.name)
            if present.meta.deletion_timestamp:
                refusal.message = f"object is being deleted: {refusal.message}"
            raise refusal
        outcome = write.outcome(self._put(kind, write.call, key, obj), is_created=True)
        if outcome.is_written:
            for listener in self._context.creation_listeners:
                listener(obj, write.call.user.name)
        return outcome

    def _replace(self, write: _Write, existing: Stored, before: Object, new: Object) -> WriteOutcome:
        """`before` is the existing object in the requested version; `new` may share parts."""
        metadata.check_update_preconditions(write.kind, new, before)
        obj = _merge_endpoint(write.target, new, before)
        old = existing.shared_or_decoded()
        obj = self._admitted(write, obj, old)
        self._set_managers(write, existing, obj)
        obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if _is_unchanged(obj, old, existing.managed()):
            return write.outcome(existing)
        if is_removable(write.kind, obj):
            stored = existing if write.call.dry_run else self._store.remove(existing.key, obj)
            return write.outcome(stored, is_removed=True)
        return write.outcome(self._put(write.kind, write.call, existing.key, obj))

    def _admitted(self, write: _Write, obj: Object, old: Object | None) -> Object:
        """The object in its storage version, defaulted and valid."""
        storage_kind = versions.storage_kind(self._context.scheme, write.kind)
        return write.admission.admit(write.kind, storage_kind, obj, old)

    def _set_managers(self, write: _Write, existing: Stored | None, obj: Object) -> None:
        """Set `managedFields`. Fields are recorded in the version of the request."""
        managers = write.managers
        if managers is None:
            old = _shared(write.kind, existing) if existing else None
            new = versions.from_storage(write.kind, obj)
            if write.kind.has_status and write.target.subresource != "status":
                old, new = (_without_status(old) if old else None), _without_status(new)
            owners = managed_fields.read_text(existing.managed()) if existing else {}
            managers = managed_fields.after_update(
                merge_schema.of(write.kind), old, new, managers=owners, writer=self._writer(write.target, write.call)
            )
        managed_fields.write(obj, managers)

    def _put(self, kind: Kind, call: WriteCall, key: StoreKey, obj: Object) -> Stored:
        obj = versions.completed(key, obj)
        if call.dry_run:
            return Stored.of(key, 0, msgspec.json.encode(obj))
        stored = self._store.put(key, obj, limit=LARGEST_OBJECT_BYTES)
        if stored is None:
            raise errors.too_large(
                f"Request entity too large: {kind.kind} {key.name} exceeds {LARGEST_OBJECT_BYTES} bytes"
            )
        return stored

    # Helpers

    def _begin(self, target: ResourceTarget, call: WriteCall, *, is_patch: bool = False) -> _Write:
        admission = self._context.admission(call, target, is_patch=is_patch)
        return _Write(target=target, kind=target.kind, call=call, admission=admission)

    def _existing(self, target: ResourceTarget) -> Stored:
        existing = self._store.head(versions.key_of(target.kind, target.namespace, target.name))
        if existing is None:
            raise errors.not_found(target.kind.group, target.kind.plural, target.name)
        return existing

    def _scaled(self, target: ResourceTarget, existing: Stored, scale: Object) -> Object:
        new = _decoded(target.kind, existing)
        version = scales.checked(target.kind, scale)["metadata"].get("resourceVersion")
        if version:
            new["metadata"]["resourceVersion"] = version
        scales.write(target.kind, new, scale)
        return new

    def _set_name(self, target: ResourceTarget, obj: Object) -> None:
        meta = obj["metadata"]
        if meta.get("name") or not meta.get("generateName"):
            return
        for _ in range(_GENERATED_NAME_ATTEMPTS):
            meta["name"] = generated_names.generate(meta["generateName"])
            if self._store.head(versions.key_of(target.kind, target.namespace, meta["name"])) is None:
                return

    def _writer(self, target: ResourceTarget, call: WriteCall) -> Writer:
        return Writer(
            name=call.field_manager or call.user_agent.split("/")[0] or "unknown",
            api_version=target.kind.api_version,
            time=times.to_text(self._context.clock()),
            subresource=target.subresource,
        )


def _decoded(kind: Kind, stored: Stored) -> Object:
    return versions.from_storage(kind, stored.decode())


def _decoded_unmanaged(kind: Kind, stored: Stored) -> Object:
    return versions.from_storage(kind, stored.decode_unmanaged())


def _shared(kind: Kind, stored: Stored) -> Object:
    """The object without `managedFields`. It must not be changed."""
    return stored.shared_or_decoded() if versions.is_storage_version(kind) else _decoded_unmanaged(kind, stored)


def _patch_base(target: ResourceTarget, existing: Stored, patch: PatchBody) -> Object:
    """The object that a patch is applied to."""
    return _decoded(target.kind, existing) if _may_change_managers(patch) else _base(target, existing)


def _base(target: ResourceTarget, existing: Stored) -> Object:
    """The object without `managedFields`, to which a patch is applied.

    Patches copy what they change, so the result of a status patch may share the other fields with
    the stored object.
    """
    if target.subresource == "status":
        return _shared(target.kind, existing)
    return _decoded_unmanaged(target.kind, existing)


def _may_change_managers(patch: PatchBody) -> bool:
    """Whether the patch may change `managedFields`."""
    metadata = patch.body.get("metadata") if isinstance(patch.body, dict) else None
    is_plain = patch.type in (PatchType.MERGE, PatchType.STRATEGIC) and (metadata is None or isinstance(metadata, dict))
    return not is_plain or any("managedFields" in name for name in metadata or ())


def _is_unchanged(obj: Object, old: Object, managed: bytes) -> bool:
    metadata = dict(obj["metadata"])
    return bytes(metadata.pop("managedFields", b"")) == managed and {**obj, "metadata": metadata} == old


def _without_status(obj: Object) -> Object:
    """The object without the status, for which the server records no manager in this write."""
    return {name: value for name, value in obj.items() if name != "status"}


def _checked_configuration(target: ResourceTarget, body: Object, call: WriteCall) -> Object:
    """The body of server-side apply, which needs a field manager and no `managedFields`."""
    if not call.field_manager:
        fault = FieldError("FieldValueRequired", "fieldManager", "is required for apply patch")
        raise errors.invalid("meta.k8s.io", "PatchOptions", "", [fault])
    applied = structure.check(target.kind, body)
    _check_name(target, applied)
    if applied["metadata"].pop("managedFields", None):
        raise errors.bad_request("metadata.managedFields must be nil")
    return applied


def is_removable(kind: Kind, obj: Object) -> bool:
    """Whether the object is being deleted and has neither finalizers nor a grace period left."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
        return False
    return kind.kind != "Namespace" or bool(kind.group) or not objects.spec(obj).get("finalizers")


def _check_name(target: ResourceTarget, obj: Object) -> None:
    """Set name and namespace from the path; ApiError 400 if the body has other ones."""
    meta = obj["metadata"]
    if target.kind.namespaced:
        if not target.namespace:
            raise errors.bad_request("an empty namespace may not be set during creation")
        if meta.setdefault("namespace", target.namespace) != target.namespace:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
    else:
        meta.pop("namespace", None)
    if target.name and meta.setdefault("name", target.name) != target.name:
        raise errors.bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({target.name})"
        )


def _check_has_version(target: ResourceTarget, obj: Object) -> None:
    """An update of a custom resource must have a resourceVersion."""
    if target.kind.is_builtin or obj["metadata"].get("resourceVersion"):
        return
    fault = FieldError("FieldValueInvalid", "metadata.resourceVersion", "must be specified for an update", 0)
    raise errors.invalid(target.kind.group, target.kind.plural, target.name, [fault])


def _patched(kind: Kind, old: Object, patch: PatchBody) -> Object:
    match patch.type:
        case PatchType.JSON:
            new = json_patch.apply(old, patch.body)
        case PatchType.MERGE:
            new = merge.apply(old, patch.body)
        case PatchType.STRATEGIC if kind.is_builtin:
            new = strategic.apply(merge_schema.of(kind), old, patch.body)
        case _:
            media_types = ", ".join(accepted.value for accepted in (PatchType.JSON, PatchType.MERGE, PatchType.APPLY))
            raise errors.unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: " + media_types
            )
    if not isinstance(new, dict):
        raise errors.bad_request(f"error decoding patch: {kind.kind} cannot become {new!r:.40}")
    return new


def _applicable(target: ResourceTarget, applied: Object) -> Object:
    """The part of an applied configuration that the endpoint reads: status, or all the rest."""
    if not target.kind.has_status:
        return applied
    if target.subresource == "status":
        fields = {"apiVersion", "kind", "metadata", "status"}
        identity = {name: value for name, value in applied["metadata"].items() if name in ("name", "namespace")}
        return {name: value for name, value in applied.items() if name in fields} | {"metadata": identity}
    return {name: value for name, value in applied.items() if name != "status"}


_POD_SUBRESOURCES = ("binding", "ephemeralcontainers", "resize")


def _merge_pod(subresource: str, new: Object, old: Object) -> Object:
    """What a subresource may change: a binding node, annotations and conditions of a pod, others
    its spec, or only its ephemeral containers.
    """
    metadata = {**old["metadata"]}
    if "managedFields" in new["metadata"]:
        metadata["managedFields"] = new["metadata"]["managedFields"]
    if subresource == "ephemeralcontainers":
        ephemeral = objects.spec(new).get("ephemeralContainers")
        spec = {name: value for name, value in objects.spec(old).items() if name != "ephemeralContainers"}
        return {**old, "metadata": metadata, "spec": spec | ({"ephemeralContainers": ephemeral} if ephemeral else {})}
    if subresource != "binding":
        return {**old, "metadata": metadata, "spec": new.get("spec") or {}}
    if "annotations" in new["metadata"]:
        metadata["annotations"] = new["metadata"]["annotations"]
    spec = {**objects.spec(old), "nodeName": objects.spec(new).get("nodeName", "")}
    return {**old, "metadata": metadata, "spec": spec, "status": objects.status(new)}


def _merge_endpoint(target: ResourceTarget, new: Object, old: Object) -> Object:
    """Take the fields that the endpoint may change from `new` and all others from `old`."""
    kind = target.kind
    if target.subresource in _POD_SUBRESOURCES:
        return _merge_pod(target.subresource, new, old)
    if target.subresource == "finalize":
        return {**old, "spec": new.get("spec") or {}}
    if target.subresource == "status":
        if kind.is_builtin:
            meta = {**new["metadata"], "ownerReferences": old["metadata"].get("ownerReferences")}
            meta = {name: value for name, value in meta.items() if value is not None}
        else:
            meta = dict(old["metadata"])
            if "managedFields" in new["metadata"]:
                meta["managedFields"] = new["metadata"]["managedFields"]
        merged = {**old, "metadata": meta}
        merged.pop("status", None)
        return merged | ({"status": new["status"]} if "status" in new else {})
    merged = {**new, "metadata": dict(new["metadata"])}
    if kind.has_status:
        merged.pop("status", None)
        if "status" in old:
            merged["status"] = old["status"]
    return merged
