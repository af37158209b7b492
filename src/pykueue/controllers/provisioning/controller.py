"""The provisioning admission check: a queue of AdmissionChecks and a queue of Workloads."""

from pykueue.api import conditions, objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.controllers.cache import split_key
from pykueue.controllers.provisioning import decide
from pykueue.controllers.workloads import predicates
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, key_of, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.kube.controller.writes import changes

RESOURCES = (resources.PROVISIONING_REQUEST_CONFIG, resources.PROVISIONING_REQUEST, resources.POD_TEMPLATE)


class ProvisioningController:
    def __init__(
        self, cache: ObjectCache, executor: WriteExecutor, clock: Clock, *, deletes_on_eviction: bool = True
    ) -> None:
        self._cache = cache
        self._deletes_on_eviction = deletes_on_eviction
        self._executor = executor
        self._clock = clock
        self.workloads: WorkQueue[Key] = WorkQueue("provisioning", clock)
        self.checks: WorkQueue[str] = WorkQueue("provisioning-check", clock)
        cache.add_index(resources.PROVISIONING_REQUEST, "workload", _owner_workload)
        cache.add_index(
            resources.WORKLOAD, "check", lambda workload: [check["name"] for check in predicates.checks(workload)]
        )
        cache.on_change(resources.WORKLOAD, self._workload_changed)
        cache.on_change(resources.PROVISIONING_REQUEST, self._request_changed)
        cache.on_change(resources.ADMISSION_CHECK, self._check_changed)
        cache.on_change(resources.PROVISIONING_REQUEST_CONFIG, self._config_changed)

    def _workload_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and (predicates.checks(new) or self._requests_of(new)):
            self.workloads.add(key_of(new))

    def _request_changed(self, old: Object | None, new: Object | None) -> None:
        for name in _owner_workload(latest(old, new)):
            self.workloads.add(split_key(name))

    def _check_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and objects.spec(new).get("controllerName") == decide.CONTROLLER:
            self.checks.add(new["metadata"]["name"])

    def _config_changed(self, _old: Object | None, _new: Object | None) -> None:
        for check in self._cache.all(resources.ADMISSION_CHECK):
            self._check_changed(None, check)

    async def reconcile_check(self, name: str) -> int:
        old = self._cache.get(resources.ADMISSION_CHECK, name)
        if old is None:
            return 0
        new = copied(old)
        fault = self._fault(old)
        reason, message = ("BadParametersRef", fault) if fault else ("Active", "The admission check is active")
        conditions.put(new, "Active", status=not fault, reason=reason, message=message, now_ns=self._clock.now_ns())
        await self._executor.apply(changes(resources.ADMISSION_CHECK, old, new))
        for workload in self._cache.indexed(resources.WORKLOAD, "check", name):
            self.workloads.add(key_of(workload))
        return 0

    def _fault(self, check: Object) -> str:
        reference = check["spec"].get("parameters")
        if not reference:
            return "missing parameters reference"
        if (reference.get("apiGroup"), reference.get("kind")) != (resources.KUEUE_GROUP, "ProvisioningRequestConfig"):
            return (
                f'wrong kind "{reference.get("kind")}", expecting "ProvisioningRequestConfig": bad parameters reference'
            )
        if self._cache.get(resources.PROVISIONING_REQUEST_CONFIG, reference["name"]) is None:
            return f'provisioningrequestconfigs.kueue.x-k8s.io "{reference["name"]}" not found'
        return ""

    async def reconcile_workload(self, key: Key) -> int:
        namespace, name = key
        workload = self._cache.get(resources.WORKLOAD, name, namespace)
        if workload is None:
            return 0
        context = decide.ProvisioningContext(
            workload=workload,
            configs=self._configs(workload),
            requests=tuple(self._requests_of(workload)),
            templates={
                objects.name(template): template
                for template in self._cache.all(resources.POD_TEMPLATE)
                if objects.namespace(template) == namespace
            },
            flavors=self._cache.by_name(resources.RESOURCE_FLAVOR),
            now_ns=self._clock.now_ns(),
            deletes_on_eviction=self._deletes_on_eviction,
        )
        if context.configs or context.requests:
            await self._executor.apply(decide.actions(context))
        return 0

    def _requests_of(self, workload: Object) -> list[Object]:
        return self._cache.indexed(resources.PROVISIONING_REQUEST, "workload", predicates.key(workload))

    def _configs(self, workload: Object) -> dict[str, Object | None]:
        configs: dict[str, Object | None] = {}
        for state in predicates.checks(workload):
            check = self._cache.get(resources.ADMISSION_CHECK, state["name"])
            if check is None or check["spec"].get("controllerName") != decide.CONTROLLER:
                continue
            name = (check["spec"].get("parameters") or {}).get("name", "")
            is_usable = not self._fault(check)
            configs[state["name"]] = self._cache.get(resources.PROVISIONING_REQUEST_CONFIG, name) if is_usable else None
        return configs


def _owner_workload(request: Object) -> list[str]:
    owner = objects.controller_of(request)
    if owner is None or owner["kind"] != "Workload":
        return []
    return [f"{request['metadata']['namespace']}/{owner['name']}"]
