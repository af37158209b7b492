"""Devices that are counted by what they consume: counters of partitions, or capacity of a share.

`sources` of a device class mapping names a driver and a counter or a capacity. The charge of a
request is that of the most expensive device that matches, times the number of devices. Called by
`devices`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pykueue.api import objects, quantity
from pykueue.api.errors import FieldError, Verbatim
from pykueue.api.scheme import Object
from pykueue.translate.device_selectors import (
    DeviceError,
    DeviceLister,
    DeviceSelector,
    SelectorError,
    cel_devices,
    expressions,
    not_found,
)

_MOST = 2**63 - 1


class DeviceSource(msgspec.Struct, frozen=True, kw_only=True):
    """A counter or capacity of the devices of a driver, and the resource it is charged as."""

    resource: str
    driver: str
    name: str
    selector: str
    is_counter: bool


Sources = Mapping[str, tuple[DeviceSource, ...]]
"""The sources of each DeviceClass."""


def from_mappings(mappings: Iterable[Mapping[str, Any]], kinds: frozenset[str]) -> Sources:
    """The sources in `resources.deviceClassMappings` of these kinds: counter, capacity.

    A counter is charged as the resource of its own mapping, a capacity as that of the first
    mapping of the class.
    """
    sources: dict[str, tuple[DeviceSource, ...]] = {}
    first: dict[str, str] = {}
    for mapping in mappings:
        for device_class in mapping.get("deviceClassNames") or ():
            first.setdefault(device_class, mapping["name"])
            for kind, source in _sources_of(mapping, kinds):
                sources[device_class] = (
                    *sources.get(device_class, ()),
                    DeviceSource(
                        resource=mapping["name"] if kind == "counter" else first[device_class],
                        driver=source.get("driver", ""),
                        name=source.get("name", ""),
                        selector=objects.nested(source, "deviceSelector", "cel").get("expression", ""),
                        is_counter=kind == "counter",
                    ),
                )
    return sources


def _sources_of(mapping: Mapping[str, Any], kinds: frozenset[str]) -> Iterator[tuple[str, Object]]:
    for entry in mapping.get("sources") or ():
        for kind in sorted(kinds):
            if entry.get(kind):
                yield kind, entry[kind]


def charges(
    requests: Sequence[Object], sources: Sources, lister: DeviceLister, path: str, *, counters: bool
) -> Iterator[tuple[str, int]]:
    """The charges of the requests of a claim: counters, or capacity."""
    for index, request in enumerate(requests):
        exactly = request["exactly"]
        for source in sources.get(exactly.get("deviceClassName", ""), ()):
            if source.is_counter == counters:
                yield source.resource, _Charge(source, exactly, lister, f"{path}.devices.requests[{index}]").amount()


class _Charge:
    """The charge of one source for one device request."""

    def __init__(self, source: DeviceSource, exactly: Object, lister: DeviceLister, path: str) -> None:
        self._source = source
        self._exactly = exactly
        self._lister = lister
        self._path = path
        self._count = int(exactly.get("count", 1))

    def amount(self) -> int:
        matched = self._matched()
        kind = "counter" if self._source.is_counter else "capacity"
        if len(matched) < self._count:
            text = f"insufficient matching devices for {kind} driver: {len(matched)} device(s) match but"
            raise self._error(f"{text} {self._count} requested")
        largest = self._counter(matched) if self._source.is_counter else self._capacity(matched)
        return min(max(0, largest) * max(1, self._count), _MOST)

    def _counter(self, matched: Sequence[Object]) -> int:
        amounts = [
            _value(consumption["counters"][self._source.name]["value"])
            for device in matched
            for consumption in device.get("consumesCounters") or ()
            if self._source.name in (consumption.get("counters") or {})
        ]
        if not amounts:
            raise self._error(f'matched devices have no consumesCounters entry for counter "{self._source.name}"')
        return max(amounts)

    def _capacity(self, matched: Sequence[Object]) -> int:
        name = self._source.name
        capacities = [device["capacity"][name] for device in matched if name in (device.get("capacity") or {})]
        if not capacities:
            raise self._error(f'matched devices have no capacity dimension "{name}"')
        request = objects.nested(self._exactly, "capacity", "requests").get(name)
        amounts = [amount for capacity in capacities if (amount := rounded(capacity, request)) is not None]
        if not amounts:
            detail = (
                f'capacity request cannot be satisfied by any matched device\'s RequestPolicy for dimension "{name}"'
            )
            raise DeviceError(FieldError("FieldValueInvalid", self._path, detail, Verbatim("null")))
        return max(amounts)

    def _matched(self) -> list[Object]:
        """The devices of complete pools that match the selectors of source, class and request."""
        selectors = [
            ("deviceSelector", self._selector([self._source.selector] if self._source.selector else [])),
            ("DeviceClass selector", self._selector(expressions(self._class()["spec"]))),
            ("request selector", self._selector(expressions(self._exactly))),
        ]
        return [
            device
            for resource_slice in complete_slices(
                entry for entry in self._slices() if entry["spec"].get("driver") == self._source.driver
            )
            for device, cel_device in zip(
                resource_slice["spec"].get("devices") or (), cel_devices(resource_slice), strict=True
            )
            if self._matches(selectors, device, cel_device)
        ]

    def _matches(self, selectors: Sequence[tuple[str, DeviceSelector]], device: Object, cel_device: Object) -> bool:
        for words, selector in selectors:
            try:
                if not selector.matches(cel_device):
                    return False
            except SelectorError as error:
                text = f"CEL evaluation error in {words} for device {device.get('name', '')}: {error}"
                raise self._error(text) from None
        return True

    def _selector(self, texts: Sequence[str]) -> DeviceSelector:
        try:
            return DeviceSelector(texts)
        except SelectorError as error:
            detail = f"CEL compilation failed: {error}"
            path = f"{self._path}.exactly.selectors"
            raise DeviceError(FieldError("FieldValueInvalid", path, detail, "; ".join(texts))) from None

    def _class(self) -> Object:
        name = self._exactly.get("deviceClassName", "")
        for device_class in self._lister.classes():
            if objects.name(device_class) == name:
                return device_class
        raise self._error(f"failed to get DeviceClass {name}: {not_found('DeviceClass', name)}")

    def _slices(self) -> list[Object]:
        try:
            return list(self._lister.slices())
        except LookupError as error:
            raise self._error(f"failed to list ResourceSlices: {error.args[0]}") from None

    def _error(self, detail: str) -> DeviceError:
        return DeviceError(FieldError("InternalError", self._path, detail))


def complete_slices(slices: Iterable[Object]) -> Iterator[Object]:
    """The slices of the pools in their newest generation, if all of them are there."""
    pools: dict[tuple[str, str], list[Object]] = {}
    for resource_slice in slices:
        key = resource_slice["spec"].get("driver", ""), _pool(resource_slice).get("name", "")
        pools.setdefault(key, []).append(resource_slice)
    for members in pools.values():
        newest = max(_pool(member).get("generation", 0) for member in members)
        current = [member for member in members if _pool(member).get("generation", 0) == newest]
        if len(current) == _pool(current[0]).get("resourceSliceCount", 1):
            yield from current


def _pool(resource_slice: Object) -> Object:
    return objects.nested(resource_slice, "spec", "pool")


def rounded(capacity: Object, request: str | None) -> int | None:
    """What a request takes of a capacity by its policy; None if the policy does not allow it.

    Without a request it is the default of the policy, or everything.
    """
    policy = objects.nested(capacity, "requestPolicy")
    base = quantity.parse(str(request or policy.get("default") or capacity["value"]))
    if policy.get("validValues"):
        valid = [quantity.parse(str(text)) for text in policy["validValues"]]
        return next((_units(value) for value in valid if value.nano >= base.nano), None)
    if not policy.get("validRange"):
        return _units(base)
    limits = {name: _value(text) for name, text in policy["validRange"].items()}
    amount = _units(base)
    if "min" in limits:
        amount = max(amount, limits["min"])
        if limits.get("step", 0) > 0:
            amount += -(amount - limits["min"]) % limits["step"]
    return None if amount > limits.get("max", amount) else amount


def _value(text: Any) -> int:
    return _units(quantity.parse(str(text)))


def _units(amount: quantity.Quantity) -> int:
    """Whole units, rounded up as Kubernetes rounds a quantity."""
    return min(-(-amount.nano // quantity.NANO_PER_UNIT), _MOST)
