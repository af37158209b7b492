"""GPUs by index: which devices of a node are allocated to which pod.

The indexes are written into an annotation of the pod, so that the allocation survives a restart.
"""

from collections.abc import Callable, Collection

from pykueue.api import objects
from pykueue.api.reserved_keys import GPU_INDEXES
from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.scheduler import extended_resources, fleet

GPU = "nvidia.com/gpu"
_LONGEST_INDEX = 6


class DeviceManager:
    """The devices of every node. `node` looks up a node by its name."""

    def __init__(self, node: Callable[[str], Object | None]) -> None:
        self._node = node
        self._devices: dict[str, Devices] = {}

    def of(self, pod: Object) -> "Devices":
        """The devices of the pod's node, as many as the node has now."""
        name = pods.node_name(pod)
        devices, node = self._devices.setdefault(name, Devices(0)), self._node(name)
        if node is not None:
            devices.count = fleet.capacity(node).get(GPU, 0)
        return devices

    def restore(self, pod: Object) -> None:
        """Allocate the devices that a running pod had before the kubelet started."""
        if pods.node_name(pod) and not pods.is_finished(pod):
            self.of(pod).restore(pod)


class Devices:
    """The devices of one node. The lowest free indexes are allocated first."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._allocated: dict[str, tuple[int, ...]] = {}

    def allocate(self, pod: Object, foreign: Collection[int] = ()) -> tuple[int, ...] | None:
        """The pod's devices: those it has already, or new ones; None if too few are free.

        `foreign` are devices that programs use which are not jobs.
        """
        self.restore(pod)
        uid = objects.uid(pod)
        if uid not in self._allocated:
            count, free = requested(pod), [index for index in self.free() if index not in foreign]
            if len(free) < count:
                return None
            self._allocated[uid] = tuple(free[:count])
        return self._allocated[uid]

    def restore(self, pod: Object) -> None:
        """Allocate the devices that the pod's annotation names, if they are free.

        An annotation that names more or fewer devices than the pod requests is ignored.
        """
        uid = objects.uid(pod)
        indexes = _annotated(pod)
        if indexes and uid not in self._allocated and len(indexes) == requested(pod) and indexes <= set(self.free()):
            self._allocated[uid] = tuple(sorted(indexes))

    def allocated(self, uid: str) -> tuple[int, ...]:
        return self._allocated.get(uid, ())

    def free(self) -> list[int]:
        used = {index for indexes in self._allocated.values() for index in indexes}
        return [index for index in range(self.count) if index not in used]

    def release(self, uid: str) -> None:
        self._allocated.pop(uid, None)


def requested(pod: Object) -> int:
    return 0 if GPU in extended_resources.claimed(pod) else max(0, fleet.requests(pod["spec"]).get(GPU, 0))


def _annotated(pod: Object) -> set[int]:
    """The indexes in the pod's annotation; none if they are not distinct numbers."""
    texts = objects.annotations(pod).get(GPU_INDEXES, "").split(",")
    indexes = {int(text) for text in texts if text.isdecimal() and len(text) <= _LONGEST_INDEX}
    return indexes if len(indexes) == len(texts) else set()
