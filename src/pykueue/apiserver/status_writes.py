"""Patches of a status by this process's own controllers, by a shorter way than other writes.

Statuses are a third of all writes. Such a patch changes nothing but the status, and its writer
keeps the rules of statuses (`ServerAdmission.is_trusted`), so that only types are to be checked.
`WriteHandler` takes the ordinary way for everything that is different here, and while a webhook or
a policy may have something to say.
"""

from typing import Any

from pykueue.api import fast_validation, schema
from pykueue.api.scheme import Kind, Object
from pykueue.apiserver import metadata, versions
from pykueue.apiserver.calls import PatchBody, ResourceTarget
from pykueue.apiserver.patches import managed_fields, merge, merge_schema, strategic
from pykueue.apiserver.patches.managed_fields import Writer
from pykueue.apiserver.store.rows import Stored
from pykueue.kube.client import PatchType

_UNCHANGED = frozenset({"metadata", "spec", "apiVersion", "kind"})
_GUARD = {"resourceVersion"}


def patched(target: ResourceTarget, existing: Stored, patch: PatchBody, writer: Writer) -> Object | Stored | None:
    """The object with the new status; None if it takes the ordinary way.

    It shares all other fields with the stored object, which is the result if the patch changes
    nothing. ApiError 409 if the patch is for another version.
    """
    kind, body = target.kind, patch.body
    if not _is_simple(kind, patch):
        return None
    old = existing.shared_or_decoded()
    if body.get("metadata"):
        metadata.check_update_preconditions(kind, body, old)
    before = old.get("status")
    status = _merged(kind, before, patch)
    if status == before:
        return existing
    obj = {**old, "metadata": dict(old["metadata"]), "status": status}
    if not isinstance(status, dict) or not fast_validation.is_certainly_valid(kind.schema, obj, _UNCHANGED):
        return None
    schema.fill_in_defaults(kind.schema, obj, _UNCHANGED)
    managers = managed_fields.after_update(
        merge_schema.of(kind),
        _status_alone(old),
        _status_alone(obj),
        managers=managed_fields.read_text(existing.managed()),
        writer=writer,
    )
    managed_fields.write(obj, managers)
    return obj


def _is_simple(kind: Kind, patch: PatchBody) -> bool:
    """Whether the patch has a status, and of the metadata only what guards it."""
    is_merge = patch.type is PatchType.MERGE or (patch.type is PatchType.STRATEGIC and kind.is_builtin)
    if not is_merge or not versions.is_storage_version(kind) or not isinstance(patch.body, dict):
        return False
    guards = patch.body.get("metadata") or {}
    return (
        isinstance(patch.body.get("status"), dict)
        and patch.body.keys() <= {"metadata", "status"}
        and isinstance(guards, dict)
        and guards.keys() <= _GUARD
    )


def _merged(kind: Kind, status: Any, patch: PatchBody) -> Any:
    change = {"status": patch.body["status"]}
    old: Object = {} if status is None else {"status": status}
    if patch.type is PatchType.MERGE:
        return merge.apply(old, change).get("status")
    return strategic.apply(merge_schema.of(kind), old, change).get("status")


def _status_alone(obj: Object) -> Object:
    return {"metadata": {}, "status": obj["status"]} if "status" in obj else {"metadata": {}}
