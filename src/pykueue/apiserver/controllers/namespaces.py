"""Deletes the contents of a terminating namespace, and then removes its finalizer."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pykueue.api import objects, times
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Scheme
from pykueue.apiserver.calls import (
    DeleteCall,
    PatchBody,
    ResourceTarget,
    UserInfo,
    Verbs,
    WriteCall,
)
from pykueue.apiserver.context import Context
from pykueue.apiserver.controllers.garbage_collector import RETRY_NS, NotServedError, kind_of
from pykueue.apiserver.namespace_lifecycle import FINALIZER
from pykueue.apiserver.store.rows import StoreChange, Stored, StoreKey
from pykueue.apiserver.store.store import Store
from pykueue.kube.client import PatchType
from pykueue.kube.clock import WallClock
from pykueue.kube.controller.work_queue import WorkQueue

USER = UserInfo(
    name="system:serviceaccount:kube-system:namespace-controller",
    groups=("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)
_CALL = WriteCall(user=USER, field_manager="kube-controller-manager")


class NamespaceTerminator:
    def __init__(self, verbs: Verbs, context: Context) -> None:
        self.queue: WorkQueue[str] = WorkQueue("namespace", WallClock())
        self._verbs = verbs
        self._context = context
        self._store: Store = context.store
        self._scheme: Scheme = context.scheme
        self._terminating: set[str] = set()
        for stored in self._store.select("", "namespaces"):
            self._enqueue_if_terminating(stored)
        self._store.listeners.append(self._on_changes)

    def _on_changes(self, changes: Sequence[StoreChange]) -> None:
        for change in changes:
            key = change.now.key
            if (key.group, key.plural) == ("", "namespaces"):
                self._enqueue_if_terminating(change.now)
                if change.is_deleted:
                    self._terminating.discard(key.name)
            elif change.is_deleted and key.namespace in self._terminating:
                self.queue.add(key.namespace)

    def _enqueue_if_terminating(self, namespace: Stored) -> None:
        if namespace.meta.deletion_timestamp:
            self._terminating.add(namespace.key.name)
            self.queue.add(namespace.key.name)

    async def run(self) -> None:
        await self.queue.run(self._reconcile_or_retry)

    async def _reconcile_or_retry(self, name: str) -> int:
        try:
            await self._reconcile(name)
        except NotServedError:
            return RETRY_NS
        return 0

    async def _reconcile(self, name: str) -> None:
        namespace = self._store.head(StoreKey("", "namespaces", "", name))
        if namespace is None or not namespace.meta.deletion_timestamp:
            return
        for stored in self._contents(name):
            if not stored.meta.deletion_timestamp:
                await self._delete(stored)
        remaining = self._contents(name)
        if remaining:
            await self._update_conditions(namespace, remaining)
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
        target = ResourceTarget(kind=kind, namespace=stored.key.namespace, name=stored.key.name)
        try:
            await self._verbs.delete(target, DeleteCall(user=USER, propagation_policy="Background"))
        except ApiError as error:
            if error.code != 404:
                raise

    async def _update_conditions(self, namespace: Stored, remaining: list[Stored]) -> None:
        conditions = _conditions(remaining, times.to_text(self._context.clock()))
        before = objects.nested_list(namespace.decode(), "status", "conditions")
        if list(map(_without_time, before)) == list(map(_without_time, conditions)):
            return
        await self._patch(namespace, {"status": {"conditions": conditions}}, "status")

    async def _finalize(self, namespace: Stored) -> None:
        finalizers = objects.nested_list(namespace.decode(), "spec", "finalizers")
        remaining = [name for name in finalizers if name != FINALIZER]
        await self._patch(namespace, {"spec": {"finalizers": remaining}}, "finalize")

    async def _patch(self, namespace: Stored, body: dict[str, Any], subresource: str) -> None:
        kind = kind_of(self._scheme, namespace.key)
        target = ResourceTarget(kind=kind, name=namespace.key.name, subresource=subresource)
        try:
            await self._verbs.patch(target, PatchBody(type=PatchType.MERGE, body=body), _CALL)
        except ApiError as error:
            if error.code != 404:
                raise


def _without_time(condition: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in condition.items() if name != "lastTransitionTime"}


def _conditions(remaining: list[Stored], now: str) -> list[dict[str, Any]]:
    """The conditions that Kubernetes' namespace controller sets while objects remain."""
    resources = Counter(f"{stored.key.plural}.{stored.key.group}" for stored in remaining)
    finalizers = Counter(finalizer for stored in remaining for finalizer in stored.meta.finalizers or ())
    resource_counts = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(resources.items()))
    finalizer_counts = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
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
        (
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            f"Some resources are remaining: {resource_counts}",
        ),
        (
            "NamespaceFinalizersRemaining",
            "True" if finalizers else "False",
            "SomeFinalizersRemain" if finalizers else "ContentHasNoFinalizers",
            f"Some content in the namespace has finalizers remaining: {finalizer_counts}"
            if finalizers
            else "All content-preserving finalizers finished",
        ),
    ]
    names = ("type", "status", "reason", "message")
    return [{**dict(zip(names, row, strict=True)), "lastTransitionTime": now} for row in rows]
