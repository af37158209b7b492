"""Owner references: what is owned goes with its owners, in the background, before them, or not at all.

A dependent whose owners are all gone is deleted. An owner that is deleted in the foreground waits for the dependents
that block it; one that is deleted as orphan lets go of its dependents first.
"""

from collections import defaultdict
from collections.abc import Sequence

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Kind, Object, Scheme
from pykueue.apiserver.calls import DeleteCall, Patch, Target, User, Verbs, WriteCall
from pykueue.apiserver.controllers.worker import NotYetError, Worker
from pykueue.apiserver.deletion import FOREGROUND, ORPHAN
from pykueue.apiserver.store.rows import Change, Key, OwnerReference, Stored
from pykueue.apiserver.store.store import Store
from pykueue.kube.client import PatchType

USER = User(
    name="system:serviceaccount:kube-system:generic-garbage-collector",
    groups=("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)


class GarbageCollector:
    def __init__(self, verbs: Verbs, store: Store, scheme: Scheme) -> None:
        self.worker: Worker[Key] = Worker(self._look_at)
        self._verbs = verbs
        self._store = store
        self._scheme = scheme
        self._alive: dict[str, Key] = {}
        self._dependents: dict[str, dict[Key, None]] = defaultdict(dict)
        for group, plural in store.collections():
            for stored in store.select(group, plural):
                self._learn(stored)
        for key in self._alive.values():
            self._notice(store.get(key))
        store.listeners.append(self._hear)

    def _hear(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.before is not None:
                self._forget(change.before)
            if change.is_deleted:
                self._mourn(change.now)
            else:
                self._learn(change.now)
                self._notice(change.now)

    # What we know

    def _learn(self, stored: Stored) -> None:
        self._alive[stored.meta.uid] = stored.key
        for owner in stored.meta.owner_references or ():
            self._dependents[owner.uid][stored.key] = None

    def _forget(self, stored: Stored) -> None:
        for owner in stored.meta.owner_references or ():
            dependents = self._dependents.get(owner.uid)
            if dependents is not None:
                dependents.pop(stored.key, None)
                if not dependents:
                    del self._dependents[owner.uid]

    def _notice(self, stored: Stored | None) -> None:
        """Someone to look at: owned by the absent, or leaving with conditions."""
        if stored is None:
            return
        owners = stored.meta.owner_references or ()
        if any(owner.uid not in self._alive or self._is_waiting(owner) for owner in owners) or (
            stored.meta.deletion_timestamp and {ORPHAN, FOREGROUND}.intersection(stored.meta.finalizers or ())
        ):
            self.worker.add(stored.key)

    def _mourn(self, stored: Stored) -> None:
        """Its dependents may have to follow; an owner that waited for it may go on."""
        if self._alive.get(stored.meta.uid) == stored.key:
            del self._alive[stored.meta.uid]
        for key in self._dependents.get(stored.meta.uid, ()):
            self.worker.add(key)
        for owner in stored.meta.owner_references or ():
            if owner.uid in self._alive:
                self.worker.add(self._alive[owner.uid])

    def _is_waiting(self, owner: OwnerReference) -> bool:
        """The owner is being deleted in the foreground."""
        key = self._alive.get(owner.uid)
        stored = self._store.head(key) if key else None
        return bool(stored and stored.meta.deletion_timestamp and FOREGROUND in (stored.meta.finalizers or ()))

    # What we do

    async def _look_at(self, key: Key) -> None:
        stored = self._store.head(key)
        if stored is None:
            return
        if stored.meta.deletion_timestamp:
            finalizers = stored.meta.finalizers or ()
            if ORPHAN in finalizers:
                await self._release_dependents(stored)
                return
            if FOREGROUND in finalizers:
                await self._wait_for_dependents(stored)
                return
        await self._judge(stored)

    async def _judge(self, stored: Stored) -> None:
        owners = stored.meta.owner_references or ()
        absent = [owner for owner in owners if owner.uid not in self._alive and self._is_served(owner)]
        waiting = [owner for owner in owners if self._is_waiting(owner)]
        solid = [owner for owner in owners if owner not in absent and owner not in waiting]
        if not absent and not waiting:
            return
        if solid:
            await self._keep_owners(stored, solid)
        elif not stored.meta.deletion_timestamp:
            await self._delete(stored, foreground=bool(waiting) and bool(self._dependents.get(stored.meta.uid)))

    def _is_served(self, owner: OwnerReference) -> bool:
        """Absence can only be judged of kinds that we know."""
        return self._scheme.for_kind(owner.api_version, owner.kind) is not None

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

    async def _wait_for_dependents(self, owner: Stored) -> None:
        blocking = False
        for key in list(self._dependents.get(owner.meta.uid, ())):
            dependent = self._store.head(key)
            references = dependent.meta.owner_references or () if dependent else ()
            if any(each.uid == owner.meta.uid and each.block_owner_deletion for each in references):
                blocking = True
            self.worker.add(key)
        if not blocking:
            await self._drop_finalizer(owner, FOREGROUND)

    async def _release_dependents(self, owner: Stored) -> None:
        for key in list(self._dependents.get(owner.meta.uid, ())):
            dependent = self._store.head(key)
            if dependent is not None:
                others = [each for each in dependent.meta.owner_references or () if each.uid != owner.meta.uid]
                await self._keep_owners(dependent, others)
        await self._drop_finalizer(owner, ORPHAN)

    async def _keep_owners(self, dependent: Stored, kept: Sequence[OwnerReference]) -> None:
        uids = {owner.uid for owner in kept}
        references = dependent.decode()["metadata"].get("ownerReferences") or ()
        left = [each for each in references if each.get("uid") in uids]
        await self._patch(dependent, {"metadata": {"ownerReferences": left or None}})

    async def _drop_finalizer(self, stored: Stored, finalizer: str) -> None:
        left = [each for each in stored.meta.finalizers or () if each != finalizer]
        version = str(stored.revision)
        await self._patch(stored, {"metadata": {"resourceVersion": version, "finalizers": left or None}})

    async def _patch(self, stored: Stored, body: Object) -> None:
        call = WriteCall(user=USER, field_manager="kube-controller-manager")
        try:
            await self._verbs.patch(self._target(stored.key), Patch(type=PatchType.MERGE, body=body), call)
        except ApiError as error:
            if error.code == 409:
                self.worker.add(stored.key)
            elif error.code != 404:
                raise

    def _target(self, key: Key) -> Target:
        return Target(kind=kind_of(self._scheme, key), namespace=key.namespace, name=key.name)


def _policy(stored: Stored) -> str:
    """A deletion that someone began with a policy goes on with it."""
    finalizers = stored.meta.finalizers or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def kind_of(scheme: Scheme, key: Key) -> Kind:
    """The kind in its storage version of what is stored under a key."""
    for kind in scheme:
        if (kind.group, kind.plural) == (key.group, key.plural) and kind.storage_version in ("", kind.version):
            return kind
    raise NotYetError(f"{key.plural}.{key.group} is stored but not served")
