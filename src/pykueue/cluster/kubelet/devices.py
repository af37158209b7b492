"""GPUs by index: which devices of a node are allocated to which pod.

The indexes are written into an annotation of the pod, so that the allocation survives a restart.
"""

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster.scheduler import fleet

GPU = "nvidia.com/gpu"
GPU_INDEXES = "pykueue.dev/gpu-indexes"


class Devices:
    """The devices of one node. The lowest free indexes are allocated first."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._allocated: dict[str, tuple[int, ...]] = {}

    def allocate(self, pod: Object) -> tuple[int, ...] | None:
        """The pod's devices: those it has already, or new ones; None if too few are free."""
        uid = objects.uid(pod)
        if uid in self._allocated:
            return self._allocated[uid]
        count = fleet.requests(pod["spec"]).get(GPU, 0)
        if annotation := objects.annotations(pod).get(GPU_INDEXES):
            self._allocated[uid] = tuple(int(index) for index in annotation.split(","))
            return self._allocated[uid]
        used = {index for indexes in self._allocated.values() for index in indexes}
        free = [index for index in range(self.count) if index not in used]
        if len(free) < count:
            return None
        self._allocated[uid] = tuple(free[:count])
        return self._allocated[uid]

    def release(self, uid: str) -> None:
        self._allocated.pop(uid, None)
