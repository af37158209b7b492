"""Keeps provisioning checks going: one queue for AdmissionChecks (are they usable?), one for Workloads."""

from pykueue.api import conditions, objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.controllers.provisioning import decide
from pykueue.controllers.workloads import predicates
from pykueue.kube.clock import Clock
from pykueue.kube.controller.apply import Applier
from pykueue.kube.controller.cache import Key, ObjectCache, key_of
from pykueue.kube.controller.plan import changes
from pykueue.kube.controller.work_queue import WorkQueue

RESOURCES = (resources.PROVISIONING_REQUEST_CONFIG, resources.PROVISIONING_REQUEST, resources.POD_TEMPLATE)


class ProvisioningController:
    def __init__(self, mirror: ObjectCache, applier: Applier, clock: Clock) -> None:
        self._mirror = mirror
        self._applier = applier
        self._clock = clock
        self.workloads: WorkQueue[Key] = WorkQueue("provisioning", clock)
        self.checks: WorkQueue[str] = WorkQueue("provisioning-check", clock)
        mirror.add_index(resources.PROVISIONING_REQUEST, "workload", _owner_workload)
        mirror.add_index(
            resources.WORKLOAD, "check", lambda workload: [each["name"] for each in predicates.checks(workload)]
        )
        mirror.on_change(resources.WORKLOAD, self._workload_changed)
        mirror.on_change(resources.PROVISIONING_REQUEST, self._request_changed)
        mirror.on_change(resources.ADMISSION_CHECK, self._check_changed)
        mirror.on_change(resources.PROVISIONING_REQUEST_CONFIG, self._config_changed)

    def _workload_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and (predicates.checks(new) or self._requests_of(new)):
            self.workloads.add(key_of(new))

    def _request_changed(self, old: Object | None, new: Object | None) -> None:
        request = new or old
        assert request is not None
        for name in _owner_workload(request):
            namespace, _, workload = name.partition("/")
            self.workloads.add((namespace, workload))

    def _check_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and new["spec"].get("controllerName") == decide.CONTROLLER:
            self.checks.add(new["metadata"]["name"])

    def _config_changed(self, _old: Object | None, _new: Object | None) -> None:
        for check in self._mirror.all(resources.ADMISSION_CHECK):
            self._check_changed(None, check)

    async def reconcile_check(self, name: str) -> int:
        old = self._mirror.get(resources.ADMISSION_CHECK, name)
        if old is None:
            return 0
        new = copied(old)
        fault = self._fault(old)
        reason, message = ("BadParametersRef", fault) if fault else ("Active", "The admission check is active")
        conditions.put(new, "Active", status=not fault, reason=reason, message=message, now_ns=self._clock.now_ns())
        await self._applier.carry_out(changes(resources.ADMISSION_CHECK, old, new))
        for workload in self._mirror.indexed(resources.WORKLOAD, "check", name):
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
        if self._mirror.get(resources.PROVISIONING_REQUEST_CONFIG, reference["name"]) is None:
            return f'provisioningrequestconfigs.kueue.x-k8s.io "{reference["name"]}" not found'
        return ""

    async def reconcile_workload(self, key: Key) -> int:
        namespace, name = key
        workload = self._mirror.get(resources.WORKLOAD, name, namespace)
        if workload is None:
            return 0
        case = decide.ProvisioningContext(
            workload=workload,
            configs=self._configs(workload),
            requests=tuple(self._requests_of(workload)),
            templates={
                each["metadata"]["name"]: each
                for each in self._mirror.all(resources.POD_TEMPLATE)
                if each["metadata"]["namespace"] == namespace
            },
            flavors=self._mirror.by_name(resources.RESOURCE_FLAVOR),
            now_ns=self._clock.now_ns(),
        )
        if case.configs or case.requests:
            await self._applier.carry_out(decide.actions(case))
        return 0

    def _requests_of(self, workload: Object) -> list[Object]:
        return self._mirror.indexed(resources.PROVISIONING_REQUEST, "workload", predicates.key(workload))

    def _configs(self, workload: Object) -> dict[str, Object | None]:
        found: dict[str, Object | None] = {}
        for state in predicates.checks(workload):
            check = self._mirror.get(resources.ADMISSION_CHECK, state["name"])
            if check is None or check["spec"].get("controllerName") != decide.CONTROLLER:
                continue
            name = (check["spec"].get("parameters") or {}).get("name", "")
            usable = not self._fault(check)
            found[state["name"]] = self._mirror.get(resources.PROVISIONING_REQUEST_CONFIG, name) if usable else None
        return found


def _owner_workload(request: Object) -> list[str]:
    owner = objects.controller_of(request)
    if owner is None or owner["kind"] != "Workload":
        return []
    return [f"{request['metadata']['namespace']}/{owner['name']}"]
