"""What the mirror knows of devices, for `translate.devices`. Used by the feed of the engine and by the workload controller."""

from collections.abc import Iterable

from pykueue.api import resources
from pykueue.api.scheme import Object
from pykueue.kube.controller.cache import ObjectCache

RESOURCES = (resources.RESOURCE_CLAIM_TEMPLATE, resources.DEVICE_CLASS, resources.RESOURCE_SLICE)


class DeviceInventory:
    def __init__(self, mirror: ObjectCache) -> None:
        self._mirror = mirror

    def template(self, namespace: str, name: str) -> Object | None:
        return self._mirror.get(resources.RESOURCE_CLAIM_TEMPLATE, name, namespace)

    def classes(self) -> Iterable[Object]:
        return self._mirror.all(resources.DEVICE_CLASS)

    def slices(self) -> Iterable[Object]:
        return self._mirror.all(resources.RESOURCE_SLICE)
