"""Admission fair sharing: the decayed usage of each local queue, and entry penalties for recent
admissions.

Amounts are integer nano-units per resource, as in Kueue; only the weighted usage, which is
compared, is a float. The cycle reads `usage` to order heads and preemption candidates, and pushes
penalties. The usage sampler sends samples.
"""

import math
from collections.abc import Mapping

from pykueue.engine import values
from pykueue.engine.policy import AdmissionFairSharing

NANO = 10**9
_MILLI_PER_UNIT = 1000


class UsageLedger:
    def __init__(self, config: AdmissionFairSharing | None) -> None:
        self._config = config
        self.consumed: dict[values.LocalQueueKey, dict[values.ResourceName, int]] = {}
        self._penalties: dict[values.LocalQueueKey, dict[values.WorkloadKey, dict[values.ResourceName, int]]] = {}

    def usage(self, key: values.LocalQueueKey, weight: float) -> float:
        if weight <= 0:
            return math.inf
        assert self._config is not None
        total = dict(self.consumed.get(key, {}))
        for penalty in self._penalties.get(key, {}).values():
            for resource, nano in penalty.items():
                total[resource] = total.get(resource, 0) + nano
        weights = self._config.resource_weights
        used = 0.0
        for resource in sorted(total):
            used += weights.get(resource, 1.0) * (total[resource] / NANO)
        return used / weight

    def push_penalty(
        self, key: values.LocalQueueKey, workload: values.WorkloadKey, requests: Mapping[values.ResourceName, int]
    ) -> None:
        """Charge a reservation at once for the usage that one sampling interval will add."""
        assert self._config is not None
        rate = alpha(self._config.sampling_interval_ns, self._config.half_life_ns)
        self._penalties.setdefault(key, {})[workload] = {
            resource: scaled(in_nano(resource, amount), rate) for resource, amount in requests.items()
        }

    def drop_penalty(
        self, key: values.LocalQueueKey, workload: values.WorkloadKey
    ) -> Mapping[values.ResourceName, int]:
        return self._penalties.get(key, {}).pop(workload, {})

    def settle(self, key: values.LocalQueueKey, workload: values.WorkloadKey) -> None:
        """Turn the penalty of an admitted workload into consumed usage."""
        penalty = self.drop_penalty(key, workload)
        consumed = self.consumed.setdefault(key, {})
        for resource, nano in penalty.items():
            consumed[resource] = consumed.get(resource, 0) + nano

    def forget(self, key: values.LocalQueueKey) -> None:
        self.consumed.pop(key, None)
        self._penalties.pop(key, None)


def in_nano(resource: values.ResourceName, amount: int) -> int:
    return amount * (NANO // _MILLI_PER_UNIT) if resource == "cpu" else amount * NANO


def alpha(elapsed_ns: int, half_life_ns: int) -> float:
    return 1.0 - math.pow(0.5, elapsed_ns / half_life_ns) if half_life_ns else 0.0


def scaled(nano: int, factor: float) -> int:
    """Rounded down at the ninth decimal."""
    return math.floor(nano * factor)


def decayed(
    old: Mapping[values.ResourceName, int],
    current: Mapping[values.ResourceName, int],
    elapsed_ns: int,
    half_life_ns: int,
) -> dict[values.ResourceName, int]:
    """The consumed usage after `elapsed_ns`, during which `current` was used."""
    rate = alpha(elapsed_ns, half_life_ns)
    return {
        resource: scaled(old.get(resource, 0), 1 - rate) + scaled(current.get(resource, 0), rate)
        for resource in sorted({*old, *current})
    }
