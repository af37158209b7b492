"""The progress of a flavor scan: which flavors of a workload were tried. Kept with each pending
workload by `pending_queue`, and written by `nominate`.
"""

from dataclasses import dataclass

from pykueue.engine import values

TriedFlavors = tuple[dict[values.ResourceName, int], ...]
"""Per pod set: resource to the index of the last flavor tried; -1 if that was the last flavor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanProgress(values.Value):
    """Where the flavor scan of a workload stopped; the next cycle continues there."""

    tried: TriedFlavors
    generation: int
    cycle: int
    scheduling_hash: str

    @property
    def flavors_remain(self) -> bool:
        return any(index != -1 for tried in self.tried for index in tried.values())

    def matches(self, scheduling_hash: str) -> bool:
        return not self.scheduling_hash or not scheduling_hash or self.scheduling_hash == scheduling_hash
