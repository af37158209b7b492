"""The end of a namespace: its contents are deleted, and when none is left the namespace goes."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Scheme
from pykueue.apiserver import metadata
from pykueue.apiserver.calls import DeleteCall, Patch, Target, User, Verbs, WriteCall
from pykueue.apiserver.context import Context
from pykueue.apiserver.controllers.garbage import kind_of
from pykueue.apiserver.controllers.worker import Worker
from pykueue.apiserver.namespaces import FINALIZER
from pykueue.apiserver.store.rows import Change, Key, Stored
from pykueue.apiserver.store.store import Store
from pykueue.kube.client import PatchType

USER = User(
    name="system:serviceaccount:kube-system:namespace-controller",
    groups=("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)
_CALL = WriteCall(user=USER, field_manager="kube-controller-manager")


class NamespaceTerminator:
    def __init__(self, verbs: Verbs, context: Context) -> None:
        self.worker: Worker[str] = Worker(self._look_at)
        self._verbs = verbs
        self._context = context
        self._store: Store = context.store
        self._scheme: Scheme = context.scheme
        self._ending: set[str] = set()
        for stored in self._store.select("", "namespaces"):
            self._notice(stored)
        self._store.listeners.append(self._hear)

    def _hear(self, changes: Sequence[Change]) -> None:
        for change in changes:
            key = change.now.key
            if (key.group, key.plural) == ("", "namespaces"):
                self._notice(change.now)
                if change.is_deleted:
                    self._ending.discard(key.name)
            elif change.is_deleted and key.namespace in self._ending:
                self.worker.add(key.namespace)

    def _notice(self, namespace: Stored) -> None:
        if namespace.meta.deletion_timestamp:
            self._ending.add(namespace.key.name)
            self.worker.add(namespace.key.name)

    async def _look_at(self, name: str) -> None:
        namespace = self._store.head(Key("", "namespaces", "", name))
        if namespace is None or not namespace.meta.deletion_timestamp:
            return
        for stored in self._contents(name):
            if not stored.meta.deletion_timestamp:
                await self._delete(stored)
        left = self._contents(name)
        if left:
            await self._report(namespace, left)
        else:
            await self._finalize(namespace)

    def _contents(self, name: str) -> list[Stored]:
        return [
            stored
            for group, plural in self._store.collections()
            for stored in self._store.select(group, plural, name)
            if self._store.head(stored.key) is not None
        ]

    async def _delete(self, stored: Stored) -> None:
        kind = kind_of(self._scheme, stored.key)
        target = Target(kind=kind, namespace=stored.key.namespace, name=stored.key.name)
        try:
            await self._verbs.delete(target, DeleteCall(user=USER, propagation_policy="Background"))
        except ApiError as error:
            if error.code != 404:
                raise

    async def _report(self, namespace: Stored, left: list[Stored]) -> None:
        conditions = _conditions(left, metadata.timestamp(self._context.clock()))
        before = (namespace.decode().get("status") or {}).get("conditions") or ()
        if [_without_time(each) for each in before] == [_without_time(each) for each in conditions]:
            return
        await self._patch(namespace, {"status": {"conditions": conditions}}, "status")

    async def _finalize(self, namespace: Stored) -> None:
        spec = namespace.decode().get("spec") or {}
        finalizers = [each for each in spec.get("finalizers") or () if each != FINALIZER]
        await self._patch(namespace, {"spec": {"finalizers": finalizers}}, "finalize")

    async def _patch(self, namespace: Stored, body: dict[str, Any], subresource: str) -> None:
        kind = kind_of(self._scheme, namespace.key)
        target = Target(kind=kind, name=namespace.key.name, subresource=subresource)
        try:
            await self._verbs.patch(target, Patch(type=PatchType.MERGE, body=body), _CALL)
        except ApiError as error:
            if error.code != 404:
                raise


def _without_time(condition: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in condition.items() if name != "lastTransitionTime"}


def _conditions(left: list[Stored], now: str) -> list[dict[str, Any]]:
    """As the namespace controller words what is still there."""
    resources = Counter(f"{each.key.plural}.{each.key.group}" for each in left)
    finalizers = Counter(finalizer for each in left for finalizer in each.meta.finalizers or ())
    remaining = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(resources.items()))
    holding = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
    rows = [
        ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        ("NamespaceContentRemaining", "True", "SomeResourcesRemain", f"Some resources are remaining: {remaining}"),
        (
            "NamespaceFinalizersRemaining",
            "True" if finalizers else "False",
            "SomeFinalizersRemain" if finalizers else "ContentHasNoFinalizers",
            f"Some content in the namespace has finalizers remaining: {holding}"
            if finalizers
            else "All content-preserving finalizers finished",
        ),
    ]
    names = ("type", "status", "reason", "message")
    return [{**dict(zip(names, row, strict=True)), "lastTransitionTime": now} for row in rows]
