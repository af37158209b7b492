"""The result of the flavor assigner: flavors of each pod set, their usage, and flavors tried."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pykueue.engine import values
from pykueue.engine.queues.cluster_queue import IndexedGroup
from pykueue.engine.queues.scan_progress import TriedFlavors
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import add
from pykueue.engine.reasons import (
    SEVERITY,
    FlavorAttempt,
    FlavorReason,
    FlavorsConflict,
    FlavorsShort,
    Mode,
    NoFitReason,
    PodSetShortage,
    Possibility,
    RequeueReason,
    ResourceNotProvided,
)
from pykueue.engine.topology.cache import TopologyUsages

Requests = dict[values.ResourceName, int]
"""In Kueue's order of resources: see `resource_rank`."""

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3


@functools.cache
def resource_rank(name: values.ResourceName) -> tuple[int, str]:
    """Kueue iterates resources by FNV-1a hash, and reports the first one that fails."""
    digest = _FNV_OFFSET
    for byte in name.encode():
        digest = (digest ^ byte) * _FNV_PRIME % 2**64
    return digest, name


def ranked(requests: Mapping[values.ResourceName, int]) -> Requests:
    if len(requests) == 1:
        return dict(requests)
    return {name: requests[name] for name in sorted(requests, key=resource_rank)}


@dataclass(slots=True, kw_only=True)
class FlavorChoice:
    flavor: values.FlavorName
    index: quota_tree.Index
    mode: Mode
    borrowing: int
    tried_flavor: int = 0
    """Index of the last flavor of the group that was tried; -1 if that was the last flavor of all.
    """


@dataclass(slots=True, kw_only=True)
class PodSetAssignment:
    name: values.PodSetName
    count: int
    requests: Requests
    flavors: dict[values.ResourceName, FlavorChoice]
    reasons: tuple[FlavorReason, ...] = ()
    attempts: tuple[FlavorAttempt, ...] = ()
    conflict: FlavorsConflict | None = None
    """Why its flavors cannot be used together."""
    topology: values.TopologyAssignment | None = None
    delayed_topology: values.DelayedTopology | None = None

    @property
    def mode(self) -> Mode:
        if self.conflict is not None:
            return Mode.NO_FIT
        if not self.reasons:
            return Mode.FIT
        return min((choice.mode for choice in self.flavors.values()), default=Mode.NO_FIT)


@dataclass(slots=True, kw_only=True)
class Assignment:
    pod_sets: list[PodSetAssignment] = field(default_factory=list)
    borrowing: int = 0
    usage: quota_tree.Usage = field(default_factory=dict)
    mode: Mode = Mode.NO_FIT
    no_fit_reason: NoFitReason = NoFitReason.NONE
    topology_usage: TopologyUsages = ()
    """What its pods use of topology domains."""
    depends_on_usage_of_nodes: bool = False
    """There was quota, so its pods were placed beside those of other workloads."""
    replaced: Sequence[values.PodSetAdmission] = ()
    """The admission of the replaced slice; `usage` is what the workload needs beyond that."""
    _tried: TriedFlavors | None = None
    _flavors_short: FlavorsShort | None = None
    _admission: values.Admission | None = None

    def with_pod_sets(self, pod_sets: list[PodSetAssignment]) -> "Assignment":
        """The same assignment with other reasons in its pod sets."""
        return dataclasses.replace(self, pod_sets=pod_sets, _flavors_short=None, _admission=None)

    def add(self, pod_set: PodSetAssignment) -> None:
        self.pod_sets.append(pod_set)
        for resource, choice in pod_set.flavors.items():
            self.borrowing = max(self.borrowing, choice.borrowing)
            amount = pod_set.requests.get(resource, 0)
            if self.replaced:
                amount -= self._replaced_usage(pod_set.name, resource)
            self.usage[choice.index] = add(self.usage.get(choice.index, 0), amount)

    def _replaced_usage(self, name: values.PodSetName, resource: values.ResourceName) -> int:
        return next((before.usage.get(resource, 0) for before in self.replaced if before.name == name), 0)

    def full_usage(self) -> quota_tree.Usage:
        """The usage that the admission is charged.

        It includes the usage of the replaced slice, which is released.
        """
        if not self.replaced:
            return self.usage
        usage: quota_tree.Usage = {}
        for pod_set in self.pod_sets:
            for resource, choice in pod_set.flavors.items():
                usage[choice.index] = add(usage.get(choice.index, 0), pod_set.requests.get(resource, 0))
        return usage

    def nominated(self) -> dict[values.PodSetName, dict[values.ResourceName, values.FlavorName]]:
        return {
            pod_set.name: {resource: choice.flavor for resource, choice in pod_set.flavors.items()}
            for pod_set in self.pod_sets
        }

    def tried(self) -> TriedFlavors:
        """The last flavor tried, for each pod set and resource."""
        if self._tried is None:
            self._tried = tuple(
                {resource: choice.tried_flavor for resource, choice in pod_set.flavors.items()}
                for pod_set in self.pod_sets
            )
        return self._tried

    @property
    def refusal(self) -> tuple[RequeueReason, NoFitReason]:
        """How a workload is requeued that does not fit and finds no targets."""
        if self.mode is Mode.NO_FIT:
            return RequeueReason.NO_FIT, self.no_fit_reason
        return RequeueReason.PREEMPTION_NO_CANDIDATES, NoFitReason.WAITING_FOR_QUOTA

    def shortages(self) -> tuple[PodSetShortage, ...]:
        return tuple(
            PodSetShortage(name=pod_set.name, reasons=pod_set.reasons, conflict=pod_set.conflict)
            for pod_set in self.pod_sets
            if pod_set.reasons or pod_set.conflict is not None
        )

    def flavors_short(self) -> FlavorsShort:
        """Why it does not just fit, once it is complete."""
        if self._flavors_short is None:
            self._flavors_short = FlavorsShort(pod_sets=self.shortages())
        return self._flavors_short

    def needs_preemption(self) -> frozenset[quota_tree.Index]:
        return frozenset(
            choice.index
            for pod_set in self.pod_sets
            for choice in pod_set.flavors.values()
            if choice.mode is Mode.PREEMPT
        )

    def admission(self, cluster_queue: values.ClusterQueueName) -> values.Admission:
        """The admission, once the assignment is complete; equal workloads share it."""
        if self._admission is None:
            self._admission = values.Admission(
                cluster_queue=cluster_queue,
                pod_sets=tuple(
                    values.PodSetAdmission(
                        name=pod_set.name,
                        flavors={resource: choice.flavor for resource, choice in pod_set.flavors.items()},
                        usage={resource: pod_set.requests.get(resource, 0) for resource in pod_set.flavors},
                        count=pod_set.count,
                        topology=pod_set.topology,
                        delayed_topology=pod_set.delayed_topology,
                    )
                    for pod_set in self.pod_sets
                ),
            )
        return self._admission


