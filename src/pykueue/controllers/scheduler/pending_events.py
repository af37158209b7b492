"""Which Pending events are news: the scheduler asks before it tells that a workload still waits.

Kueue's recorder drops an event about a version of an object for which it has told the same reason, whatever the event says. And Kueue
gathers whatever may bring waiting workloads back for a second before it tries them again, so a workload that came within
that second is tried twice: its second version is told of before anything changed. We try at once and only remember that.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pykueue.api.times import SECOND_NS
from pykueue.engine import values
from pykueue.engine.view import TreeKey

BATCH_NS = SECOND_NS
MOST_BATCHES = 1024
NEVER_NS = 1 << 63


@dataclass(frozen=True, slots=True)
class _Told:
    """From `since_ns` on, this version of the workload has been told of."""

    version: str
    since_ns: int
    is_unsaid: bool = False
    """What made it this version was dropped; the next try says it."""


class PendingEventFilter:
    def __init__(self) -> None:
        self._batches: dict[TreeKey, int] = {}
        self._told: dict[values.WorkloadKey, _Told] = {}

    def brought_back(self, trees: Iterable[TreeKey], now_ns: int) -> None:
        """What waits in these trees may be tried again."""
        for tree in trees:
            if not self._is_gathering(tree, now_ns):
                self._batches[tree] = now_ns
        if len(self._batches) > MOST_BATCHES:
            self._batches = {tree: at_ns for tree, at_ns in self._batches.items() if self._is_gathering(tree, now_ns)}

    def _is_gathering(self, tree: TreeKey, now_ns: int) -> bool:
        return now_ns - self._batches.get(tree, -BATCH_NS) < BATCH_NS

    def is_news(self, key: values.WorkloadKey, version: str, now_ns: int) -> bool:
        told = self._told.get(key)
        return told is None or told.version != version or now_ns < told.since_ns

    def told(
        self, key: values.WorkloadKey, version: str, tree: TreeKey, now_ns: int, *, was_dropped: bool = False
    ) -> None:
        """What was to be said about the workload made it this version."""
        since_ns = NEVER_NS
        if key not in self._told and self._is_gathering(tree, now_ns):
            since_ns = self._batches[tree] + BATCH_NS
        self._told[key] = _Told(version, since_ns, is_unsaid=was_dropped)

    def told_again(self, key: values.WorkloadKey, version: str) -> bool:
        """The workload was tried, and there was nothing new to say; whether it has yet to be said."""
        before = self._told.get(key)
        self._told[key] = _Told(version, 0)
        return before is not None and before.is_unsaid and before.version == version

    def forget(self, key: values.WorkloadKey) -> None:
        """It no longer waits."""
        self._told.pop(key, None)
