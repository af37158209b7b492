"""Devices of ResourceSlices and the CEL expressions that select them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from pykueue.api import errors
from pykueue.api.cel import limits
from pykueue.api.cel.errors import CompilationError, EvaluationError
from pykueue.api.cel.limits import Budget
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
            "allowMultipleAllocations": device.get("allowMultipleAllocations") or False,
            "attributes": _by_domain(driver, device.get("attributes") or {}, _attribute),
            "capacity": _by_domain(driver, device.get("capacity") or {}, _capacity),
        }


def _attribute(attribute: Mapping[str, Any]) -> Any:
    from pykueue.api.cel import amounts

    kind, value = next(iter(attribute.items()))
    return amounts.read_semver(value) if kind == "version" else value


def _capacity(capacity: Mapping[str, Any]) -> Any:
    from pykueue.api.cel import amounts

    return amounts.read_quantity(str(capacity["value"]))


def _by_domain(driver: str, values: Mapping[str, Any], value_of: Any) -> dict[str, dict[str, Any]]:
    # Imported here, as the interpreter is, because few clusters have devices.
    from pykueue.api.cel.values import DefaultMap

    by_domain: dict[str, dict[str, Any]] = DefaultMap({driver: {}})
    for qualified, value in values.items():
        domain, _, name = qualified.rpartition("/")
        by_domain.setdefault(domain or driver, {})[name] = value_of(value)
    return by_domain


class DeviceSelector:
    """Whether a device matches all expressions; raises SelectorError if one cannot be used."""

    def __init__(self, texts: Sequence[str]) -> None:
        # Imported here because few workloads use selectors.
        from pykueue.api.cel import programs

        self._budget = Budget(limits.SELECTOR_BUDGET, limits.SELECTOR_LIMIT)
        try:
            self._programs = [programs.compile_selector(text) for text in texts]
        except CompilationError as error:
            raise SelectorError(str(error)) from None

    def matches(self, device: Object) -> bool:
        remaining = self._budget.remaining + limits.SELECTOR_BUDGET_PER_DEVICE
        self._budget.remaining = min(remaining, limits.SELECTOR_BUDGET)
        try:
            return all(self._budget.run(program, {"device": device}) for program in self._programs)
        except EvaluationError as error:
            raise SelectorError(str(error)) from None
