"""Keeps the status of PodDisruptionBudgets, as Kubernetes' disruption controller does."""

from collections.abc import Iterator, Sequence

from pykueue.api import conditions, objects
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.apiserver import disruption_budgets
from pykueue.apiserver.calls import PatchBody, ResourceTarget, UserInfo, Verbs, WriteCall
from pykueue.apiserver.context import Context, StoreLookup
from pykueue.apiserver.slices import Slices
from pykueue.apiserver.store.rows import StoreChange
from pykueue.kube.client import PatchType
from pykueue.kube.clock import WallClock
from pykueue.kube.controller.work_queue import WorkQueue

_BUDGETS = ("policy", "poddisruptionbudgets")
_PODS = ("", "pods")
_PAUSE_NS = SECOND_NS // 10
"""Changes within this time are counted together, with many pods and budgets within more."""
_PODS_IN_A_STEP = 8
_COUNTED_IN_A_PAUSE = 10_000
"""Pods times budgets."""
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
        self._slices = Slices()
        self._pods: dict[str, dict[str, tuple[int, Object]]] = {}
        """What is counted of each pod, with its revision, by namespace and name."""
        self._namespaces = {stored.key.namespace for stored in context.store.select(*_BUDGETS)}
        for namespace in sorted(self._namespaces):
            self.queue.add(namespace)
        context.store.listeners.append(self._on_changes)

    def _on_changes(self, changes: Sequence[StoreChange]) -> None:
        for change in changes:
            group, plural, namespace, _ = change.now.key
            if (group, plural) == _BUDGETS and not _is_own_write(change):
                self._namespaces.add(namespace)
                self._on_budget(namespace)
            elif (group, plural) == _PODS and namespace in self._namespaces:
                self.queue.add_unless_due(namespace, self._pause_ns(namespace))

    def _on_budget(self, namespace: str) -> None:
        pause_ns = self._pause_ns(namespace)
        if pause_ns > _PAUSE_NS:
            self.queue.add_unless_due(namespace, pause_ns)
        else:
            self.queue.add(namespace)

    def _pause_ns(self, namespace: str) -> int:
        """Longer if there is more to count: one namespace takes a small part of the time."""
        store = self._context.store
        counted = store.count(*_BUDGETS, namespace) * store.count(*_PODS, namespace)
        return _PAUSE_NS * (1 + counted // _COUNTED_IN_A_PAUSE)

    async def run(self) -> None:
        await self.queue.run(self._reconcile, workers=1)

    async def _reconcile(self, namespace: str) -> int:
        budgets = self._context.store.select(*_BUDGETS, namespace)
        if not budgets:
            self._namespaces.discard(namespace)
            self._pods.pop(namespace, None)
            return 0
        lookup = StoreLookup(self._context.store, self._context.scheme)
        counted: dict[str, tuple[int, Object]] = {}
        await self._slices.run(self._count(namespace, counted), namespace)
        self._pods[namespace] = counted
        pods = [pod for _, pod in counted.values()]
        for stored in budgets:
            await self._slices.turn(namespace)
            budget, active = stored.shared_or_decoded(), list[Object]()
            await self._slices.run(_select(budget, pods, active), namespace)
            status = self._status(budget, disruption_budgets.counts_of(active, budget, lookup))
            if any(objects.status(budget).get(name) != value for name, value in status.items()):
                await self._write(budget, status)
        return 0

    def _count(self, namespace: str, counted: dict[str, tuple[int, Object]]) -> Iterator[int]:
        """Steps that collect what is counted of each pod. Only changed pods are decoded."""
        last_time = self._pods.get(namespace, {})
        for stored in self._context.store.select(*_PODS, namespace):
            name = stored.key.name
            if name in last_time and last_time[name][0] == stored.revision:
                counted[name] = last_time[name]
            else:
                counted[name] = (stored.revision, disruption_budgets.counted_part(stored.shared_or_decoded()))
                yield stored.size

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


def _select(budget: Object, pods: Sequence[Object], active: list[Object]) -> Iterator[int]:
    """Steps that collect the pods that count for a budget."""
    for start in range(0, len(pods), _PODS_IN_A_STEP):
        active += (pod for pod in pods[start : start + _PODS_IN_A_STEP] if disruption_budgets.counts_for(budget, pod))
        yield 0


def _is_own_write(change: StoreChange) -> bool:
    """Whether only the status has changed."""
    if change.before is None or change.is_deleted:
        return False
    before, now = (stored.decode()["metadata"] for stored in (change.before, change.now))
    return all(before.get(name) == now.get(name) for name in ("generation", "uid"))
