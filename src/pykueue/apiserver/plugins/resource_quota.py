"""Resource quotas: refuses what would exceed a ResourceQuota of the namespace.

The usage is counted from the newest versions of the objects, committed or not, in the step that
also writes the object. So two requests at the same time cannot use the same quota twice. If many
objects are to be counted, as for a new quota, they are counted in slices before that step.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from pykueue.api import errors, objects, resource_lists
from pykueue.api.resource_lists import Quantities
from pykueue.api.scheme import AdmissionRequest, Kind, Object
from pykueue.apiserver import versions
from pykueue.apiserver.calls import WriteCall
from pykueue.apiserver.plugins import quota_usage
from pykueue.apiserver.plugins.quota_usage import POD, GroupPlural
from pykueue.apiserver.store.rows import StoreChange, Stored, StoreKey
from pykueue.apiserver.store.store import Store

COUNTED_PER_TURN = 256
"""Objects that one write counts itself; more are counted before, in slices."""
_COUNTED_PER_STEP = 16
_STEP_BYTES = 16 * 1024
_NEVER = datetime.max.replace(tzinfo=UTC)
_QUOTAS: GroupPlural = ("", "resourcequotas")
_UPDATED_KINDS = {("", "services"), ("", "persistentvolumeclaims")}
_NOT_COUNTED = {("", "events"), ("events.k8s.io", "events")}


class UncountedError(Exception):
    """So many objects are to be counted that it takes more than a turn of the event loop."""


class _ScopedUsage:
    """The usage of the objects of one kind, namespace and scope; counts again what changes."""

    def __init__(self, kind: GroupPlural, quota: Object) -> None:
        self.changed: set[str] = set()
        """Names of objects that are to be counted again."""
        self._kind = kind
        self._quota = quota
        self._namespace = objects.namespace(quota)
        self._by_name: dict[str, Quantities] = {}
        self._total: Quantities = {}
        self._ends: dict[str, datetime] = {}
        """When deleted pods count no longer, though they are not gone."""
        self._next_end = _NEVER

    def total(self, store: Store, now: datetime) -> Quantities:
        """Raise UncountedError if `catch_up` is to be called first."""
        uncommitted = self._uncommitted(store)
        names = self.changed | uncommitted
        if len(names) > COUNTED_PER_TURN:
            raise UncountedError
        self.changed = uncommitted
        if now > self._next_end:
            names |= {name for name, end in self._ends.items() if now > end}
            self._next_end = min((end for end in self._ends.values() if now <= end), default=_NEVER)
        for name in names:
            self._count(name, store, now)
        return self._total

    def catch_up(self, store: Store, now: datetime) -> Iterator[int]:
        """Count what has changed and is committed; yield the weight of each step."""
        while names := list(self.changed - self._uncommitted(store)):
            for start in range(0, len(names), _COUNTED_PER_STEP):
                for name in set(names[start : start + _COUNTED_PER_STEP]) - self._uncommitted(store):
                    self.changed.discard(name)
                    self._count(name, store, now)
                yield _STEP_BYTES

    def _uncommitted(self, store: Store) -> set[str]:
        collection = (*self._kind, self._namespace)
        return {key.name for key in store.uncommitted() if (*key[:2], key.namespace) == collection}

    def _count(self, name: str, store: Store, now: datetime) -> None:
        stored = store.head(StoreKey(*self._kind, self._namespace, name))
        self._replace(name, {} if stored is None else self._usage_of(stored, now))
        self._ends.pop(name, None)
        if stored is not None and self._kind == POD and stored.meta.deletion_timestamp:
            end = quota_usage.end_of(stored.shared_or_decoded())
            if end is not None and now <= end:
                self._ends[name] = end
                self._next_end = min(end, self._next_end)

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
        self._complete: set[str] = set()
        """Namespaces whose quotas have not changed since `catch_up`."""
        self._quota_changes = 0
        store.listeners.append(self._on_changes)

    def _on_changes(self, changes: Sequence[StoreChange]) -> None:
        for change in changes:
            key = change.now.key
            if (key.group, key.plural) == _QUOTAS:
                self._quota_changes += 1
                self._complete.discard(key.namespace)
            if usages := self._usages.get(((key.group, key.plural), key.namespace)):
                for usage in usages.values():
                    usage.changed.add(key.name)

    def quotas(self, namespace: str) -> list[Object]:
        return [stored.shared_or_decoded() for stored in self._store.heads("", "resourcequotas", namespace)]

    def is_behind(self, kind: GroupPlural, namespace: str) -> bool:
        """Whether `catch_up` is to be called before an object of the kind is written."""
        if namespace not in self._complete and self._store.count(*_QUOTAS, namespace):
            return True
        usages = self._usages.get((kind, namespace))
        return usages is not None and any(len(usage.changed) > COUNTED_PER_TURN // 2 for usage in usages.values())

    def catch_up(self, namespace: str) -> Iterator[int]:
        """Count all that has changed, bit by bit; yield the weight of each step."""
        changes = self._quota_changes
        used: set[tuple[GroupPlural, str]] = set()
        for quota in self.quotas(namespace):
            for kind in {quota_usage.kind_of(name) for name in quota_usage.hard_of(quota)}:
                used.add((kind, _scopes_of(quota)))
                yield from self._scoped(kind, quota).catch_up(self._store, self._clock())
        if self._quota_changes == changes:
            self._complete.add(namespace)
            self._forget_unused(namespace, used)

    def _forget_unused(self, namespace: str, used: set[tuple[GroupPlural, str]]) -> None:
        for kind, of_namespace in list(self._usages):
            if of_namespace == namespace:
                usages = {
                    scopes: usage for scopes, usage in self._usages[kind, namespace].items() if (kind, scopes) in used
                }
                self._usages[kind, namespace] = usages
                if not usages:
                    del self._usages[kind, namespace]

    def of_quota(self, quota: Object) -> Quantities:
        """The usage of every resource that the quota limits; UncountedError as in `total`."""
        hard = quota_usage.hard_of(quota)
        total: Quantities = {}
        for kind in {quota_usage.kind_of(name) for name in hard}:
            usage = self._scoped(kind, quota).total(self._store, self._clock())
            total |= {name: value for name, value in usage.items() if name in hard}
        return total

    def of_object(self, kind: GroupPlural, obj: Object) -> Quantities:
        return quota_usage.usage_of(kind, obj, self._clock())

    def _scoped(self, kind: GroupPlural, quota: Object) -> _ScopedUsage:
        namespace, spec, scopes = objects.namespace(quota), objects.spec(quota), _scopes_of(quota)
        usages = self._usages.setdefault((kind, namespace), {})
        if scopes not in usages:
            usages[scopes] = _ScopedUsage(kind, {**quota, "spec": {**spec, "hard": _any_resource_of(kind)}})
            usages[scopes].changed = {stored.key.name for stored in self._store.heads(*kind, namespace)}
        return usages[scopes]


def _scopes_of(quota: Object) -> str:
    spec = objects.spec(quota)
    return json.dumps([spec.get("scopes") or [], spec.get("scopeSelector") or {}], sort_keys=True)


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
        try:
            used = self._usage.of_quota(quota) if requested else {}
        except UncountedError:
            why = f"status unknown for quota: {objects.name(quota)}, resources: {','.join(sorted(requested))}"
            raise _refusal(kind, obj, why) from None
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
