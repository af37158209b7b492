"""The flavor assigner: it assigns a flavor to every resource of every pod set of a workload.

Flavors are tried in the order of the cluster queue. A flavor is possible if its taints and labels
match and if there is quota, or preemption can free quota. Flavor fungibility decides whether the
search stops or tries the next flavor. Called by `nominate`.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from pykueue.engine import reasons, values
from pykueue.engine.flavors import assignment, matching
from pykueue.engine.flavors.assignment import (
    Assignment,
    Attempts,
    FlavorChoice,
    PodSetAssignment,
    Requests,
    most_severe,
)
from pykueue.engine.policy import Policy, QuotaCheckStrategy
from pykueue.engine.queues.cluster_queue import ClusterQueueState, IndexedFlavor, IndexedGroup
from pykueue.engine.queues.scan_progress import ScanProgress
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import add, sub
from pykueue.engine.reasons import FlavorAttempt, FlavorReason, Mode, NoFitReason, Possibility
from pykueue.engine.topology import workload_placement
from pykueue.engine.topology.cache import TopologyCache
from pykueue.engine.values import FungibilityPolicy, FungibilityPreference

Nominated = Mapping[values.PodSetName, Mapping[values.ResourceName, values.FlavorName]]

# Preemption modes of a flavor, worst first.
NO_FIT, NO_CANDIDATES, PREEMPT, RECLAIM, FIT = range(5)

_MODE = (Mode.NO_FIT, Mode.PREEMPT, Mode.PREEMPT, Mode.PREEMPT, Mode.FIT)
_POSSIBILITY = (None, Possibility.NO_CANDIDATES, Possibility.PREEMPT, Possibility.RECLAIM, None)
_FROM_POSSIBILITY = {
    Possibility.NO_CANDIDATES: NO_CANDIDATES,
    Possibility.PREEMPT: PREEMPT,
    Possibility.RECLAIM: RECLAIM,
}


class GranularMode(NamedTuple):
    """How well a flavor fits: its preemption mode, and how high in the tree it borrows."""

    preemption_mode: int
    borrowing: int


_WORST = GranularMode(NO_FIT, 2**63)
_BEST = GranularMode(FIT, 0)


class FlavorOracle(Protocol):
    """Simulates preemption for one flavor-resource; also returns the borrowing level after it."""

    def __call__(self, index: quota_tree.Index, amount: int) -> tuple[Possibility, int]: ...


class QuotaCheck(NamedTuple):
    """One comparison of an amount with the quota of a flavor-resource."""

    flavor_resource: quota_tree.Index
    total: int
    height: tuple[int, bool]
    """From `quota_tree.height_of_fit`."""
    unused: int
    short: reasons.QuotaShort | None
    """None if the amount fits."""
    possibility: Possibility | None
    """What a simulated preemption would give; None without a simulation."""


class _ResourceTrial(NamedTuple):
    """How well one resource fits in one flavor."""

    mode: GranularMode
    reason: FlavorReason | None
    no_fit_reason: NoFitReason


class _FlavorTrial(NamedTuple):
    """How well all resources of a resource group fit in one flavor."""

    mode: GranularMode
    choices: dict[values.ResourceName, FlavorChoice]
    reasons: list[FlavorReason]
    attempt: FlavorAttempt


class _GroupResult(NamedTuple):
    """The best flavors for one resource group, why they do not just fit, and the flavors tried."""

    choices: dict[values.ResourceName, FlavorChoice]
    reasons: list[FlavorReason]
    attempts: list[FlavorAttempt]


class FlavorAssigner:
    def __init__(
        self,
        *,
        policy: Policy,
        queue: ClusterQueueState,
        flavors: dict[values.FlavorName, values.ResourceFlavor],
        workload: values.Workload,
        scan: ScanProgress | None,
        oracle: FlavorOracle,
        topology_cache: TopologyCache | None = None,
        nominated: Nominated | None = None,
        current: Sequence[PodSetAssignment] = (),
        replaced: Sequence[values.PodSetAdmission] = (),
    ) -> None:
        """Make an assigner for one workload.

        Without a `topology_cache` topology requests are ignored. With `nominated` only those
        flavors are tried. With `current`, the assignment of a second pass, flavors that are
        already assigned stay. Only the requests beyond the usage of the `replaced` slice, pod set
        by pod set, need quota.
        """
        self._policy = policy
        self._queue = queue
        self._flavors = flavors
        self._workload = workload
        self._scan = scan
        self._oracle = oracle
        self._topology_cache = topology_cache
        self._nominated = nominated
        self._current = current
        self._replaced = replaced
        self.checks: list[QuotaCheck] = []
        """Every comparison of an amount with the quota."""

    def assign(self, counts: Sequence[int] | None = None) -> Assignment:
        """Assign flavors to all pods, or to the reduced `counts` of pods per pod set."""
        result = Assignment(replaced=self._replaced)
        for group in self._pod_set_groups():
            if not self._assign_group(group, counts, result):
                break
        result.mode = min((pod_set.mode for pod_set in result.pod_sets), default=Mode.NO_FIT)
        if (
            self._topology_cache is not None
            and result.mode is not Mode.NO_FIT
            and workload_placement.needs_placement(self._queue, self._workload)
        ):
            workload_placement.place(self._topology_cache, self._queue, self._workload, result)
        if self._policy.unadmitted_workloads_observability and result.mode is Mode.NO_FIT:
            result.no_fit_reason = self._no_fit_reason(result)
        return result

    def _pod_set_groups(self) -> list[list[int]]:
        """Positions of pod sets; those of one topology group get their flavors together."""
        if len(self._workload.pod_sets) == 1:
            return [[0]]
        groups: dict[str | int, list[int]] = {}
        for position, pod_set in enumerate(self._workload.pod_sets):
            topology = pod_set.topology_request
            key = topology.group if topology is not None and topology.group is not None else position
            groups.setdefault(key, []).append(position)
        return list(groups.values())

    def _assign_group(self, positions: list[int], counts: Sequence[int] | None, result: Assignment) -> bool:
        assigned = [self._unassigned(position, counts) for position in positions]
        requests = assigned[0].requests if len(assigned) == 1 else _summed(assigned)
        attempts = Attempts(observe=self._policy.unadmitted_workloads_observability)
        flavors: dict[values.ResourceName, FlavorChoice] = {}
        if self._current:
            flavors = {resource: choice for pod_set in assigned for resource, choice in pod_set.flavors.items()}
        causes: list[FlavorReason] = []
        for resource, amount in requests.items():
            group = self._queue.group_of.get(resource)
            if resource in flavors or (group is None and (not amount or self._ignores_undeclared)):
                continue
            if group is None:
                flavors, causes = {}, [reasons.ResourceUndeclared(resource=resource)]
                break
            best = self._find_flavor(group, positions, requests, resource, assumed=result.usage)
            attempts.merge(best.attempts, group, resource)
            if not best.choices:
                flavors, causes = {}, best.reasons
                break
            flavors |= best.choices
            causes += best.reasons
        considered = attempts.ordered()
        complete = True
        for pod_set in assigned:
            pod_set.flavors = self._own_flavors(pod_set, flavors, in_group=len(assigned) > 1)
            pod_set.reasons = tuple(causes)
            pod_set.attempts = considered
            result.add(pod_set)
            complete = complete and bool(pod_set.flavors or not pod_set.requests)
        return complete

    def _own_flavors(
        self, pod_set: PodSetAssignment, flavors: dict[values.ResourceName, FlavorChoice], *, in_group: bool
    ) -> dict[values.ResourceName, FlavorChoice]:
        """The flavors of the requested resources.

        A pod set of a group that requests nothing is placed with its group, so it gets the flavors
        of the group.
        """
        if pod_set.requests or not in_group or self._topology_cache is None:
            return {resource: flavors[resource] for resource in pod_set.requests if resource in flavors}
        return {
            resource: choice
            for resource, choice in flavors.items()
            if self._topology_cache.levels_of(choice.flavor) is not None
        }

    @property
    def _ignores_undeclared(self) -> bool:
        return self._policy.quota_check_strategy is QuotaCheckStrategy.IGNORE_UNDECLARED

    def _unassigned(self, position: int, counts: Sequence[int] | None) -> PodSetAssignment:
        if self._current:
            return copy.deepcopy(self._current[position])
        pod_set = self._workload.pod_sets[position]
        count = pod_set.count if counts is None or not pod_set.count else counts[position]
        requests = assignment.scaled(pod_set, count)
        if values.PODS in self._queue.group_of:
            requests[values.PODS] = count
            requests = assignment.ranked(requests)
        return PodSetAssignment(name=pod_set.name, count=count, requests=requests, flavors={})

    def _find_flavor(
        self,
        group: IndexedGroup,
        positions: list[int],
        requests: Requests,
        resource: values.ResourceName,
        *,
        assumed: quota_tree.Usage,
    ) -> _GroupResult:
        covered = requests if requests.keys() <= group.covered else _only(requests, group.covered)
        best: dict[values.ResourceName, FlavorChoice] = {}
        best_mode = _WORST
        causes: list[FlavorReason] = []
        attempts: list[FlavorAttempt] = []
        position = -1
        for position in range(self._first_flavor(positions[0], resource), len(group.flavors)):
            flavor = group.flavors[position]
            if self._nominated is not None and not self._is_nominated(flavor.name, positions, resource):
                causes.append(reasons.FlavorNotNominated(flavor=flavor.name, resource=resource))
                continue
            allowed = self._workload.allowed_flavors
            if allowed is not None and flavor.name not in allowed:
                causes.append(reasons.FlavorNotAllowed(flavor=flavor.name))
                continue
            mismatch = self._mismatch(flavor.name, positions, group)
            if mismatch is not None:
                causes.append(mismatch)
                attempts.append(
                    self._attempt(
                        flavor.name,
                        NO_FIT,
                        borrowing=0,
                        causes=[mismatch],
                        no_fit_reason=NoFitReason.NO_MATCHING_FLAVOR,
                    )
                )
                continue
            trial = self._try_flavor(flavor, covered, positions, assumed=assumed)
            causes += trial.reasons
            attempts.append(trial.attempt)
            if self._stops_at(trial.mode):
                best, best_mode = trial.choices, trial.mode
                break
            if self._beats(trial.mode, best_mode):
                best, best_mode = trial.choices, trial.mode
        last = -1 if position == len(group.flavors) - 1 else position
        for choice in best.values():
            choice.tried_flavor = last if self._policy.flavor_fungibility else 0
        return _GroupResult(best, [] if best_mode.preemption_mode == FIT else causes, attempts)

    def _first_flavor(self, position: int, resource: values.ResourceName) -> int:
        if self._scan is None or not self._policy.flavor_fungibility or position >= len(self._scan.tried):
            return 0
        return self._scan.tried[position].get(resource, -1) + 1

    def _try_flavor(
        self,
        flavor: IndexedFlavor,
        requests: Requests,
        positions: list[int],
        *,
        assumed: quota_tree.Usage,
    ) -> _FlavorTrial:
        """Try all resources, even after one does not fit, so that all reasons are reported."""
        worst = _BEST
        borrowing = 0
        choices: dict[values.ResourceName, FlavorChoice] = {}
        causes: list[FlavorReason] = []
        no_fit_reason = NoFitReason.NONE
        for resource, requested in requests.items():
            index, amount = flavor.indices[resource], requested
            if self._replaced:
                amount, differs = self._beyond_replaced(flavor.name, resource, requested, positions)
                if differs is not None:
                    worst = _WORST
                    causes.append(differs)
                    no_fit_reason = most_severe(no_fit_reason, NoFitReason.NO_MATCHING_FLAVOR)
            mode, cause, granular = self._try_resource(
                flavor.name, resource, assumed.get(index, 0), amount, index=index
            )
            if cause is not None:
                causes.append(cause)
                no_fit_reason = most_severe(no_fit_reason, granular)
            borrowing = max(borrowing, mode.borrowing)
            if self._is_preferred(worst, mode):
                worst = mode
            choices[resource] = FlavorChoice(
                flavor=flavor.name, index=index, mode=_MODE[mode.preemption_mode], borrowing=mode.borrowing
            )
        attempt = self._attempt(
            flavor.name, worst.preemption_mode, borrowing=borrowing, causes=causes, no_fit_reason=no_fit_reason
        )
        return _FlavorTrial(worst, choices, causes, attempt)

    def _beyond_replaced(
        self, flavor: values.FlavorName, resource: values.ResourceName, amount: int, positions: list[int]
    ) -> tuple[int, FlavorReason | None]:
        """The amount beyond the replaced slice, and a reason if that has another flavor."""
        for position in positions:
            before = self._replaced[position]
            original = before.flavors.get(resource, values.FlavorName(""))
            if original != flavor:
                return amount, reasons.SliceFlavorDiffers(flavor=flavor, original=original)
            amount -= before.usage.get(resource, 0)
        return amount, None

    def _attempt(
        self,
        flavor: values.FlavorName,
        preemption_mode: int,
        *,
        borrowing: int,
        causes: list[FlavorReason],
        no_fit_reason: NoFitReason,
    ) -> FlavorAttempt:
        observed = self._policy.unadmitted_workloads_observability
        return FlavorAttempt(
            flavor=flavor,
            mode=_MODE[preemption_mode],
            borrowing=borrowing,
            possibility=_POSSIBILITY[preemption_mode],
            reasons=tuple(dict.fromkeys(causes)) if self._replaced else tuple(causes),
            no_fit_reason=no_fit_reason if observed else NoFitReason.NONE,
        )

    def _is_nominated(self, flavor: values.FlavorName, positions: list[int], resource: values.ResourceName) -> bool:
        assert self._nominated is not None
        names = [self._workload.pod_sets[position].name for position in positions]
        return any(self._nominated.get(name, {}).get(resource) == flavor for name in names)

    def _mismatch(self, name: values.FlavorName, positions: list[int], group: IndexedGroup) -> FlavorReason | None:
        flavor = self._flavors.get(name)
        if flavor is None:
            return reasons.FlavorMissing(flavor=name)
        for position in positions:
            pod_set = self._workload.pod_sets[position]
            if self._topology_cache is not None and (
                flavor.topology is not None or pod_set.topology_request is not None
            ):
                mismatch = workload_placement.mismatch(self._topology_cache, self._queue, pod_set, flavor, group=group)
                if mismatch is not None:
                    return mismatch
            taint = matching.untolerated_taint(flavor, pod_set)
            if taint is not None:
                return reasons.TaintUntolerated(flavor=name, taint=taint)
            if not matching.matches_affinity(flavor, pod_set):
                return reasons.AffinityMismatch(flavor=name)
        return None

    def _try_resource(
        self,
        flavor: values.FlavorName,
        resource: values.ResourceName,
        assumed: int,
        amount: int,
        *,
        index: quota_tree.Index,
    ) -> _ResourceTrial:
        node = self._queue.node
        total = add(assumed, amount)
        capacity = quota_tree.potential_available(node, index)
        if total > capacity:
            reason = reasons.CapacityExceeded(
                flavor=flavor, resource=resource, assumed=assumed, requested=amount, capacity=capacity
            )
            return _ResourceTrial(GranularMode(NO_FIT, 0), reason, NoFitReason.EXCEEDS_MAX_QUOTA)
        borrowing, may_reclaim = quota_tree.height_of_fit(node, index, total)
        unused = max(0, quota_tree.available(node, index))
        height = (borrowing, may_reclaim)
        if total <= unused:
            self.checks.append(QuotaCheck(index, total, height, unused, None, None))
            return _ResourceTrial(GranularMode(FIT, borrowing), None, NoFitReason.NONE)
        short = reasons.QuotaShort(flavor=flavor, resource=resource, needed=sub(total, unused))
        if node.nominal.get(index, 0) >= total or may_reclaim or self._can_preempt_while_borrowing:
            possibility, borrowing = self._oracle(index, total)
            self.checks.append(QuotaCheck(index, total, height, unused, short, possibility))
            return _ResourceTrial(GranularMode(_FROM_POSSIBILITY[possibility], borrowing), short, NoFitReason.NONE)
        self.checks.append(QuotaCheck(index, total, height, unused, short, None))
        return _ResourceTrial(GranularMode(NO_FIT, borrowing), short, NoFitReason.WAITING_FOR_QUOTA)

    @property
    def _can_preempt_while_borrowing(self) -> bool:
        preemption = self._queue.value.preemption
        return preemption.borrow_within_cohort is not None or (
            self._policy.fair_sharing is not None
            and preemption.reclaim_within_cohort is not values.PreemptionPolicy.NEVER
        )

    # Flavor fungibility.

    def _stops_at(self, mode: GranularMode) -> bool:
        if not self._policy.flavor_fungibility:
            return mode.preemption_mode == FIT
        if mode.preemption_mode in (NO_FIT, NO_CANDIDATES):
            return False
        fungibility = self._queue.value.flavor_fungibility
        if mode.preemption_mode != FIT and fungibility.when_can_preempt is FungibilityPolicy.TRY_NEXT_FLAVOR:
            return False
        return not (mode.borrowing and fungibility.when_can_borrow is FungibilityPolicy.TRY_NEXT_FLAVOR)

    def _beats(self, mode: GranularMode, best: GranularMode) -> bool:
        if not self._policy.flavor_fungibility:
            return mode.preemption_mode > best.preemption_mode
        return self._is_preferred(mode, best)

    def _is_preferred(self, left: GranularMode, right: GranularMode) -> bool:
        if NO_FIT in (left.preemption_mode, right.preemption_mode):
            return left.preemption_mode != NO_FIT
        if (left.preemption_mode == NO_CANDIDATES) != (right.preemption_mode == NO_CANDIDATES):
            return right.preemption_mode == NO_CANDIDATES
        if self._queue.value.flavor_fungibility.preference is FungibilityPreference.PREEMPTION_OVER_BORROWING:
            return (left.borrowing, -left.preemption_mode) < (right.borrowing, -right.preemption_mode)
        return (-left.preemption_mode, left.borrowing) < (-right.preemption_mode, right.borrowing)

    # Granular reasons.

    def _no_fit_reason(self, result: Assignment) -> NoFitReason:
        """The mildest reason of the flavors of each resource group; of these the most severe."""
        overall = NoFitReason.NONE
        for pod_set in result.pod_sets:
            if pod_set.mode is not Mode.NO_FIT:
                continue
            if not pod_set.attempts:
                overall = most_severe(overall, NoFitReason.NO_MATCHING_FLAVOR)
            for group in self._queue.groups:
                names = {flavor.name for flavor in group.flavors}
                group_reasons = [
                    attempt.no_fit_reason
                    for attempt in pod_set.attempts
                    if attempt.mode is Mode.NO_FIT and attempt.flavor in names
                ]
                if group_reasons:
                    overall = most_severe(overall, min(group_reasons, key=reasons.SEVERITY.__getitem__))
        return overall


def _only(requests: Requests, covered: frozenset[values.ResourceName]) -> Requests:
    return {resource: amount for resource, amount in requests.items() if resource in covered}


def _summed(pod_sets: list[PodSetAssignment]) -> Requests:
    total: Requests = {}
    for pod_set in pod_sets:
        for resource, amount in pod_set.requests.items():
            total[resource] = add(total.get(resource, 0), amount)
    return assignment.ranked(total)
