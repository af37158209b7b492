"""Delete: at once, after a grace period, or when finalizers and dependents allow it."""

from datetime import timedelta
from typing import Any

import msgspec

from pykueue.api import errors
from pykueue.api.scheme import Kind, Object
from pykueue.apiserver import metadata, versions
from pykueue.apiserver.calls import DeleteCall, Target
from pykueue.apiserver.context import Context, Outcome
from pykueue.apiserver.store.rows import Stored
from pykueue.apiserver.writing import is_ready_to_go

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_FINALIZER_OF_POLICY = {"Orphan": ORPHAN, "Foreground": FOREGROUND, "Background": ""}
_ORPHANS_BY_DEFAULT = {("batch", "Job"), ("", "ReplicationController")}
_ORPHAN_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


class Deletion:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def delete(self, target: Target, call: DeleteCall) -> Outcome:
        existing = self._store.head(versions.key_of(target.kind, target.namespace, target.name))
        if existing is None:
            raise errors.not_found(target.kind.group, target.kind.plural, target.name)
        self._check_preconditions(target.kind, existing, call)
        kind = versions.storage_kind(self._context.scheme, target.kind)
        warnings = []
        if not call.propagation_policy and (kind.group, kind.kind) == ("batch", "Job"):
            warnings.append(_ORPHAN_WARNING)
        obj = existing.decode()
        _set_policy_finalizer(kind, obj, call)
        self._mark(kind, obj, _grace_seconds(kind, obj, call))
        is_gone = is_ready_to_go(kind, obj)
        if is_gone:
            stored = existing if call.dry_run else self._store.remove(existing.key, _unmarked(obj, existing))
        else:
            stored = self._kept(existing, obj, call)
        return Outcome(
            kind=target.kind, stored=stored, warnings=tuple(warnings), is_gone=is_gone, is_written=not call.dry_run
        )

    def _check_preconditions(self, kind: Kind, existing: Stored, call: DeleteCall) -> None:
        checks = (
            ("UID", call.precondition_uid, existing.meta.uid, "deleted and then recreated"),
            ("ResourceVersion", call.precondition_resource_version, str(existing.revision), "modified"),
        )
        for name, wanted, actual, happened in checks:
            if wanted and wanted != actual:
                why = (
                    f"the {name} in the precondition ({wanted}) does not match the {name} in record ({actual}). "
                    f"The object might have been {happened}"
                )
                raise errors.conflict(kind.group, kind.kind, existing.key.name, why)

    def _mark(self, kind: Kind, obj: Object, grace_seconds: int) -> None:
        """Set when the object is to be gone. A second deletion may shorten the time, not prolong it."""
        given = obj["metadata"]
        if "deletionTimestamp" in given:
            if grace_seconds >= given.get("deletionGracePeriodSeconds", 0):
                return
        elif metadata.has_generation(kind):
            given["generation"] = given.get("generation", 0) + 1
        given["deletionTimestamp"] = metadata.timestamp(self._context.clock() + timedelta(seconds=grace_seconds))
        given["deletionGracePeriodSeconds"] = grace_seconds
        if kind.kind == "Namespace" and not kind.group:
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}

    def _kept(self, existing: Stored, obj: Object, call: DeleteCall) -> Stored:
        if obj == existing.decode():
            return existing
        if call.dry_run:
            return Stored.of(existing.key, 0, msgspec.json.encode(obj))
        stored = self._store.put(existing.key, obj)
        assert stored is not None
        return stored


def success(outcome: Outcome) -> Object:
    """The Status that answers a deletion which is over."""
    details: dict[str, Any] = {"name": outcome.stored.key.name, "kind": outcome.kind.plural}
    if outcome.kind.group:
        details["group"] = outcome.kind.group
    details["uid"] = outcome.stored.meta.uid
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _unmarked(obj: Object, existing: Stored) -> Object:
    """What goes at once is shown to watchers as it was; marks remain only on what was seen with them."""
    return obj if existing.meta.deletion_timestamp else existing.decode()


def _set_policy_finalizer(kind: Kind, obj: Object, call: DeleteCall) -> None:
    """The last policy asked for holds: its finalizer is set, the other one is taken away."""
    given = obj["metadata"]
    finalizers = list(given.get("finalizers") or ())
    policy = call.propagation_policy
    if policy and policy not in _FINALIZER_OF_POLICY:
        fault = errors.FieldError(
            "FieldValueNotSupported",
            "propagationPolicy",
            'supported values: "Foreground", "Background", "Orphan", "nil"',
            policy,
        )
        raise errors.invalid("meta.k8s.io", "DeleteOptions", "", [fault])
    if not policy:
        if {ORPHAN, FOREGROUND}.intersection(finalizers):
            return
        policy = "Orphan" if (kind.group, kind.kind) in _ORPHANS_BY_DEFAULT else "Background"
    finalizers = [each for each in finalizers if each not in (ORPHAN, FOREGROUND)]
    if _FINALIZER_OF_POLICY[policy]:
        finalizers.append(_FINALIZER_OF_POLICY[policy])
    if finalizers:
        given["finalizers"] = finalizers
    else:
        given.pop("finalizers", None)


def _grace_seconds(kind: Kind, obj: Object, call: DeleteCall) -> int:
    """Only pods linger: a running one is stopped by its node, which then deletes it with no grace."""
    if kind.kind != "Pod" or kind.group:
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    asked = call.grace_period_seconds
    wanted = asked if asked is not None else spec.get("terminationGracePeriodSeconds", 30)
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    return max(int(wanted), 0)
