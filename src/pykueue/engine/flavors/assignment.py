"""Which flavors a workload would get: the result of the flavor assigner, before anything is booked."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pykueue.engine import values
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import add
from pykueue.engine.reasons import FlavorAttempt, FlavorReason, Mode, NoFitReason, PodSetShortage
from pykueue.engine.topology.cache import Taken

Requests = dict[values.ResourceName, int]
"""In Kueue's order of resources: see `resource_rank`."""

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3


@functools.cache
def resource_rank(name: values.ResourceName) -> tuple[int, str]:
    """Kueue walks over resources in the order of their FNV-1a hashes. It shows: the first that fails is reported."""
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
    """Index of the last flavor looked at in the group; -1 when that was the last one."""


@dataclass(slots=True, kw_only=True)
class PodSetAssignment:
    name: values.PodSetName
    count: int
    requests: Requests
    flavors: dict[values.ResourceName, FlavorChoice]
    reasons: tuple[FlavorReason, ...] = ()
    attempts: tuple[FlavorAttempt, ...] = ()
    fault: str = ""
    """In words, what is wrong with the flavors taken together."""
    topology: values.TopologyAssignment | None = None
    delayed_topology: values.DelayedTopology | None = None

    @property
    def mode(self) -> Mode:
        if self.fault:
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
    taken: Taken = ()
    """The places of its pods."""
    replaced: Sequence[values.PodSetAdmission] = ()
    """What the slice holds whose place it takes: `usage` is what is needed beyond that."""

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
        """What the admission is charged: a slice is charged in full, and the one that it replaces gives back in full."""
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

    def tried(self) -> tuple[dict[values.ResourceName, int], ...]:
        return tuple(
            {resource: choice.tried_flavor for resource, choice in pod_set.flavors.items()} for pod_set in self.pod_sets
        )

    def shortages(self) -> tuple[PodSetShortage, ...]:
        return tuple(
            PodSetShortage(name=pod_set.name, reasons=pod_set.reasons, fault=pod_set.fault)
            for pod_set in self.pod_sets
            if pod_set.reasons or pod_set.fault
        )

    def needs_preemption(self) -> frozenset[quota_tree.Index]:
        return frozenset(
            choice.index
            for pod_set in self.pod_sets
            for choice in pod_set.flavors.values()
            if choice.mode is Mode.PREEMPT
        )

    def admission(self, cluster_queue: values.ClusterQueueName) -> values.Admission:
        return values.Admission(
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


def scaled(pod_set: values.PodSet, count: int) -> Requests:
    """Requests of `count` pods instead of `pod_set.count`."""
    requests = ranked(pod_set.requests)
    if pod_set.count not in (0, count):
        for resource in requests:
            requests[resource] = requests[resource] // pod_set.count * count
    return requests


def total_requests(workload: values.Workload, assignment: Assignment) -> quota_tree.Usage:
    """What the preemption search must find room for: the requests proper, without the implied `pods`."""
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
