"""Keeps the status of PodDisruptionBudgets, as Kubernetes' disruption controller does."""

from collections.abc import Sequence

from pykueue.api import conditions, objects, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.apiserver import disruption_budgets
from pykueue.apiserver.calls import PatchBody, ResourceTarget, UserInfo, Verbs, WriteCall
from pykueue.apiserver.context import Context, StoreLookup
from pykueue.apiserver.store.rows import StoreChange
from pykueue.kube.client import PatchType
from pykueue.kube.clock import WallClock
from pykueue.kube.controller.work_queue import WorkQueue

_BUDGETS = ("policy", "poddisruptionbudgets")
_PAUSE_NS = SECOND_NS // 10
"""Changes within this time are counted together."""
_CALL = WriteCall(
    user=UserInfo(
        name="system:serviceaccount:kube-system:disruption-controller",
        groups=("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
    ),
    field_manager="kube-controller-manager",
)


class DisruptionBudgetStatus:
    def __init__(self, verbs: Verbs, context: Context) -> None:
        self.queue: WorkQueue[str] = WorkQueue("disruption budget", WallClock())
        self._verbs = verbs
        self._context = context
        self._namespaces = {stored.key.namespace for stored in context.store.select(*_BUDGETS)}
        for namespace in sorted(self._namespaces):
            self.queue.add(namespace)
        context.store.listeners.append(self._on_changes)

    def _on_changes(self, changes: Sequence[StoreChange]) -> None:
        for change in changes:
            group, plural, namespace, _ = change.now.key
            if (group, plural) == _BUDGETS:
                self._namespaces.add(namespace)
                self.queue.add(namespace)
            elif (group, plural) == ("", "pods") and namespace in self._namespaces:
                self.queue.add_unless_due(namespace, _PAUSE_NS)

    async def run(self) -> None:
        await self.queue.run(self._reconcile, workers=1)

    async def _reconcile(self, namespace: str) -> int:
        budgets = [stored.shared_or_decoded() for stored in self._context.store.select(*_BUDGETS, namespace)]
        if not budgets:
            self._namespaces.discard(namespace)
            return 0
        lookup = StoreLookup(self._context.store, self._context.scheme)
        pods = list(lookup.list(resources.POD, namespace))
        for budget in budgets:
            status = self._status(budget, disruption_budgets.counts(budget, pods, lookup))
            if any(objects.status(budget).get(name) != value for name, value in status.items()):
                await self._write(budget, status)
        return 0

    def _status(self, budget: Object, numbers: dict[str, int]) -> Object:
        is_allowed = numbers["disruptionsAllowed"] > 0
        condition = {
            "type": "DisruptionAllowed",
            "status": "True" if is_allowed else "False",
            "reason": "SufficientPods" if is_allowed else "InsufficientPods",
            "message": "",
            "observedGeneration": budget["metadata"].get("generation", 1),
        }
        present = objects.nested_list(budget, "status", "conditions")
        replaced = conditions.replaced(present, condition, self._context.clock())
        generation = budget["metadata"].get("generation", 1)
        return {**numbers, "observedGeneration": generation, "conditions": replaced}

    async def _write(self, budget: Object, status: Object) -> None:
        kind = self._context.scheme.for_kind("policy/v1", "PodDisruptionBudget")
        assert kind is not None
        target = ResourceTarget(
            kind=kind, namespace=objects.namespace(budget), name=objects.name(budget), subresource="status"
        )
        try:
            await self._verbs.patch(target, PatchBody(type=PatchType.MERGE, body={"status": status}), _CALL)
        except ApiError as error:
            if error.code != 404:
                raise
