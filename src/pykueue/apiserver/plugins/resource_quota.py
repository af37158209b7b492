"""Resource quotas: refuses what would exceed a ResourceQuota of the namespace.

The usage is counted from the newest versions of the objects, committed or not, in the step that
also writes the object. So two requests at the same time cannot use the same quota twice.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from pykueue.api import errors, objects, resource_lists
from pykueue.api.resource_lists import Quantities
from pykueue.api.scheme import AdmissionRequest, Kind, Object
from pykueue.apiserver import versions
from pykueue.apiserver.calls import WriteCall
from pykueue.apiserver.plugins import quota_usage
from pykueue.apiserver.plugins.quota_usage import POD, GroupPlural
from pykueue.apiserver.store.rows import Stored
from pykueue.apiserver.store.store import Store

_UPDATED_KINDS = {("", "services"), ("", "persistentvolumeclaims")}
_NOT_COUNTED = {("", "events"), ("events.k8s.io", "events")}


class QuotaUsage:
    """The usage of quotas. What an object uses is remembered until it changes."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._by_collection: dict[tuple[GroupPlural, str], dict[str, tuple[int, Quantities]]] = {}

    def quotas(self, namespace: str) -> list[Object]:
        return [stored.shared_or_decoded() for stored in self._store.heads("", "resourcequotas", namespace)]

    def of_quota(self, quota: Object) -> Quantities:
        """The usage of every resource that the quota limits."""
        hard, namespace = quota_usage.hard_of(quota), objects.namespace(quota)
        total: Quantities = {}
        for kind in {quota_usage.kind_of(name) for name in hard}:
            usages = [usage for stored, usage in self._collection(kind, namespace) if self._counts(quota, kind, stored)]
            total = resource_lists.total((total, *usages))
        return quota_usage.within(total, hard)

    def of_object(self, kind: GroupPlural, obj: Object) -> Quantities:
        return quota_usage.usage_of(kind, obj, self._clock())

    def _counts(self, quota: Object, kind: GroupPlural, stored: Stored) -> bool:
        spec = objects.spec(quota)
        is_scoped = bool(spec.get("scopes") or spec.get("scopeSelector"))
        return not is_scoped or quota_usage.applies(quota, kind, stored.shared_or_decoded())

    def _collection(self, kind: GroupPlural, namespace: str) -> Iterator[tuple[Stored, Quantities]]:
        before = self._by_collection.get((kind, namespace), {})
        current: dict[str, tuple[int, Quantities]] = {}
        for stored in self._store.heads(*kind, namespace):
            revision, usage = before.get(stored.key.name, (0, {}))
            if revision != stored.revision or stored.meta.deletion_timestamp:
                usage = self.of_object(kind, stored.shared_or_decoded())
            current[stored.key.name] = (stored.revision, usage)
            yield stored, usage
        self._by_collection[kind, namespace] = current


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
