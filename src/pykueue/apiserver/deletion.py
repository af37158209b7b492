"""Delete: at once, after a grace period, or when the last finalizer is removed."""

from typing import Any

import msgspec

from pykueue.api import errors, objects, times
from pykueue.api.rules import controlled_objects
from pykueue.api.scheme import Kind, Object
from pykueue.apiserver import metadata, trust, versions
from pykueue.apiserver.calls import DeleteCall, ResourceTarget
from pykueue.apiserver.context import Context, WriteOutcome
from pykueue.apiserver.store.rows import Stored
from pykueue.apiserver.writing import is_removable

ORPHAN = controlled_objects.ORPHAN
FOREGROUND = "foregroundDeletion"
_FINALIZER_OF_POLICY = {"Orphan": ORPHAN, "Foreground": FOREGROUND, "Background": ""}
_ORPHANS_BY_DEFAULT = {("batch", "Job"), ("", "ReplicationController")}
_ORPHAN_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


class DeleteHandler:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def delete(self, target: ResourceTarget, call: DeleteCall) -> WriteOutcome:
        existing = self._store.head(versions.key_of(target.kind, target.namespace, target.name))
        if existing is None:
            raise errors.not_found(target.kind.group, target.kind.plural, target.name)
        self._check_preconditions(target.kind, existing, call)
        kind = versions.storage_kind(self._context.scheme, target.kind)
        warnings = []
        if not call.propagation_policy and (kind.group, kind.kind) == ("batch", "Job"):
            warnings.append(_ORPHAN_WARNING)
        warnings += self._context.check_deletion(kind, existing.shared_or_decoded(), call, target.kind)
        obj = existing.decode()
        _set_policy_finalizer(kind, obj, self._without_orphans(kind, obj, call))
        self._set_deletion_timestamp(kind, obj, _grace_seconds(kind, obj, call))
        is_removed = is_removable(kind, obj)
        if is_removed:
            stored = existing if call.dry_run else self._store.remove(existing.key, _last_version(obj, existing))
        else:
            stored = self._put(existing, obj, call)
        return WriteOutcome(
            kind=target.kind,
            stored=stored,
            warnings=tuple(warnings),
            is_removed=is_removed,
            is_written=not call.dry_run,
        )

    def _without_orphans(self, kind: Kind, obj: Object, call: DeleteCall) -> DeleteCall:
        """A user's deletion of a job in a queue deletes its pods, too; 403 to keep them."""
        namespace = obj["metadata"].get("namespace", "")
        if not controlled_objects.keeps_quota(obj) or trust.is_trusted(
            call.user, kind, namespace, self._context.authorizer
        ):
            return call
        if call.propagation_policy == "Orphan":
            raise errors.forbidden(kind.group, kind.plural, objects.name(obj), controlled_objects.ORPHANING)
        return call if call.propagation_policy else msgspec.structs.replace(call, propagation_policy="Background")

    def _check_preconditions(self, kind: Kind, existing: Stored, call: DeleteCall) -> None:
        checks = (
            ("UID", call.precondition_uid, existing.meta.uid, "deleted and then recreated"),
            ("ResourceVersion", call.precondition_resource_version, str(existing.revision), "modified"),
        )
        for name, expected, actual, change in checks:
            if expected and expected != actual:
                why = (
                    f"the {name} in the precondition ({expected}) does not match the {name} in record ({actual}). "
                    f"The object might have been {change}"
                )
                raise errors.conflict(kind.group, kind.kind, existing.key.name, why)

    def _set_deletion_timestamp(self, kind: Kind, obj: Object, grace_seconds: int) -> None:
        """A second deletion may shorten the grace period, not extend it."""
        meta = obj["metadata"]
        if "deletionTimestamp" in meta:
            if grace_seconds >= meta.get("deletionGracePeriodSeconds", 0):
                return
        elif metadata.has_generation(kind):
            meta["generation"] = meta.get("generation", 0) + 1
        meta["deletionTimestamp"] = times.to_text(self._context.clock() + times.span(grace_seconds))
        meta["deletionGracePeriodSeconds"] = grace_seconds
        if kind.kind == "Namespace" and not kind.group:
            obj["status"] = {**objects.status(obj), "phase": "Terminating"}

    def _put(self, existing: Stored, obj: Object, call: DeleteCall) -> Stored:
        if obj == existing.decode():
            return existing
        if call.dry_run:
            return Stored.of(existing.key, 0, msgspec.json.encode(obj))
        stored = self._store.put(existing.key, obj)
        assert stored is not None
        return stored


def success(outcome: WriteOutcome) -> Object:
    """The Status with which a finished deletion is answered."""
    details: dict[str, Any] = {"name": outcome.stored.key.name, "kind": outcome.kind.plural}
    if outcome.kind.group:
        details["group"] = outcome.kind.group
    details["uid"] = outcome.stored.meta.uid
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _last_version(obj: Object, existing: Stored) -> Object:
    """The object that watchers get with the DELETED event.

    It has a deletionTimestamp only if an earlier version had one, as in Kubernetes.
    """
    return obj if existing.meta.deletion_timestamp else existing.decode()


def _set_policy_finalizer(kind: Kind, obj: Object, call: DeleteCall) -> None:
    """Set the finalizer of the propagation policy and remove that of an earlier one."""
    finalizers = objects.finalizers(obj)
    policy = call.propagation_policy
    if policy and policy not in _FINALIZER_OF_POLICY:
        fault = errors.FieldError(
            "FieldValueNotSupported",
            "propagationPolicy",
            'supported values: "Foreground", "Background", "Orphan", "nil"',
            policy,
        )
        raise errors.invalid("meta.k8s.io", "DeleteOptions", "", [fault])
    if kind.kind == "Event":  # the garbage collector ignores them, as in Kubernetes
        policy = "Background"
    if not policy:
        if {ORPHAN, FOREGROUND}.intersection(finalizers):
            return
        policy = "Orphan" if (kind.group, kind.kind) in _ORPHANS_BY_DEFAULT else "Background"
    finalizers = [finalizer for finalizer in finalizers if finalizer not in (ORPHAN, FOREGROUND)]
    if _FINALIZER_OF_POLICY[policy]:
        finalizers.append(_FINALIZER_OF_POLICY[policy])
    if finalizers:
        obj["metadata"]["finalizers"] = finalizers
    else:
        obj["metadata"].pop("finalizers", None)


def _grace_seconds(kind: Kind, obj: Object, call: DeleteCall) -> int:
    """The grace period, which only running pods have.

    The kubelet stops such a pod and then deletes it with a grace period of 0.
    """
    if kind.kind != "Pod" or kind.group:
        return 0
    spec = objects.spec(obj)
    if not spec.get("nodeName") or objects.status(obj).get("phase") in ("Succeeded", "Failed"):
        return 0
    seconds = call.grace_period_seconds
    if seconds is None:
        seconds = spec.get("terminationGracePeriodSeconds", 30)
    return max(int(seconds), 0)
