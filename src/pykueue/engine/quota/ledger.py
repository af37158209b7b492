"""Who uses what: the only writer of usage in the quota tree, with trials that always restore.

    with ledger.trial():
        ledger.release(victim_queue, usage)
        fits = quota.available(...)

Nested trials restore to their own beginning. Called by the preemption searches, by the cycle and by the engine when
workloads come and go.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import add, sub
from pykueue.engine.topology.cache import Taken, TopologyCache


class Ledger:
    def __init__(self, places: TopologyCache | None = None) -> None:
        self._places = places or TopologyCache()
        self._undo: list[tuple[quota_tree.QuotaNode, quota_tree.Index, int | None]] = []
        self._undo_places: list[tuple[Taken, int]] = []
        self._trials = 0

    def trial(self) -> "Trial":
        return Trial(self)

    def charge(self, node: quota_tree.QuotaNode, usage: Mapping[quota_tree.Index, int]) -> None:
        for index, amount in usage.items():
            self._charge(node, index, amount)

    def release(self, node: quota_tree.QuotaNode, usage: Mapping[quota_tree.Index, int]) -> None:
        for index, amount in usage.items():
            self._release(node, index, amount)

    def charge_places(self, taken: Taken) -> None:
        self._move(taken, 1)

    def release_places(self, taken: Taken) -> None:
        self._move(taken, -1)

    def _move(self, taken: Taken, sign: int) -> None:
        if not taken:
            return
        if self._trials:
            self._undo_places.append((taken, sign))
            self._places.try_out(taken, sign)
        else:
            self._places.book(taken, sign)

    def _charge(self, node: quota_tree.QuotaNode, index: quota_tree.Index, amount: int) -> None:
        above: quota_tree.QuotaNode | None = node
        while above is not None:
            local_available = quota_tree.local_available(above, index)
            self._write(above, index, add(above.usage.get(index, 0), amount))
            if amount <= local_available:
                return
            amount = sub(amount, local_available)
            above = above.parent

    def _release(self, node: quota_tree.QuotaNode, index: quota_tree.Index, amount: int) -> None:
        above: quota_tree.QuotaNode | None = node
        while above is not None:
            usage = above.usage.get(index, 0)
            passed_up = sub(usage, above.local.get(index, 0))
            self._write(above, index, sub(usage, amount))
            if passed_up <= 0:
                return
            amount = min(amount, passed_up)
            above = above.parent

    def _write(self, node: quota_tree.QuotaNode, index: quota_tree.Index, value: int) -> None:
        if self._trials:
            self._undo.append((node, index, node.usage.get(index)))
        quota_tree.write_usage(node, index, value)


class Trial:
    """Everything charged and released inside is undone at the end, whatever happens."""

    __slots__ = ("_ledger", "_start", "_start_places")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._start = 0
        self._start_places = 0

    def __enter__(self) -> Self:
        self._start = len(self._ledger._undo)  # noqa: SLF001 - a trial is a part of its ledger
        self._start_places = len(self._ledger._undo_places)  # noqa: SLF001
        self._ledger._trials += 1  # noqa: SLF001
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        undo = self._ledger._undo  # noqa: SLF001
        while len(undo) > self._start:
            node, index, value = undo.pop()
            quota_tree.write_usage(node, index, value or 0)
            if value is None:
                del node.usage[index]
        undo_places = self._ledger._undo_places  # noqa: SLF001
        while len(undo_places) > self._start_places:
            taken, sign = undo_places.pop()
            self._ledger._places.try_out(taken, -sign)  # noqa: SLF001
        self._ledger._trials -= 1  # noqa: SLF001
