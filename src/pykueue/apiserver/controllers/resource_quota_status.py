"""Keeps `status.hard` and `status.used` of ResourceQuotas, as Kubernetes does."""

from collections.abc import Sequence

from pykueue.api import objects, resource_lists
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.apiserver.calls import PatchBody, ResourceTarget, UserInfo, Verbs, WriteCall
from pykueue.apiserver.context import Context
from pykueue.apiserver.plugins import quota_usage
from pykueue.apiserver.plugins.resource_quota import QuotaUsage, UncountedError
from pykueue.apiserver.slices import Slices
from pykueue.apiserver.store.rows import StoreChange, Stored
from pykueue.kube.client import PatchType
from pykueue.kube.clock import WallClock
from pykueue.kube.controller.work_queue import WorkQueue

_QUOTAS = ("", "resourcequotas")
_PAUSE_NS = SECOND_NS // 10
"""Changes within this time are counted together."""
_CALL = WriteCall(
    user=UserInfo(
        name="system:serviceaccount:kube-system:resourcequota-controller",
        groups=("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
    ),
    field_manager="kube-controller-manager",
)


class ResourceQuotaStatus:
    def __init__(self, verbs: Verbs, context: Context, usage: QuotaUsage, slices: Slices) -> None:
        self.queue: WorkQueue[str] = WorkQueue("resource quota", WallClock())
        self._verbs = verbs
        self._context = context
        self._usage = usage
        self._slices = slices
        self._counted: dict[str, set[quota_usage.GroupPlural]] = {}
        """The kinds that the quotas of a namespace count, by namespace."""
        for stored in context.store.select(*_QUOTAS):
            self._on_quota(stored)
        context.store.listeners.append(self._on_changes)

    def _on_changes(self, changes: Sequence[StoreChange]) -> None:
        for change in changes:
            group, plural, namespace, _ = change.now.key
            if (group, plural) == _QUOTAS:
                self._on_quota(change.now)
            elif (group, plural) in self._counted.get(namespace, ()):
                self.queue.add_unless_due(namespace, _PAUSE_NS)

    def _on_quota(self, stored: Stored) -> None:
        namespace = stored.key.namespace
        quotas = self._usage.quotas(namespace)
        self._counted[namespace] = {
            quota_usage.kind_of(name) for quota in quotas for name in objects.spec(quota).get("hard") or ()
        }
        if not self._counted[namespace]:
            del self._counted[namespace]
        self.queue.add(namespace)

    async def run(self) -> None:
        await self.queue.run(self._reconcile, workers=1)

    async def _reconcile(self, namespace: str) -> int:
        await self._slices.run(self._usage.catch_up(namespace), namespace)
        for quota in self._usage.quotas(namespace):
            hard = objects.spec(quota).get("hard") or {}
            try:
                usage = self._usage.of_quota(quota)
            except UncountedError:
                return 1
            used = dict.fromkeys(hard, "0") | resource_lists.to_text(usage)
            status = {"hard": dict(hard), "used": used}
            if objects.status(quota) != status:
                await self._write(quota, status)
        return 0

    async def _write(self, quota: Object, status: Object) -> None:
        kind = self._context.scheme.for_kind("v1", "ResourceQuota")
        assert kind is not None
        target = ResourceTarget(
            kind=kind, namespace=objects.namespace(quota), name=objects.name(quota), subresource="status"
        )
        replacement = {name: None for name in objects.status(quota) if name not in status}
        before = {name: objects.nested(quota, "status", name) for name in status}
        patch = {
            name: {**dict.fromkeys(before[name].keys() - values.keys()), **values} for name, values in status.items()
        }
        try:
            await self._verbs.patch(
                target, PatchBody(type=PatchType.MERGE, body={"status": replacement | patch}), _CALL
            )
        except ApiError as error:
            if error.code != 404:
                raise
