"""GPUs by index: which devices of a node are allocated to which pod.

A device is a whole GPU, a MIG instance, or a share of a GPU that several pods use at a time; the
resources have the names of NVIDIA's device plugin. A node has whole GPUs, as many as its
allocatable says, unless its annotation lists its devices. The indexes of a pod's devices are
written into an annotation of the pod, so that the allocation survives a restart.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable

import msgspec

from pykueue.api import objects
from pykueue.api.gpu_resources import GPU, is_gpu
from pykueue.api.reserved_keys import GPU_INDEXES
from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.scheduler import extended_resources, fleet

DEVICES = "pykueue.dev/gpu-devices"
"""The annotation of a Node: its devices as JSON."""
_LONGEST_INDEX = 6


class GpuDevice(msgspec.Struct, frozen=True):
    resource: str
    gpu: int
    """The index of the GPU that it is, or is a part of."""
    uuid: str = ""
    """Of a MIG instance; CUDA knows a GPU by its index."""


def listed(node: Object) -> tuple[GpuDevice, ...] | None:
    """The devices that the annotation of a Node lists; None if it has no readable one."""
    try:
        devices = msgspec.json.decode(objects.annotations(node).get(DEVICES, ""), type=tuple[GpuDevice, ...])
    except msgspec.MsgspecError:
        return None
    return devices


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
            table = listed(node)
            devices.replace_table(_whole(fleet.capacity(node).get(GPU, 0)) if table is None else table)
        return devices

    def restore(self, pod: Object) -> None:
        """Allocate the devices that a running pod had before the kubelet started."""
        if pods.node_name(pod) and not pods.is_finished(pod):
            self.of(pod).restore(pod)


class Devices:
    """The devices of one node. The lowest free indexes are allocated first."""

    def __init__(self, count: int) -> None:
        self._table = _whole(count)
        self._allocated: dict[str, tuple[int, ...]] = {}

    def replace_table(self, table: tuple[GpuDevice, ...]) -> None:
        self._table = table

    def allocate(self, pod: Object, foreign: Collection[int] = ()) -> tuple[int, ...] | None:
        """The pod's devices: those it has already, or new ones; None if too few are free.

        `foreign` are GPUs that run programs. A GPU that no pod has a part of, and that runs a
        program, is not allocated. Of shares, those of the least used GPUs are taken.
        """
        self.restore(pod)
        uid = objects.uid(pod)
        if uid not in self._allocated:
            used = Counter(self._table[index].gpu for index in self._used())
            free = [
                index for index in self.free() if used[self._table[index].gpu] or self._table[index].gpu not in foreign
            ]
            free.sort(key=lambda index: used[self._table[index].gpu])
            chosen: list[int] = []
            for resource, count in requested(pod).items():
                suitable = [index for index in free if self._table[index].resource == resource]
                if len(suitable) < count:
                    return None
                chosen += suitable[:count]
            self._allocated[uid] = tuple(sorted(chosen))
        return self._allocated[uid]

    def restore(self, pod: Object) -> None:
        """Allocate the devices that the pod's annotation names, if they are free.

        An annotation that names other devices than the pod requests is ignored.
        """
        uid = objects.uid(pod)
        indexes = _annotated(pod)
        if indexes and uid not in self._allocated and indexes <= set(self.free()):
            resources = Counter(self._table[index].resource for index in indexes)
            if resources == Counter(requested(pod)):
                self._allocated[uid] = tuple(sorted(indexes))

    def allocated(self, uid: str) -> tuple[int, ...]:
        return self._allocated.get(uid, ())

    def free(self) -> list[int]:
        used = self._used()
        return [index for index in range(len(self._table)) if index not in used]

    def at(self, indexes: Iterable[int]) -> tuple[GpuDevice, ...]:
        return tuple(self._table[index] for index in indexes)

    def release(self, uid: str) -> None:
        self._allocated.pop(uid, None)

    def _used(self) -> set[int]:
        """Allocated indexes. Those of devices that the node no longer has do not count."""
        indexes = {index for allocated in self._allocated.values() for index in allocated}
        return {index for index in indexes if index < len(self._table)}


def requested(pod: Object) -> dict[str, int]:
    """How many devices of which resource the pod requests, without those of a claim."""
    amounts = {name: amount for name, amount in fleet.requests(pod["spec"]).items() if amount > 0 and is_gpu(name)}
    claimed = extended_resources.claimed(pod) if amounts else ()
    return {name: amount for name, amount in amounts.items() if name not in claimed}


def _whole(count: int) -> tuple[GpuDevice, ...]:
    return tuple(GpuDevice(GPU, index) for index in range(count))


def _annotated(pod: Object) -> set[int]:
    """The indexes in the pod's annotation; none if they are not distinct numbers."""
    texts = objects.annotations(pod).get(GPU_INDEXES, "").split(",")
    indexes = {int(text) for text in texts if text.isdecimal() and len(text) <= _LONGEST_INDEX}
    return indexes if len(indexes) == len(texts) else set()
