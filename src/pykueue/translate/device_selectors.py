"""Devices of ResourceSlices and the CEL expressions that select them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from pykueue.api import errors, quantity
from pykueue.api.errors import FieldError
from pykueue.api.scheme import Object


class DeviceLister(Protocol):
    """The ResourceClaimTemplates, DeviceClasses and ResourceSlices of the cluster."""

    def template(self, namespace: str, name: str) -> Object | None: ...

    def classes(self) -> Iterable[Object]: ...

    def slices(self) -> Iterable[Object]:
        """Raises LookupError with the reason if ResourceSlices cannot be listed."""
        ...


class DeviceError(Exception):
    """The devices of a workload cannot be counted."""

    def __init__(self, *faults: FieldError) -> None:
        super().__init__(errors.aggregate(faults))


class SelectorError(Exception):
    """A CEL selector cannot be compiled or evaluated."""


def not_found(kind: str, name: str) -> str:
    """The error text of Kueue's cache, which names the kind instead of the plural."""
    return f'{kind}.resource.k8s.io "{name}" not found'


def expressions(spec: Object) -> list[str]:
    return [selector["cel"]["expression"] for selector in spec.get("selectors") or () if selector.get("cel")]


def cel_devices(resource_slice: Object) -> Iterator[Object]:
    """The devices as CEL values: attributes and capacity by domain, by default the driver."""
    driver = resource_slice["spec"].get("driver", "")
    for device in resource_slice["spec"].get("devices") or ():
        yield {
            "driver": driver,
            "attributes": _by_domain(
                driver, device.get("attributes") or {}, lambda attribute: next(iter(attribute.values()))
            ),
            "capacity": _by_domain(
                driver, device.get("capacity") or {}, lambda capacity: quantity.parse(str(capacity["value"])).milli()
            ),
        }


def _by_domain(driver: str, values: Mapping[str, Any], value_of: Any) -> dict[str, dict[str, Any]]:
    by_domain: dict[str, dict[str, Any]] = {driver: {}}
    for qualified, value in values.items():
        domain, _, name = qualified.rpartition("/")
        by_domain.setdefault(domain or driver, {})[name] = value_of(value)
    return by_domain


class DeviceSelector:
    """Whether a device matches all expressions; raises SelectorError if one cannot be used."""

    def __init__(self, texts: Sequence[str]) -> None:
        # Imported here because few workloads use selectors and loading the CEL library takes long.
        from pykueue.api import cel, cel_library

        self._evaluate = cel_library.evaluate_with
        self._error = cel.EvaluationError
        try:
            self._expressions = [cel_library.compile_selector(text) for text in texts]
        except cel_library.CompilationError as error:
            raise SelectorError(str(error)) from None

    def matches(self, device: Object) -> bool:
        try:
            return all(self._evaluate(expression, {"device": device}) for expression in self._expressions)
        except self._error as error:
            raise SelectorError(str(error)) from None
