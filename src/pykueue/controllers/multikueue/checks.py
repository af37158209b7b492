"""The AdmissionChecks of MultiKueue: which clusters they use, and their condition Active."""

from pykueue.api import conditions, objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.rules.jobs.management import MULTI_KUEUE
from pykueue.api.scheme import Object
from pykueue.controllers.workloads import predicates
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.kube.controller.writes import changes


class ConfigError(Exception):
    """The check has no MultiKueueConfig; the message is Kueue's."""


def is_dispatching(check: Object | None) -> bool:
    return check is not None and objects.spec(check).get("controllerName") == MULTI_KUEUE


def config_of(cache: ObjectCache, check: Object) -> Object:
    reference = objects.spec(check).get("parameters")
    if not reference:
        raise ConfigError("missing parameters reference")
    name, group, kind = (str(reference.get(key) or "") for key in ("name", "apiGroup", "kind"))
    bad = "bad parameters reference"
    if not name:
        raise ConfigError(f"empty name: {bad}")
    if group != resources.KUEUE_GROUP:
        raise ConfigError(f'wrong group "{group}", expecting "{resources.KUEUE_GROUP}": {bad}')
    if kind != resources.MULTI_KUEUE_CONFIG.kind:
        raise ConfigError(f'wrong kind "{kind}", expecting "{resources.MULTI_KUEUE_CONFIG.kind}": {bad}')
    config = cache.get(resources.MULTI_KUEUE_CONFIG, name)
    if config is None:
        raise ConfigError(f'MultiKueueConfig.{resources.KUEUE_GROUP} "{name}" not found')
    return config


def clusters_of(cache: ObjectCache, check_name: str) -> list[str]:
    """The clusters of a check, in their order; none if it has no MultiKueueConfig."""
    check = cache.get(resources.ADMISSION_CHECK, check_name)
    try:
        config = config_of(cache, check) if check is not None else {}
    except ConfigError:
        return []
    return [str(name) for name in objects.nested_list(config, "spec", "clusters")]


def state_of(cache: ObjectCache, workload: Object) -> Object | None:
    """The state of the Workload's MultiKueue check."""
    for state in predicates.checks(workload):
        if is_dispatching(cache.get(resources.ADMISSION_CHECK, state["name"])):
            return dict(state)
    return None


class DispatchCheckController:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, clock: Clock) -> None:
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self.queue: WorkQueue[str] = WorkQueue("multikueue-check", clock)
        cache.on_change(resources.ADMISSION_CHECK, self._changed)
        for resource in (resources.MULTI_KUEUE_CONFIG, resources.MULTI_KUEUE_CLUSTER):
            cache.on_change(resource, self._parameters_changed)

    def _changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and is_dispatching(new):
            self.queue.add(objects.name(new))

    def _parameters_changed(self, _old: Object | None, _new: Object | None) -> None:
        for check in self._cache.all(resources.ADMISSION_CHECK):
            self._changed(None, check)

    async def reconcile(self, name: str) -> int:
        check = self._cache.get(resources.ADMISSION_CHECK, name)
        if check is None or not is_dispatching(check):
            return 0
        is_active, reason, message = self._activity(check)
        new = copied(check)
        conditions.put(new, "Active", status=is_active, reason=reason, message=message, now_ns=self._clock.now_ns())
        await self._executor.apply(changes(resources.ADMISSION_CHECK, check, new))
        return 0

    def _activity(self, check: Object) -> tuple[bool, str, str]:
        try:
            config = config_of(self._cache, check)
        except ConfigError as error:
            return False, "BadConfig", f"Cannot load the AdmissionChecks parameters: {error}"
        names = objects.nested_list(config, "spec", "clusters")
        clusters = {name: self._cache.get(resources.MULTI_KUEUE_CLUSTER, name) for name in names}
        missing = [name for name, cluster in clusters.items() if cluster is None]
        inactive = [name for name, cluster in clusters.items() if cluster and not conditions.is_true(cluster, "Active")]
        if not missing and not inactive:
            return True, "Active", "The admission check is active"
        parts = [f"Missing clusters: [{' '.join(missing)}]"] if missing else []
        parts += [f"Inactive clusters: [{' '.join(inactive)}]"] if inactive else []
        is_active = len(missing) + len(inactive) < len(names)
        return is_active, "SomeActiveClusters" if is_active else "NoUsableClusters", ", ".join(parts)
