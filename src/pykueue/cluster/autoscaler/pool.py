"""What one NodePool can make: candidate nodes with their labels, taints and size, and its bounds."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from pykueue.api import durations, objects, resource_lists
from pykueue.api.scheme import Object
from pykueue.api.selectors import Requirement
from pykueue.api.times import SECOND_NS
from pykueue.cluster.autoscaler import machine_types as shapes
from pykueue.cluster.autoscaler.machine_types import MachineType
from pykueue.cluster.scheduler.fleet import Amounts

POOL = "karpenter.sh/nodepool"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
MIN_NODES = "pykueue.dev/min-nodes"
MAX_NODES = "pykueue.dev/max-nodes"
START_DELAY = "pykueue.dev/start-delay"
_DEFAULT_IDLE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Pool:
    object: Object

    @property
    def name(self) -> str:
        return objects.name(self.object)

    @property
    def template(self) -> Object:
        template: Object = self.object["spec"].get("template") or {}
        return template

    @property
    def weight(self) -> int:
        return int(self.object["spec"].get("weight", 0))

    @property
    def taints(self) -> list[Object]:
        return list((self.template.get("spec") or {}).get("taints") or ())

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        given = (self.template.get("spec") or {}).get("requirements") or ()
        return tuple(
            Requirement(found["key"], found["operator"], frozenset(map(str, found.get("values") or ())))
            for found in given
        )

    @property
    def limits(self) -> Amounts:
        stated = resource_lists.parse(self.object["spec"].get("limits"))
        return {name: resource_lists.amount(name, value) for name, value in stated.items()}

    @property
    def min_nodes(self) -> int:
        return int(objects.annotations(self.object).get(MIN_NODES, "0"))

    @property
    def max_nodes(self) -> int | None:
        text = objects.annotations(self.object).get(MAX_NODES, "")
        return int(text) if text else None

    @property
    def start_delay(self) -> timedelta:
        return _duration(objects.annotations(self.object).get(START_DELAY, "0s")) or timedelta()

    @property
    def idle_time(self) -> timedelta | None:
        """How long a node may be empty; None: for ever."""
        disruption = self.object["spec"].get("disruption") or {}
        return (
            _duration(disruption.get("consolidateAfter", "")) if disruption.get("consolidateAfter") else _DEFAULT_IDLE
        )

    def shapes(self) -> list[MachineType]:
        """The types that the pool's requirements allow, smallest first."""
        allowed = [shape for shape in shapes.of_pool(self.object) if self._allows(shape)]
        return sorted(allowed, key=lambda shape: (_size(shape), shape.name))

    def _allows(self, shape: MachineType) -> bool:
        known = {INSTANCE_TYPE: shape.name, **shape.labels}
        return all(found.matches(known) for found in self.requirements if found.key in known)

    def labels(self, shape: MachineType) -> dict[str, str]:
        """What a node of this pool and type carries; a requirement with values fixes the first of them."""
        chosen = {
            found.key: min(found.values)
            for found in self.requirements
            if found.operator == "In" and found.values and found.key not in (INSTANCE_TYPE, *shape.labels)
        }
        given = (self.template.get("metadata") or {}).get("labels") or {}
        return (
            {CAPACITY_TYPE: "on-demand"}
            | chosen
            | dict(shape.labels)
            | given
            | {POOL: self.name, INSTANCE_TYPE: shape.name}
        )

    def could_have(self, wanted: Mapping[str, str]) -> bool:
        """Whether some node of this pool could carry all of these labels."""
        return any(self._could_carry(shape, wanted) for shape in self.shapes())

    def _could_carry(self, shape: MachineType, wanted: Mapping[str, str]) -> bool:
        fixed = self.labels(shape)
        open_keys = {
            found.key: found.values for found in self.requirements if found.operator == "In" and len(found.values) > 1
        }
        return all(
            value in open_keys[key] if key in open_keys and key != INSTANCE_TYPE else fixed.get(key) == value
            for key, value in wanted.items()
        )


def _size(shape: MachineType) -> tuple[int, int, int]:
    amounts = {
        name: resource_lists.amount(name, value) for name, value in resource_lists.parse(shape.resources).items()
    }
    gpus = sum(amount for name, amount in amounts.items() if name.endswith("gpu"))
    return gpus, amounts.get("cpu", 0), amounts.get("memory", 0)


def _duration(text: str) -> timedelta | None:
    if text == "Never":
        return None
    if re.fullmatch(r"\d+", text):
        return timedelta(seconds=int(text))
    return timedelta(seconds=durations.to_ns(text or "0s") / SECOND_NS)
