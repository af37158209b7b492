"""The state of one cluster queue: value, node in the quota tree, pending queue, reservations."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pykueue.engine import values
from pykueue.engine.policy import Policy
from pykueue.engine.queues import pending_queue
from pykueue.engine.quota import quota_tree, reservations
from pykueue.engine.reasons import InactiveReason, Inactivity
from pykueue.engine.values import MULTIKUEUE, PROVISIONING

if TYPE_CHECKING:
    from pykueue.engine.cycle.last_nomination import Nominations

MAX_HASHES = 16
"""Nominations of so many scheduling hashes are kept for each cluster queue."""


class PlacementPolicy(values.Value, frozen=True, kw_only=True):
    """How a cluster queue places pods on topology domains."""

    flavors: tuple[values.FlavorName, ...] = ()
    """The flavors with a topology."""
    always: bool = False
    """All flavors have a topology, so pods are placed even without a topology request."""
    after_checks: frozenset[values.FlavorName] = frozenset()
    """Flavors whose nodes an admission check provisions: pods are placed after the checks."""
    elsewhere: bool = False
    """MultiKueue: the worker cluster places the pods."""


class IndexedFlavor(values.Value, frozen=True, kw_only=True):
    name: values.FlavorName
    indices: Mapping[values.ResourceName, quota_tree.Index]


class IndexedGroup(values.Value, frozen=True, kw_only=True):
    """A resource group with the indices of its flavor-resources in the quota tree."""

    covered: frozenset[values.ResourceName]
    flavors: tuple[IndexedFlavor, ...]


class NominationCache:
    """The nominations of the last few scheduling hashes of a cluster queue. A fork starts anew."""

    __slots__ = ("_by_hash",)

    def __init__(self) -> None:
        self._by_hash: dict[str, Nominations] = {}

    def __deepcopy__(self, memo: dict[int, object]) -> "NominationCache":
        return NominationCache()

    def get(self, scheduling_hash: str) -> "Nominations | None":
        return self._by_hash.get(scheduling_hash)

    def put(self, scheduling_hash: str, nominations: "Nominations") -> None:
        if len(self._by_hash) >= MAX_HASHES:
            del self._by_hash[next(iter(self._by_hash))]
        self._by_hash[scheduling_hash] = nominations


class ClusterQueueState:
    def __init__(self, value: values.ClusterQueue, node: quota_tree.QuotaNode, policy: Policy) -> None:
        self.name = value.name
        self.value = value
        self.node = node
        self.pending = pending_queue.PendingQueue(policy)
        self.reservations = reservations.Reservations()
        self.created_at = 0
        """The version of the settings at its creation: one that was created again is another."""
        self.inactivity: tuple[Inactivity, ...] = ()
        self.in_cycle = False
        """The ancestors of its cohort form a cycle."""
        self.idle_since_cycle: int | None = None
        """The cycle after which its tree became idle; None while the tree is not idle."""
        self.groups: tuple[IndexedGroup, ...] = ()
        self.group_of: dict[values.ResourceName, IndexedGroup] = {}
        self.placement = PlacementPolicy()
        self.nominations = NominationCache()

    def __repr__(self) -> str:
        return f"ClusterQueueState({self.name})"

    @property
    def is_active(self) -> bool:
        return not self.inactivity

    def set_value(self, value: values.ClusterQueue, flavor_resources: quota_tree.FlavorResources) -> None:
        self.value = value
        self.groups = tuple(
            IndexedGroup(
                covered=frozenset(group.covered_resources),
                flavors=tuple(
                    IndexedFlavor(
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
    """Why the cluster queue admits nothing; empty when it is active."""
    if value.terminating:
        return (Inactivity(reason=InactiveReason.TERMINATING),)
    inactivities = []
    if value.stop_policy is not values.StopPolicy.NONE:
        inactivities.append(Inactivity(reason=InactiveReason.STOPPED))
    missing_flavors = tuple(
        flavor.name for group in value.resource_groups for flavor in group.flavors if flavor.name not in flavors
    )
    if missing_flavors:
        inactivities.append(Inactivity(reason=InactiveReason.FLAVOR_NOT_FOUND, names=missing_flavors))
    missing_checks = tuple(sorted(name for name in value.admission_checks if name not in checks))
    if missing_checks:
        inactivities.append(Inactivity(reason=InactiveReason.ADMISSION_CHECK_NOT_FOUND, names=missing_checks))
    inactive_checks = tuple(
        sorted(name for name in value.admission_checks if name in checks and not checks[name].active)
    )
    if inactive_checks:
        inactivities.append(Inactivity(reason=InactiveReason.ADMISSION_CHECK_INACTIVE, names=inactive_checks))
    return (*inactivities, *_unusable_checks(value, checks))


def _unusable_checks(
    value: values.ClusterQueue, checks: Mapping[values.CheckName, values.AdmissionCheck]
) -> Iterator[Inactivity]:
    """MultiKueue has one check in a queue, for all flavors, and none of ProvisioningRequests."""
    names: dict[str, list[values.CheckName]] = {}
    for name in sorted(value.admission_checks):
        if name in checks:
            names.setdefault(checks[name].controller, []).append(name)
    dispatching, provisioning = names.get(MULTIKUEUE, []), names.get(PROVISIONING, [])
    if len(dispatching) > 1:
        yield Inactivity(reason=InactiveReason.SEVERAL_MULTI_KUEUE_CHECKS, names=tuple(dispatching))
    flavors = {flavor.name for group in value.resource_groups for flavor in group.flavors}
    limited = tuple(
        name for name in dispatching if value.admission_checks[name] and value.admission_checks[name] != flavors
    )
    if limited:
        yield Inactivity(reason=InactiveReason.MULTI_KUEUE_CHECK_PER_FLAVOR, names=limited)
    if dispatching and provisioning:
        both = (f"{','.join(dispatching)}, {','.join(provisioning)}",)
        yield Inactivity(reason=InactiveReason.MULTI_KUEUE_WITH_PROVISIONING, names=both)
