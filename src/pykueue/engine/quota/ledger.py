"""The ledger: the only writer of usage in the quota tree, with trials that are always undone.

    with ledger.trial():
        ledger.release(victim_queue, usage)
        fits = quota_tree.available(...)

A nested trial is undone to its own start. The preemption searches, the cycle and `EngineState`
call it.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import add, sub
from pykueue.engine.topology.cache import TopologyCache, TopologyUsages


class Ledger:
    def __init__(self, topology_cache: TopologyCache | None = None) -> None:
        self._topology_cache = topology_cache or TopologyCache()
        self._undo: list[tuple[quota_tree.QuotaNode, quota_tree.Index, int | None]] = []
        self._undo_topology: list[tuple[TopologyUsages, int]] = []
        self._trials = 0

    def trial(self) -> "Trial":
        return Trial(self)

    def charge(self, node: quota_tree.QuotaNode, usage: Mapping[quota_tree.Index, int]) -> None:
        for index, amount in usage.items():
            self._charge(node, index, amount)

    def release(self, node: quota_tree.QuotaNode, usage: Mapping[quota_tree.Index, int]) -> None:
        for index, amount in usage.items():
            self._release(node, index, amount)

    def charge_topology(self, topology_usage: TopologyUsages) -> None:
        self._move(topology_usage, 1)

    def release_topology(self, topology_usage: TopologyUsages) -> None:
        self._move(topology_usage, -1)

    def _move(self, topology_usage: TopologyUsages, sign: int) -> None:
        if not topology_usage:
            return
        if self._trials:
            self._undo_topology.append((topology_usage, sign))
            self._topology_cache.add_trial_usage(topology_usage, sign)
        else:
            self._topology_cache.add_usage(topology_usage, sign)

    def _charge(self, node: quota_tree.QuotaNode, index: quota_tree.Index, amount: int) -> None:
        undo = self._undo if self._trials else None
        above: quota_tree.QuotaNode | None = node
        while above is not None:
            before = above.usage.get(index)
            usage = before or 0
            local_available = quota_tree.local_available(above, index) if above.local else 0
            if undo is not None:
                undo.append((above, index, before))
            quota_tree.write_usage(above, index, usage, add(usage, amount))
            if amount <= local_available:
                return
            if local_available:
                amount = sub(amount, local_available)
            above = above.parent

    def _release(self, node: quota_tree.QuotaNode, index: quota_tree.Index, amount: int) -> None:
        undo = self._undo if self._trials else None
        above: quota_tree.QuotaNode | None = node
        while above is not None:
            before = above.usage.get(index)
            usage = before or 0
            passed_up = sub(usage, above.local.get(index, 0)) if above.local else usage
            if undo is not None:
                undo.append((above, index, before))
            quota_tree.write_usage(above, index, usage, sub(usage, amount))
            if passed_up <= 0:
                return
            amount = min(amount, passed_up)
            above = above.parent


class Trial:
    """Everything that is charged and released inside is undone at the end, also after an error."""

    __slots__ = ("_ledger", "_start", "_start_topology")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._start = 0
        self._start_topology = 0

    def __enter__(self) -> Self:
        self._start = len(self._ledger._undo)  # noqa: SLF001 - a trial is a part of its ledger
        self._start_topology = len(self._ledger._undo_topology)  # noqa: SLF001
        self._ledger._trials += 1  # noqa: SLF001
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        undo = self._ledger._undo  # noqa: SLF001
        while len(undo) > self._start:
            node, index, value = undo.pop()
            _restore(node, index, value)
        undo_places = self._ledger._undo_topology  # noqa: SLF001
        while len(undo_places) > self._start_topology:
            topology_usage, sign = undo_places.pop()
            self._ledger._topology_cache.add_trial_usage(topology_usage, -sign)  # noqa: SLF001
        self._ledger._trials -= 1  # noqa: SLF001

    def suspend(self) -> list[tuple[quota_tree.QuotaNode, quota_tree.Index, int | None]]:
        """Show the usage as before the trial; returns what `resume` needs."""
        ledger = self._ledger
        current = []
        for node, index, value in reversed(ledger._undo[self._start :]):  # noqa: SLF001
            current.append((node, index, node.usage.get(index)))
            _restore(node, index, value)
        for topology_usage, sign in ledger._undo_topology[self._start_topology :]:  # noqa: SLF001
            ledger._topology_cache.add_trial_usage(topology_usage, -sign)  # noqa: SLF001
        return current

    def resume(self, current: list[tuple[quota_tree.QuotaNode, quota_tree.Index, int | None]]) -> None:
        """Show the usage of the trial again."""
        ledger = self._ledger
        for node, index, value in reversed(current):
            _restore(node, index, value)
        for topology_usage, sign in ledger._undo_topology[self._start_topology :]:  # noqa: SLF001
            ledger._topology_cache.add_trial_usage(topology_usage, sign)  # noqa: SLF001


def _restore(node: quota_tree.QuotaNode, index: quota_tree.Index, value: int | None) -> None:
    quota_tree.write_usage(node, index, node.usage.get(index, 0), value or 0)
    if value is None:
        del node.usage[index]
