"""The garbage collector: deletes objects whose owners are deleted, as Kubernetes does.

A dependent is deleted when none of its owners exists. An owner that is deleted in the foreground
waits for its blocking dependents. Before an owner is deleted with the policy Orphan, its owner
reference is removed from its dependents. An owner is cluster-scoped or in the namespace of its
dependent: a reference to any other object is one to an absent owner, and holds nothing up. Events
are ignored, as in Kubernetes.
"""

import contextlib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence

from pykueue.api import entropy, objects, times
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Kind, Object, Scheme
from pykueue.api.times import SECOND_NS
from pykueue.apiserver import versions
from pykueue.apiserver.calls import (
    DeleteCall,
    PatchBody,
    ResourceTarget,
    UserInfo,
    Verbs,
    WriteCall,
)
from pykueue.apiserver.context import Context
from pykueue.apiserver.deletion import FOREGROUND, ORPHAN
from pykueue.apiserver.slices import Slices
from pykueue.apiserver.store.rows import OwnerReference, StoreChange, Stored, StoreKey
from pykueue.kube.client import PatchType
from pykueue.kube.clock import WallClock
from pykueue.kube.controller.work_queue import WorkQueue

USER = UserInfo(
    name="system:serviceaccount:kube-system:generic-garbage-collector",
    groups=("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)


RETRY_NS = SECOND_NS
_WORKERS = 64
_DEPENDENTS_PER_TURN = 64


class NotServedError(Exception):
    """The kind of a stored object is not served, or not yet."""


class GarbageCollector:
    def __init__(self, verbs: Verbs, context: Context) -> None:
        store = context.store
        self.queue: WorkQueue[StoreKey] = WorkQueue("garbage", WallClock())
        self._verbs = verbs
        self._store = store
        self._scheme = context.scheme
        self._clock = context.clock
        self._slices = Slices()
        self._key_by_uid: dict[str, StoreKey] = {}
        self._dependents: dict[str, dict[StoreKey, None]] = defaultdict(dict)
        for group, plural in store.collections():
            for stored in store.select(group, plural):
                if not _is_ignored(stored):
                    self._index(stored)
        for key in self._key_by_uid.values():
            self._enqueue_if_due(store.get(key))
        store.listeners.append(self._on_changes)

    def _on_changes(self, changes: Sequence[StoreChange]) -> None:
        for change in changes:
            if _is_ignored(change.now):
                continue
            if change.before is not None:
                self._unindex(change.before)
            if change.is_deleted:
                self._on_deleted(change.now)
            else:
                self._index(change.now)
                self._enqueue_if_due(change.now)

    # The index of owners

    def _index(self, stored: Stored) -> None:
        self._key_by_uid[stored.meta.uid] = stored.key
        for owner in stored.meta.owner_references or ():
            self._dependents[owner.uid][stored.key] = None

    def _unindex(self, stored: Stored) -> None:
        for owner in stored.meta.owner_references or ():
            dependents = self._dependents.get(owner.uid)
            if dependents is not None:
                dependents.pop(stored.key, None)
                if not dependents:
                    del self._dependents[owner.uid]

    def _enqueue_if_due(self, stored: Stored | None) -> None:
        """Enqueue objects with a missing or waiting owner, and those with a finalizer of ours."""
        if stored is None:
            return
        for reference in stored.meta.owner_references or ():
            owner = self._owner(stored, reference)
            is_due = self._is_deleted_in_foreground(owner) if owner else self._is_absent(stored, reference)
            if is_due:
                self.queue.add(stored.key)
                return
        if stored.meta.deletion_timestamp and {ORPHAN, FOREGROUND}.intersection(stored.meta.finalizers or ()):
            self.queue.add(stored.key)

    def _on_deleted(self, stored: Stored) -> None:
        """Enqueue the dependents, and the owners that may have waited for this object."""
        if self._key_by_uid.get(stored.meta.uid) == stored.key:
            del self._key_by_uid[stored.meta.uid]
        for key in self._dependents.get(stored.meta.uid, ()):
            self.queue.add(key)
        for reference in stored.meta.owner_references or ():
            if owner_key := self._owner(stored, reference):
                self.queue.add(owner_key)

    def _owner(self, dependent: Stored, reference: OwnerReference) -> StoreKey | None:
        """The owner of a reference; None if it does not exist where the dependent may have one."""
        key = self._key_by_uid.get(reference.uid)
        if key is None or key.namespace not in ("", dependent.key.namespace):
            return None
        kind = self._scheme.for_kind(reference.api_version, reference.kind)
        is_kind = kind is None or (versions.storage_group(kind), kind.plural) == (key.group, key.plural)
        return key if is_kind and key.name == reference.name else None

    def _dependents_of(self, owner: Stored) -> list[Stored]:
        """The objects with a valid reference to the owner."""
        dependents = [self._store.head(key) for key in self._dependents.get(owner.meta.uid, ())]
        return [
            dependent for dependent in dependents if dependent is not None and any(self._references(dependent, owner))
        ]

    def _references(self, dependent: Stored, owner: Stored) -> Iterator[OwnerReference]:
        for reference in dependent.meta.owner_references or ():
            if self._owner(dependent, reference) == owner.key:
                yield reference

    def _is_absent(self, dependent: Stored, reference: OwnerReference) -> bool:
        """Whether the owner does not exist, although its kind is served and can be an owner here.

        A cluster-scoped object cannot have an owner in a namespace; it is never collected for it.
        """
        kind = self._scheme.for_kind(reference.api_version, reference.kind)
        if kind is None or (kind.namespaced and not dependent.key.namespace):
            return False
        return self._owner(dependent, reference) is None

    def _waits_for_dependents(self, dependent: Stored, reference: OwnerReference) -> bool:
        """Whether the owner is being deleted in the foreground."""
        key = self._owner(dependent, reference)
        return key is not None and self._is_deleted_in_foreground(key)

    def _is_deleted_in_foreground(self, key: StoreKey) -> bool:
        stored = self._store.head(key)
        return stored is not None and _is_deleted_in_foreground(stored)

    # Reconcile

    async def run(self) -> None:
        await self.queue.run(self._reconcile_or_retry, workers=_WORKERS)

    async def _reconcile_or_retry(self, key: StoreKey) -> int:
        try:
            await self._reconcile(key)
        except NotServedError:
            return RETRY_NS
        return 0

    async def _reconcile(self, key: StoreKey) -> None:
        stored = self._store.head(key)
        if stored is None:
            return
        if stored.meta.deletion_timestamp:
            finalizers = stored.meta.finalizers or ()
            if ORPHAN in finalizers:
                await self._orphan_dependents(stored)
                return
            if FOREGROUND in finalizers:
                await self._finish_foreground_deletion(stored)
                return
        await self._delete_if_unowned(stored)

    async def _delete_if_unowned(self, stored: Stored) -> None:
        owners = stored.meta.owner_references or ()
        absent = [owner for owner in owners if self._is_absent(stored, owner)]
        waiting = [owner for owner in owners if self._waits_for_dependents(stored, owner)]
        remaining = list(set(owners).difference(absent, waiting))
        if not absent and not waiting:
            return
        for owner in absent:
            if owner.uid in self._key_by_uid:
                await self._report_invalid_namespace(stored, owner)
        if remaining:
            await self._set_owners(stored, remaining)
        elif not stored.meta.deletion_timestamp:
            dependents = self._dependents_of(stored) if waiting else []
            if any(map(_is_deleted_in_foreground, dependents)):
                await self._unblock_owners(stored)
            await self._delete(stored, foreground=bool(dependents))

    async def _unblock_owners(self, stored: Stored) -> None:
        """Break a circle: a dependent waits for this object, which blocks its own owners."""
        references = objects.owner_references(stored.decode())
        unblocked = [
            {**reference, "blockOwnerDeletion": False} if reference.get("blockOwnerDeletion") else reference
            for reference in references
        ]
        if unblocked != references:
            await self._patch(stored, {"metadata": {"ownerReferences": unblocked}})

    async def _report_invalid_namespace(self, dependent: Stored, owner: OwnerReference) -> None:
        """Record the event of Kubernetes about an owner that is in another namespace."""
        kind = self._scheme.for_kind("v1", "Event")
        if kind is None:
            return
        namespace, now = dependent.key.namespace or "default", times.to_text(self._clock())
        involved = dependent.decode()
        reference = f"{owner.api_version}/{owner.kind}, namespace: {namespace}, name: {owner.name}, uid: {owner.uid}"
        event: Object = {
            "metadata": {"name": f"{dependent.key.name}.{entropy.hex_token(16)}", "namespace": namespace},
            "involvedObject": {
                **{field: involved.get(field, "") for field in ("apiVersion", "kind")},
                **{field: involved["metadata"].get(field, "") for field in ("name", "namespace", "uid")},
            },
            "reason": "OwnerRefInvalidNamespace",
            "message": f"ownerRef [{reference}] does not exist in namespace {json.dumps(namespace)}",
            "source": {"component": "garbage-collector-controller"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": "Warning",
        }
        with contextlib.suppress(ApiError):  # the namespace may be deleted
            await self._verbs.create(ResourceTarget(kind=kind, namespace=namespace), event, WriteCall())

    async def _delete(self, stored: Stored, *, foreground: bool) -> None:
        call = DeleteCall(
            user=USER,
            propagation_policy="Foreground" if foreground else _policy(stored),
            precondition_uid=stored.meta.uid,
        )
        try:
            await self._verbs.delete(self._target(stored.key), call)
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    async def _finish_foreground_deletion(self, owner: Stored) -> None:
        is_blocked = False
        keys = list(self._dependents.get(owner.meta.uid, ()))
        for start in range(0, len(keys), _DEPENDENTS_PER_TURN):
            if start:
                await self._slices.turn(owner.key.namespace)
            for dependent in filter(None, map(self._store.head, keys[start : start + _DEPENDENTS_PER_TURN])):
                for reference in self._references(dependent, owner):
                    is_blocked |= bool(reference.block_owner_deletion)
                    self.queue.add(dependent.key)
        if not is_blocked:
            await self._remove_finalizer(owner, FOREGROUND)

    async def _orphan_dependents(self, owner: Stored) -> None:
        for dependent in self._dependents_of(owner):
            references = dependent.meta.owner_references or ()
            others = [reference for reference in references if reference.uid != owner.meta.uid]
            await self._set_owners(dependent, others)
        await self._remove_finalizer(owner, ORPHAN)

    async def _set_owners(self, dependent: Stored, owners: Sequence[OwnerReference]) -> None:
        """Remove all other owner references of the dependent."""
        uids = {owner.uid for owner in owners}
        references = objects.owner_references(dependent.decode())
        remaining = [reference for reference in references if reference.get("uid") in uids]
        await self._patch(dependent, {"metadata": {"ownerReferences": remaining or None}})

    async def _remove_finalizer(self, stored: Stored, finalizer: str) -> None:
        remaining = [name for name in stored.meta.finalizers or () if name != finalizer]
        version = str(stored.revision)
        await self._patch(stored, {"metadata": {"resourceVersion": version, "finalizers": remaining or None}})

    async def _patch(self, stored: Stored, body: Object) -> None:
        call = WriteCall(user=USER, field_manager="kube-controller-manager", is_component=True)
        try:
            await self._verbs.patch(self._target(stored.key), PatchBody(type=PatchType.MERGE, body=body), call)
        except ApiError as error:
            if error.code == 409:
                self.queue.add(stored.key)
            elif error.code != 404:
                raise

    def _target(self, key: StoreKey) -> ResourceTarget:
        return ResourceTarget(kind=kind_of(self._scheme, key), namespace=key.namespace, name=key.name)


def _is_ignored(stored: Stored) -> bool:
    return stored.key.plural == "events" and not stored.key.group


def _is_deleted_in_foreground(stored: Stored) -> bool:
    return bool(stored.meta.deletion_timestamp) and FOREGROUND in (stored.meta.finalizers or ())


def _policy(stored: Stored) -> str:
    """The propagation policy of the deletion that has already started."""
    finalizers = stored.meta.finalizers or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def kind_of(scheme: Scheme, key: StoreKey) -> Kind:
    """The kind of a stored object, in its storage version."""
    for kind in scheme:
        if (kind.group, kind.plural) == (key.group, key.plural) and kind.storage_version in ("", kind.version):
            return kind
    raise NotServedError(f"{key.plural}.{key.group} is stored but not served")
