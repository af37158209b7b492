"""Resource quotas: refuses what would exceed a ResourceQuota of the namespace.

The usage is counted from the newest versions of the objects, committed or not, in the step that
also writes the object. So two requests at the same time cannot use the same quota twice.
"""

import json
from collections.abc import Callable, Sequence
from datetime import datetime

from pykueue.api import errors, objects, resource_lists
from pykueue.api.resource_lists import Quantities
from pykueue.api.scheme import AdmissionRequest, Kind, Object
from pykueue.apiserver import versions
from pykueue.apiserver.calls import WriteCall
from pykueue.apiserver.plugins import quota_usage
from pykueue.apiserver.plugins.quota_usage import POD, GroupPlural
from pykueue.apiserver.store.rows import StoreChange, Stored, StoreKey
from pykueue.apiserver.store.store import Store

_UPDATED_KINDS = {("", "services"), ("", "persistentvolumeclaims")}
_NOT_COUNTED = {("", "events"), ("events.k8s.io", "events")}


class _ScopedUsage:
    """The usage of the objects of one kind, namespace and scope; counts again what changes."""

    def __init__(self, kind: GroupPlural, quota: Object) -> None:
        self.changed: set[str] = set()
        """Names of objects that are to be counted again."""
        self._kind = kind
        self._quota = quota
        self._by_name: dict[str, Quantities] = {}
        self._total: Quantities = {}

    def total(self, store: Store, now: datetime) -> Quantities:
        namespace = objects.namespace(self._quota)
        uncommitted = {key.name for key in store.uncommitted() if (*key[:2], key.namespace) == (*self._kind, namespace)}
        names, self.changed = self.changed | uncommitted, uncommitted
        for name in names:
            stored = store.head(StoreKey(*self._kind, namespace, name))
            self._replace(name, {} if stored is None else self._usage_of(stored, now))
            if stored is not None and stored.meta.deletion_timestamp:
                self.changed.add(name)
        return self._total

    def _usage_of(self, stored: Stored, now: datetime) -> Quantities:
        obj = stored.shared_or_decoded()
        return quota_usage.usage_of(self._kind, obj, now) if quota_usage.applies(self._quota, self._kind, obj) else {}

    def _replace(self, name: str, usage: Quantities) -> None:
        before = self._by_name.pop(name, {})
        if usage:
            self._by_name[name] = usage
        self._total = resource_lists.total((self._total, usage))
        for resource, amount in before.items():
            self._total[resource] = self._total[resource] - amount


class QuotaUsage:
    """The usage of quotas. Counting costs what has changed, not what there is."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._usages: dict[tuple[GroupPlural, str], dict[str, _ScopedUsage]] = {}
        """By kind and namespace, then by the scopes of the quota."""
        store.listeners.append(self._on_changes)

    def _on_changes(self, changes: Sequence[StoreChange]) -> None:
        for change in changes:
            key = change.now.key
            for usage in self._usages.get(((key.group, key.plural), key.namespace), {}).values():
                usage.changed.add(key.name)

    def quotas(self, namespace: str) -> list[Object]:
        return [stored.shared_or_decoded() for stored in self._store.heads("", "resourcequotas", namespace)]

    def of_quota(self, quota: Object) -> Quantities:
        """The usage of every resource that the quota limits."""
        hard = quota_usage.hard_of(quota)
        total: Quantities = {}
        for kind in {quota_usage.kind_of(name) for name in hard}:
            usage = self._scoped(kind, quota).total(self._store, self._clock())
            total |= {name: value for name, value in usage.items() if name in hard}
        return total

    def of_object(self, kind: GroupPlural, obj: Object) -> Quantities:
        return quota_usage.usage_of(kind, obj, self._clock())

    def _scoped(self, kind: GroupPlural, quota: Object) -> _ScopedUsage:
        namespace, spec = objects.namespace(quota), objects.spec(quota)
        scopes = json.dumps([spec.get("scopes") or [], spec.get("scopeSelector") or {}], sort_keys=True)
        usages = self._usages.setdefault((kind, namespace), {})
        if scopes not in usages:
            usages[scopes] = _ScopedUsage(kind, {**quota, "spec": {**spec, "hard": _any_resource_of(kind)}})
            usages[scopes].changed = {stored.key.name for stored in self._store.heads(*kind, namespace)}
        return usages[scopes]


def _any_resource_of(kind: GroupPlural) -> dict[str, str]:
    group, plural = kind
    return {f"count/{plural}.{group}" if group else f"count/{plural}": "0"}


class ResourceQuotas:
    """The admission plugin."""

    def __init__(self, usage: QuotaUsage) -> None:
        self._usage = usage

    def validate(self, kind: Kind, request: AdmissionRequest, _call: WriteCall) -> list[str]:
        collection = (versions.storage_group(kind), kind.plural)
        if not kind.namespaced or collection in _NOT_COUNTED or not _may_use_more(collection, request):
            return []
        for quota in sorted(self._usage.quotas(objects.namespace(request.object)), key=objects.name):
            if quota_usage.applies(quota, collection, request.object):
                self._check(quota, kind, collection, request)
        return []

    def _check(self, quota: Object, kind: Kind, collection: GroupPlural, request: AdmissionRequest) -> None:
        hard, obj = quota_usage.hard_of(quota), request.object
        if collection == POD and (missing := quota_usage.unset_resources(hard, obj)):
            raise _refusal(kind, obj, f"failed quota: {objects.name(quota)}: must specify {missing}")
        usage = quota_usage.within(self._usage.of_object(collection, obj), hard)
        if negative := sorted(name for name, value in usage.items() if value.nano < 0):
            raise _refusal(kind, obj, f"quota usage is negative for resource(s): {','.join(negative)}")
        before: Quantities = {}
        if request.old is not None and quota_usage.applies(quota, collection, request.old):
            before = self._usage.of_object(collection, request.old)
        requested = quota_usage.increase(usage, before)
        used = self._usage.of_quota(quota) if requested else {}
        total = resource_lists.total((used, requested))
        if exceeded := sorted(name for name in requested if total[name].nano > hard[name].nano):
            zeros = dict.fromkeys(exceeded, requested[exceeded[0]] - requested[exceeded[0]])
            raise _refusal(
                kind,
                obj,
                f"exceeded quota: {objects.name(quota)}, requested: {_text(requested, exceeded)}, "
                f"used: {_text(zeros | used, exceeded)}, limited: {_text(hard, exceeded)}",
            )


def _may_use_more(collection: GroupPlural, request: AdmissionRequest) -> bool:
    if request.old is None:
        return not request.subresource
    if collection == POD:
        deadlines = [objects.spec(pod).get("activeDeadlineSeconds") is None for pod in (request.old, request.object)]
        return request.subresource == "resize" or (not request.subresource and deadlines[0] != deadlines[1])
    return not request.subresource and collection in _UPDATED_KINDS


def _refusal(kind: Kind, obj: Object, why: str) -> errors.ApiError:
    return errors.forbidden(kind.group, kind.plural, objects.name(obj), why)


def _text(amounts: Quantities, names: list[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names)
