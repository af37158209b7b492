"""The devices that ResourceSlices offer, and what allocated claims use of them. Without I/O."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pykueue.api import objects, quantity
from pykueue.api.scheme import Object
from pykueue.cluster.scheduler import affinity
from pykueue.translate import device_selectors, device_sources

DeviceKey = tuple[str, str, str]
"""Driver, pool and name."""
_POOL = ("spec", "pool")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    driver: str
    pool: str
    spec: Object
    cel: Object
    """The device as CEL expressions see it."""
    node_name: str
    """The only node that can use it; empty if several can."""

    @property
    def key(self) -> DeviceKey:
        return self.driver, self.pool, self.spec["name"]

    @property
    def is_shared(self) -> bool:
        return bool(self.spec.get("allowMultipleAllocations"))

    def attribute(self, name: str) -> object:
        """The value of an attribute by its full name; the driver is the default domain."""
        attributes = self.spec.get("attributes") or {}
        domain, _, short = name.rpartition("/")
        value = attributes.get(name) or (attributes.get(short) if domain in ("", self.driver) else None)
        return None if value is None else next(iter(value.values()))

    def consumed(self, request: Object) -> dict[str, int] | None:
        """What a request takes of each capacity of a shared device; None if it is not allowed."""
        requested = objects.nested(request, "capacity", "requests")
        amounts: dict[str, int] = {}
        for name, capacity in (self.spec.get("capacity") or {}).items():
            amount = device_sources.rounded(capacity, requested.get(name))
            if amount is None:
                return None
            amounts[name] = amount
        return amounts if requested.keys() <= amounts.keys() else None


@dataclass(slots=True)
class DeviceUsage:
    """What is in use: whole devices, capacity of shared devices, and counters of partitions."""

    devices: set[DeviceKey] = field(default_factory=set)
    amounts: dict[tuple[str, ...], int] = field(default_factory=dict)

    def add(self, device: Device, consumed: Mapping[str, int], sign: int = 1) -> None:
        """Count a device, or with the sign -1 count it no longer."""
        if device.is_shared:
            for name, amount in consumed.items():
                self._add((*device.key, name), sign * amount)
        elif sign > 0:
            self.devices.add(device.key)
        else:
            self.devices.discard(device.key)
        for counter, amount in counters(device):
            self._add(counter, sign * amount)

    def _add(self, key: tuple[str, ...], amount: int) -> None:
        self.amounts[key] = self.amounts.get(key, 0) + amount

    def fits(self, device: Device, consumed: Mapping[str, int], limits: Mapping[tuple[str, ...], int]) -> bool:
        if not device.is_shared:
            if device.key in self.devices:
                return False
        elif any(
            self.amounts.get((*device.key, name), 0) + amount > units(device.spec["capacity"][name]["value"])
            for name, amount in consumed.items()
        ):
            return False
        return all(
            self.amounts.get(counter, 0) + amount <= limits.get(counter, 0) for counter, amount in counters(device)
        )


def counters(device: Device) -> Iterator[tuple[tuple[str, ...], int]]:
    for consumption in device.spec.get("consumesCounters") or ():
        for name, counter in (consumption.get("counters") or {}).items():
            yield (device.driver, device.pool, "counter", consumption["counterSet"], name), units(counter["value"])


def units(text: object) -> int:
    return quantity.parse(str(text)).nano // quantity.NANO_PER_UNIT


class SchedulableDevices:
    """The devices of complete pools, and the counters that their partitions share."""

    def __init__(self, slices: Iterable[Object]) -> None:
        self._slices = list(device_sources.complete_slices(slices))
        self.limits: dict[tuple[str, ...], int] = {
            (resource_slice["spec"]["driver"], _pool_name(resource_slice), "counter", counter_set["name"], name): units(
                counter["value"]
            )
            for resource_slice in self._slices
            for counter_set in resource_slice["spec"].get("sharedCounters") or ()
            for name, counter in (counter_set.get("counters") or {}).items()
        }

    def devices(self, node: Object | None = None) -> Iterator[Device]:
        """The devices that a node can use; without a node, all devices."""
        for resource_slice in self._slices:
            spec = resource_slice["spec"]
            listed = spec.get("devices") or ()
            for device, cel in zip(listed, device_selectors.cel_devices(resource_slice), strict=True):
                access = device if spec.get("perDeviceNodeSelection") else spec
                if node is None or _reaches(access, node):
                    yield Device(
                        driver=spec["driver"],
                        pool=_pool_name(resource_slice),
                        spec=device,
                        cel=cel,
                        node_name=access.get("nodeName") or "",
                    )

    def usage(self, claims: Iterable[Object]) -> DeviceUsage:
        """What the allocations of the claims use; administrative access uses nothing."""
        by_key = {device.key: device for device in self.devices()}
        usage = DeviceUsage()
        for claim in claims:
            for result in objects.nested_list(claim, "status", "allocation", "devices", "results"):
                device = by_key.get((result["driver"], result["pool"], result["device"]))
                if device is not None and not result.get("adminAccess"):
                    consumed = {name: units(text) for name, text in (result.get("consumedCapacity") or {}).items()}
                    usage.add(device, consumed)
        return usage


def _pool_name(resource_slice: Object) -> str:
    name: str = objects.nested(resource_slice, *_POOL).get("name", "")
    return name


def _reaches(access: Object, node: Object) -> bool:
    if access.get("allNodes"):
        return True
    if access.get("nodeName"):
        return bool(access["nodeName"] == objects.name(node))
    return access.get("nodeSelector") is not None and affinity.matches_terms(
        access["nodeSelector"].get("nodeSelectorTerms") or (), objects.labels(node), objects.name(node)
    )