def scaled(pod_set: values.PodSet, count: int) -> Requests:
    """Requests of `count` pods instead of `pod_set.count`."""
    requests = ranked(pod_set.requests)
    if pod_set.count not in (0, count):
        for resource in requests:
            requests[resource] = requests[resource] // pod_set.count * count
    return requests


def total_requests(workload: values.Workload, assignment: Assignment) -> quota_tree.Usage:
    """The quota that preemption must free: the requests without the implied `pods`."""
    usage: quota_tree.Usage = {}
    for position, (pod_set, assigned) in enumerate(zip(workload.pod_sets, assignment.pod_sets, strict=False)):
        count = assigned.count
        if assignment.replaced:
            count = pod_set.count - assignment.replaced[position].count
        requests: Mapping[values.ResourceName, int] = scaled(pod_set, count)
        for resource, amount in requests.items():
            choice = assigned.flavors.get(resource)
            if amount and choice is not None:
                usage[choice.index] = add(usage.get(choice.index, 0), amount)
    return usage


def most_severe(left: NoFitReason, right: NoFitReason) -> NoFitReason:
    return left if SEVERITY[left] >= SEVERITY[right] else right


class Attempts:
    """The flavors tried for a group of pod sets, merged over the resource groups."""

    def __init__(self, *, observe: bool) -> None:
        self._observe = observe
        self._by_flavor: dict[values.FlavorName, FlavorAttempt] = {}

    def merge(self, attempts: list[FlavorAttempt], group: IndexedGroup, resource: values.ResourceName) -> None:
        """Add the attempts for one resource.

        A flavor of the group that was not tried for it does not fit.
        """
        if not self._by_flavor:
            self._by_flavor = {attempt.flavor: attempt for attempt in attempts}
            return
        for attempt in attempts:
            before = self._by_flavor.get(attempt.flavor)
            self._by_flavor[attempt.flavor] = attempt if before is None else self._merged(before, attempt)
        if not attempts:
            return
        reached = {attempt.flavor for attempt in attempts}
        for flavor in group.flavors:
            before = self._by_flavor.get(flavor.name)
            if before is not None and flavor.name not in reached:
                absent = ResourceNotProvided(flavor=flavor.name, resource=resource)
                self._by_flavor[flavor.name] = FlavorAttempt(
                    flavor=flavor.name,
                    mode=Mode.NO_FIT,
                    borrowing=before.borrowing,
                    possibility=before.possibility,
                    reasons=_union(before.reasons, (absent,)),
                    no_fit_reason=NoFitReason.NO_MATCHING_FLAVOR if self._observe else NoFitReason.NONE,
                )

    def ordered(self) -> tuple[FlavorAttempt, ...]:
        if len(self._by_flavor) == 1:
            return tuple(self._by_flavor.values())
        return tuple(self._by_flavor[flavor] for flavor in sorted(self._by_flavor))

    def _merged(self, before: FlavorAttempt, attempt: FlavorAttempt) -> FlavorAttempt:
        return FlavorAttempt(
            flavor=attempt.flavor,
            mode=min(before.mode, attempt.mode),
            borrowing=max(before.borrowing, attempt.borrowing),
            possibility=_least(before.possibility, attempt.possibility),
            reasons=_union(before.reasons, attempt.reasons),
            no_fit_reason=most_severe(before.no_fit_reason, attempt.no_fit_reason)
            if self._observe
            else NoFitReason.NONE,
        )


def _least(left: Possibility | None, right: Possibility | None) -> Possibility | None:
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)


def _union(left: tuple[FlavorReason, ...], right: tuple[FlavorReason, ...]) -> tuple[FlavorReason, ...]:
    return (*left, *(reason for reason in right if reason not in left))
