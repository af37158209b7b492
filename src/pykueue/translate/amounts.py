"""Converts Kubernetes quantities to the engine's integers and back.

The engine counts `cpu` in thousandths and every other resource in whole units. The largest int64
means "unlimited". Called by the rest of `translate` and wherever an engine amount is printed.
"""

from collections.abc import Mapping
from typing import Any

from pykueue.api import quantity, resource_lists
from pykueue.api.quantity import Format
from pykueue.engine.quota.amounts import UNLIMITED, mul

_LARGEST_COUNT = 2**31 - 1


def of_quota(resource: str, text: Any) -> int:
    """The amount of a quota; a quota that is too large for an int64 is unlimited."""
    value = quantity.parse(text)
    largest_units = UNLIMITED // 1000 if resource == "cpu" else UNLIMITED
    return UNLIMITED if value.nano >= largest_units * quantity.NANO_PER_UNIT else resource_lists.amount(resource, value)


def of_requests(requests: Mapping[str, Any] | None) -> dict[str, int]:
    return {name: resource_lists.amount(name, value) for name, value in resource_lists.parse(requests).items()}


def scaled(requests: Mapping[str, int], factor: int) -> dict[str, int]:
    return {name: mul(amount, factor) for name, amount in requests.items()}


def rescaled(requests: Mapping[str, int], *, from_count: int, to_count: int) -> dict[str, int]:
    """Scale requests of `from_count` pods to `to_count` pods; one pod is rounded down."""
    one_pod = {name: _divided(amount, from_count) if amount else 0 for name, amount in requests.items()}
    return scaled(one_pod, to_count)


def count_in(requests: Mapping[str, int], capacity: Mapping[str, int]) -> int:
    """How many pods with these requests fit into the capacity."""
    counts = [max(0, capacity.get(name, 0)) // amount for name, amount in requests.items() if amount]
    if not requests:
        return 0
    return min([*counts, _LARGEST_COUNT])


def to_text(resource: str, amount: int) -> str:
    """The amount as a quantity, in the format that Kueue prints for the resource."""
    if resource == "cpu":
        return str(quantity.from_milli(amount))
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        # Kueue parses the quantity again, which gives an amount without a short binary form a
        # decimal one.
        return str(quantity.parse(str(quantity.from_units(amount, Format.BINARY_SI))))
    return str(quantity.from_units(amount, Format.DECIMAL_SI))


def as_float(resource: str, amount: int) -> float:
    """The amount in whole units, as metrics report it."""
    return amount / 1000 if resource == "cpu" else float(amount)


def to_list(requests: Mapping[str, int]) -> dict[str, str]:
    return {name: to_text(name, amount) for name, amount in requests.items()}


def _divided(amount: int, divisor: int) -> int:
    return amount // divisor if amount >= 0 else -(-amount // divisor)
