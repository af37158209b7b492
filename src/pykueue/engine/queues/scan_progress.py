"""The progress of a flavor scan: which flavors of a workload were tried. Kept with each pending
workload by `pending_queue`, and written by `nominate`.
"""

from typing import NamedTuple, Self

from pykueue.engine import values

TriedFlavors = tuple[dict[values.ResourceName, int], ...]
"""Per pod set: resource to the index of the last flavor tried; -1 if that was the last flavor."""


def flavors_remain(tried: TriedFlavors) -> bool:
    """Whether some flavor was not tried."""
    for last_flavors in tried:
        for index in last_flavors.values():
            if index != -1:
                return True
    return False


class ScanProgress(NamedTuple):
    """Where the flavor scan of a workload stopped; the next cycle continues there."""

    tried: TriedFlavors
    generation: int
    cycle: int
    scheduling_hash: str
    flavors_remain: bool
    """Without it the next cycle starts with the first flavor, also if the scan is not outdated."""

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """A value never changes, so a fork shares it."""
        return self

    def matches(self, scheduling_hash: str) -> bool:
        return not self.scheduling_hash or not scheduling_hash or self.scheduling_hash == scheduling_hash
