"""One cluster queue as the engine holds it: its value, its place in the quota tree, who waits and who holds quota."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from pykueue.engine import values
from pykueue.engine.policy import Policy
from pykueue.engine.queues import pending_queue
from pykueue.engine.quota import quota_tree, reservations


class InactiveReason(enum.StrEnum):
    """In the order in which Kueue names them."""

    TERMINATING = "Terminating"
    STOPPED = "Stopped"
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    ADMISSION_CHECK_NOT_FOUND = "AdmissionCheckNotFound"
    ADMISSION_CHECK_INACTIVE = "AdmissionCheckInactive"
    TOPOLOGY_NOT_FOUND = "TopologyNotFound"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inactivity(values.Value):
    reason: InactiveReason
    names: tuple[str, ...] = ()
    """The flavors or checks that are missing or inactive; a missing topology and the flavor that names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPolicy(values.Value):
    """How a cluster queue places pods, as far as its flavors have topologies."""

    flavors: tuple[values.FlavorName, ...] = ()
    """Those with a topology."""
    always: bool = False
    """All flavors have one: pods are placed even where nobody asked."""
    after_checks: frozenset[values.FlavorName] = frozenset()
    """Flavors whose nodes are provisioned first: a place is found when the checks are ready."""
    elsewhere: bool = False
    """Another cluster places them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFlavor(values.Value):
    name: values.FlavorName
    indices: Mapping[values.ResourceName, quota_tree.Index]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(values.Value):
    """A resource group with its flavor-resources interned."""

    covered: frozenset[values.ResourceName]
    flavors: tuple[GroupFlavor, ...]


class ClusterQueueState:
    def __init__(self, value: values.ClusterQueue, node: quota_tree.QuotaNode, policy: Policy) -> None:
        self.value = value
        self.node = node
        self.pending = pending_queue.PendingQueue(policy)
        self.holdings = reservations.Reservations()
        self.inactivity: tuple[Inactivity, ...] = ()
        self.in_cycle = False
        """Its cohort's ancestors run in a circle."""
        self.slept_at: int | None = None
        """The cycle after which its tree slept: until it wakes, each cycle would have looked at its head again."""
        self.groups: tuple[Group, ...] = ()
        self.group_of: dict[values.ResourceName, Group] = {}
        self.placement = PlacementPolicy()

    def __repr__(self) -> str:
        return f"ClusterQueueState({self.name})"

    @property
    def name(self) -> values.ClusterQueueName:
        return self.value.name

    @property
    def is_active(self) -> bool:
        return not self.inactivity

    def set_value(self, value: values.ClusterQueue, flavor_resources: quota_tree.FlavorResources) -> None:
        self.value = value
        self.groups = tuple(
            Group(
                covered=frozenset(group.covered_resources),
                flavors=tuple(
                    GroupFlavor(
                        name=flavor.name,
                        indices={
                            resource: flavor_resources.index(flavor.name, resource)
                            for resource in sorted(group.covered_resources)
                        },
                    )
                    for flavor in group.flavors
                ),
            )
            for group in value.resource_groups
        )
        self.group_of = {}
        for group in self.groups:
            for resource in group.covered:
                self.group_of.setdefault(resource, group)


def inactivity(
    value: values.ClusterQueue,
    flavors: Mapping[values.FlavorName, values.ResourceFlavor],
    checks: Mapping[values.CheckName, values.AdmissionCheck],
) -> tuple[Inactivity, ...]:
    """Why nothing is admitted here; empty when active."""
    if value.terminating:
        return (Inactivity(reason=InactiveReason.TERMINATING),)
    found = []
    if value.stop_policy is not values.StopPolicy.NONE:
        found.append(Inactivity(reason=InactiveReason.STOPPED))
    missing_flavors = tuple(
        flavor.name for group in value.resource_groups for flavor in group.flavors if flavor.name not in flavors
    )
    if missing_flavors:
        found.append(Inactivity(reason=InactiveReason.FLAVOR_NOT_FOUND, names=missing_flavors))
    missing_checks = tuple(sorted(name for name in value.admission_checks if name not in checks))
    if missing_checks:
        found.append(Inactivity(reason=InactiveReason.ADMISSION_CHECK_NOT_FOUND, names=missing_checks))
    inactive_checks = tuple(
        sorted(name for name in value.admission_checks if name in checks and not checks[name].active)
    )
    if inactive_checks:
        found.append(Inactivity(reason=InactiveReason.ADMISSION_CHECK_INACTIVE, names=inactive_checks))
    return tuple(found)
