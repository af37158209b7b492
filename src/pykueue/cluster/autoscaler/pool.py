"""One NodePool: the labels, taints and machine types of its nodes, and its limits."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pykueue.api import durations, objects, resource_lists
from pykueue.api.scheme import Object
from pykueue.api.selectors import Requirement
from pykueue.api.times import SECOND_NS
from pykueue.cluster.autoscaler import machine_types
from pykueue.cluster.autoscaler.machine_types import MachineType
from pykueue.cluster.scheduler.fleet import Amounts, Fleet

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
        return objects.nested(self.object, "spec", "template")

    @property
    def weight(self) -> int:
        return int(self.object["spec"].get("weight", 0))

    @property
    def taints(self) -> list[Object]:
        return list(objects.nested_list(self.template, "spec", "taints"))

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        requirements = objects.nested_list(self.template, "spec", "requirements")
        return tuple(
            Requirement(
                requirement["key"], requirement["operator"], frozenset(map(str, requirement.get("values") or ()))
            )
            for requirement in requirements
        )

    @property
    def limits(self) -> Amounts:
        quantities = resource_lists.parse(self.object["spec"].get("limits"))
        return {name: resource_lists.amount(name, value) for name, value in quantities.items()}

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
        """How long a node may be empty before it is removed; None: for ever."""
        disruption = objects.nested(self.object, "spec", "disruption")
        return (
            _duration(disruption.get("consolidateAfter", "")) if disruption.get("consolidateAfter") else _DEFAULT_IDLE
        )

    def machine_types(self) -> list[MachineType]:
        """The machine types that the pool's requirements allow, smallest first."""
        allowed = [machine_type for machine_type in machine_types.of_pool(self.object) if self._allows(machine_type)]
        return sorted(allowed, key=lambda machine_type: (_size(machine_type), machine_type.name))

    def _allows(self, machine_type: MachineType) -> bool:
        type_labels = {INSTANCE_TYPE: machine_type.name, **machine_type.labels}
        return all(
            requirement.matches(type_labels) for requirement in self.requirements if requirement.key in type_labels
        )

    def labels(self, machine_type: MachineType) -> dict[str, str]:
        """The labels of a node; of a requirement with several values, the first."""
        chosen = {
            requirement.key: min(requirement.values)
            for requirement in self.requirements
            if requirement.operator == "In"
            and requirement.values
            and requirement.key not in (INSTANCE_TYPE, *machine_type.labels)
        }
        template_labels = objects.nested(self.template, "metadata", "labels")
        return (
            {CAPACITY_TYPE: "on-demand"}
            | chosen
            | dict(machine_type.labels)
            | template_labels
            | {POOL: self.name, INSTANCE_TYPE: machine_type.name}
        )

    def can_have_labels(self, labels: Mapping[str, str]) -> bool:
        """Whether the pool can create a node with all of these labels."""
        return any(self._can_create(machine_type, labels) for machine_type in self.machine_types())

    def _can_create(self, machine_type: MachineType, labels: Mapping[str, str]) -> bool:
        node_labels = self.labels(machine_type)
        values_by_key = {
            requirement.key: requirement.values
            for requirement in self.requirements
            if requirement.operator == "In" and len(requirement.values) > 1
        }
        return all(
            value in values_by_key[key]
            if key in values_by_key and key != INSTANCE_TYPE
            else node_labels.get(key) == value
            for key, value in labels.items()
        )


def flavor_mismatch(flavor: Object, pools: Sequence[Pool], fleet: Fleet) -> str:
    """A warning that no node or pool has the labels of a ResourceFlavor; "" if one has."""
    labels = objects.nested(flavor, "spec", "nodeLabels")
    if not labels or not pools:
        return ""
    if any(labels.items() <= state.labels.items() for state in fleet.nodes.values()):
        return ""
    if any(pool.can_have_labels(labels) for pool in pools):
        return ""
    label_text = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
    names = ", ".join(sorted(pool.name for pool in pools))
    return (
        f"no node has the labels {label_text} and no NodePool ({names}) can create one: "
        "pods of this flavor would stay Pending; let a NodePool's requirements or template labels allow them"
    )


def _size(machine_type: MachineType) -> tuple[int, int, int]:
    amounts = {
        name: resource_lists.amount(name, value) for name, value in resource_lists.parse(machine_type.resources).items()
    }
    gpus = sum(amount for name, amount in amounts.items() if name.endswith("gpu"))
    return gpus, amounts.get("cpu", 0), amounts.get("memory", 0)


def _duration(text: str) -> timedelta | None:
    if text == "Never":
        return None
    if re.fullmatch(r"\d+", text):
        return timedelta(seconds=int(text))
    return timedelta(seconds=durations.to_ns(text or "0s") / SECOND_NS)
