"""The filter of Pending events: whether Kueue would emit the event of a pending Workload.

Kueue's event recorder drops an event about a version of an object if it has emitted one with the
same reason for that version, whatever the message says. Kueue also collects everything that may
reactivate inadmissible workloads for one second. A workload that arrives within that second is
tried twice, so Kueue emits an event for its second version although nothing changed. We try a
workload at once, and only remember when Kueue would have tried it again.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from pykueue.api.times import SECOND_NS
from pykueue.engine import values
from pykueue.engine.view import TreeKey

BATCH_NS = SECOND_NS
MAX_BATCHES = 1024
NEVER_NS = 1 << 63


class _Emitted(msgspec.Struct, frozen=True):
    """From `since_ns` on, Kueue has emitted an event for this version of the Workload."""

    version: str
    since_ns: int
    is_suppressed: bool = False
    """The event of the write that made this version was not emitted; the next attempt emits it."""


class PendingEventFilter:
    def __init__(self) -> None:
        self._batches: dict[TreeKey, int] = {}
        """When Kueue started to collect reactivations of a tree."""
        self._emitted: dict[values.WorkloadKey, _Emitted] = {}

    def reactivated(self, trees: Iterable[TreeKey], now_ns: int) -> None:
        """Record that the inadmissible workloads of these trees were reactivated."""
        for tree in trees:
            if not self._is_collecting(tree, now_ns):
                self._batches[tree] = now_ns
        if len(self._batches) > MAX_BATCHES:
            self._batches = {tree: at_ns for tree, at_ns in self._batches.items() if self._is_collecting(tree, now_ns)}

    def _is_collecting(self, tree: TreeKey, now_ns: int) -> bool:
        return now_ns - self._batches.get(tree, -BATCH_NS) < BATCH_NS

    def should_emit(self, key: values.WorkloadKey, version: str, now_ns: int) -> bool:
        """Whether to emit the event of a write to this version of the Workload."""
        emitted = self._emitted.get(key)
        return emitted is None or emitted.version != version or now_ns < emitted.since_ns

    def written(
        self, key: values.WorkloadKey, version: str, tree: TreeKey, now_ns: int, *, is_suppressed: bool = False
    ) -> None:
        """Record the version that the write of a pending reason made."""
        since_ns = NEVER_NS
        if key not in self._emitted and self._is_collecting(tree, now_ns):
            since_ns = self._batches[tree] + BATCH_NS
        self._emitted[key] = _Emitted(version, since_ns, is_suppressed=is_suppressed)

    def changed(self, key: values.WorkloadKey, version: str, now_ns: int) -> None:
        """Another write made this version: Kueue's second attempt, if it is to come, sees it."""
        emitted = self._emitted.get(key)
        if emitted is not None and now_ns < emitted.since_ns != NEVER_NS:
            self._emitted[key] = replace(emitted, version=version)

    def unchanged(self, key: values.WorkloadKey, version: str) -> bool:
        """Record an attempt that changed nothing; returns whether to emit the last event."""
        before = self._emitted.get(key)
        self._emitted[key] = _Emitted(version, 0)
        return before is not None and before.is_suppressed and before.version == version

    def forget(self, key: values.WorkloadKey) -> None:
        """The Workload is no longer pending."""
        self._emitted.pop(key, None)
