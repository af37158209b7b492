"""`pods/eviction`: deletes a pod, unless its PodDisruptionBudget forbids it now.

`kubectl drain` uses it.
"""

import datetime as dt

import msgspec

from pykueue.api import conditions, errors, objects, resources
from pykueue.api.errors import ApiError
from pykueue.api.rules import reading
from pykueue.api.scheme import Object, Scheme
from pykueue.apiserver import disruption_budgets
from pykueue.apiserver.calls import ListCall, PatchBody, ResourceTarget, Verbs, WriteCall
from pykueue.apiserver.context import StoreLookup
from pykueue.apiserver.http import options, routes
from pykueue.apiserver.http.hooks import ExtraResource
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.kube.client import PatchType

EVICTION = ExtraResource(
    name="pods/eviction",
    kind="Eviction",
    namespaced=True,
    verbs=("create",),
    kind_group="policy",
    kind_version="v1",
)
_BUDGETS = ("policy", "v1", "poddisruptionbudgets")
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


class PodEviction:
    def __init__(self, verbs: Verbs, scheme: Scheme, lookup: StoreLookup) -> None:
        self._verbs = verbs
        self._scheme = scheme
        self._lookup = lookup
        self._evicted: set[str] = set()
        """The uids of pods whose eviction is allowed and not yet stored."""

    async def create(self, request: HttpRequest) -> HttpResponse:
        if request.method != "POST":
            raise routes.method_not_allowed()
        name, namespace = request.route.name, request.route.namespace
        own_name = reading.text(reading.at(request.body, "metadata", "name"))
        if own_name and own_name != name:
            raise errors.bad_request("name in URL does not match name in Eviction object")
        kind = self._scheme.for_path("", "v1", "pods")
        assert kind is not None
        target = ResourceTarget(kind=kind, namespace=namespace, name=name)
        body = reading.mapping(reading.mapping(request.body).get("deleteOptions"))
        call = options.delete_call(request.query, body, request.user)
        is_dry_run = call.dry_run or "All" in reading.sequence(body.get("dryRun"))
        call = msgspec.structs.replace(call, dry_run=is_dry_run)
        pod = (await self._verbs.get(target)).decode()
        if disruption_budgets.may_be_deleted_anyway(pod):
            await self._verbs.delete(target, call)
        else:
            await self._check_budget(pod)
            uid = objects.uid(pod)
            self._evicted.add(uid)
            try:
                if not is_dry_run:
                    await self._set_condition(target, pod, request)
                await self._verbs.delete(target, call)
            finally:
                self._evicted.discard(uid)
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return HttpResponse(status=201, body=status)

    async def _check_budget(self, pod: Object) -> None:
        """Count without the pods that are being evicted. Nothing awaits after the count."""
        kind = self._scheme.for_path(*_BUDGETS)
        assert kind is not None
        page = await self._verbs.list(ResourceTarget(kind=kind, namespace=objects.namespace(pod)), ListCall())
        budgets = disruption_budgets.budgets_of(pod, page.decode())
        if len(budgets) > 1:
            why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise ApiError(500, "InternalError", why)
        for budget in budgets:
            listed = self._lookup.list(resources.POD, objects.namespace(pod))
            pods = [other for other in listed if objects.uid(other) not in self._evicted]
            numbers = disruption_budgets.counts(budget, pods, self._lookup)
            if not _allows(budget, numbers, pod):
                needs, has = numbers["desiredHealthy"], numbers["currentHealthy"]
                why = f"The disruption budget {objects.name(budget)} needs {needs} healthy pods and has {has} currently"
                refusal = errors.too_many_requests(_REFUSED, 0)
                refusal.details = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
                raise refusal

    async def _set_condition(self, target: ResourceTarget, pod: Object, request: HttpRequest) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        present = objects.nested_list(pod, "status", "conditions")
        replaced = conditions.replaced(present, condition, dt.datetime.now(dt.UTC))
        body = {"metadata": {"uid": objects.uid(pod)}, "status": {"conditions": replaced}}
        status = msgspec.structs.replace(target, subresource="status")
        call = WriteCall(user=request.user, user_agent=request.user_agent)
        await self._verbs.patch(status, PatchBody(type=PatchType.MERGE, body=body), call)


def _allows(budget: Object, numbers: dict[str, int], pod: Object) -> bool:
    if numbers["disruptionsAllowed"] > 0:
        return True
    if disruption_budgets.is_healthy(pod):
        return False
    policy = objects.spec(budget).get("unhealthyPodEvictionPolicy", "IfHealthyBudget")
    is_met = numbers["currentHealthy"] >= numbers["desiredHealthy"] > 0
    return policy == "AlwaysAllow" or is_met
