"""GPUs by index: which of a node's devices a pod holds. A pod's share is written on it, so that it survives a restart."""

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster.scheduler import fleet

GPU = "nvidia.com/gpu"
ANNOTATION = "pykueue.dev/gpu-indexes"


class Devices:
    """The devices of one node. The lowest free indexes are given out."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._held: dict[str, tuple[int, ...]] = {}

    def take(self, pod: Object) -> tuple[int, ...] | None:
        """The pod's devices (those it already holds, if any); None if too few are free."""
        uid = objects.uid(pod)
        if uid in self._held:
            return self._held[uid]
        wanted = fleet.requests(pod["spec"]).get(GPU, 0)
        if noted := objects.annotations(pod).get(ANNOTATION):
            self._held[uid] = tuple(int(index) for index in noted.split(","))
            return self._held[uid]
        taken = {index for held in self._held.values() for index in held}
        free = [index for index in range(self.count) if index not in taken]
        if len(free) < wanted:
            return None
        self._held[uid] = tuple(free[:wanted])
        return self._held[uid]

    def give_back(self, uid: str) -> None:
        self._held.pop(uid, None)
