"""The devices of the cluster as the object cache has them, for `translate.devices`."""

from collections.abc import Iterable

from pykueue.api import resources
from pykueue.api.scheme import Object
from pykueue.kube.controller.cache import ObjectCache

RESOURCES = (resources.RESOURCE_CLAIM_TEMPLATE, resources.DEVICE_CLASS, resources.RESOURCE_SLICE)


class DeviceInventory:
    def __init__(self, cache: ObjectCache) -> None:
        self._cache = cache

    def template(self, namespace: str, name: str) -> Object | None:
        return self._cache.get(resources.RESOURCE_CLAIM_TEMPLATE, name, namespace)

    def classes(self) -> Iterable[Object]:
        return self._cache.all(resources.DEVICE_CLASS)

    def slices(self) -> Iterable[Object]:
        return self._cache.all(resources.RESOURCE_SLICE)
