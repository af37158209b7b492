"""The flavor assigner: which flavor serves which resource of which pod set, and how well.

Flavors are tried in the order of the cluster queue. For each the taints and labels must match, and quota must be
there, or come by preemption; flavor fungibility says whether a later flavor may be better. Called by `nominate`.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from pykueue.engine import reasons, values
from pykueue.engine.flavors import assignment, matching
from pykueue.engine.flavors.assignment import Assignment, FlavorChoice, PodSetAssignment, Requests
from pykueue.engine.flavors.attempts import Attempts, most_severe
from pykueue.engine.policy import Policy, QuotaCheckStrategy
from pykueue.engine.queues.cluster_queue import ClusterQueueState, Group, GroupFlavor
from pykueue.engine.queues.pending_queue import ScanMemory
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import add, sub
from pykueue.engine.reasons import FlavorAttempt, FlavorReason, Mode, NoFitReason, Possibility
from pykueue.engine.topology import assigner
from pykueue.engine.topology.cache import TopologyCache
from pykueue.engine.values import FungibilityPolicy, FungibilityPreference

Nominated = Mapping[values.PodSetName, Mapping[values.ResourceName, values.FlavorName]]

# How a flavor serves, worst first.
NO_FIT, NO_CANDIDATES, PREEMPT, RECLAIM, FIT = range(5)

_MODE = (Mode.NO_FIT, Mode.PREEMPT, Mode.PREEMPT, Mode.PREEMPT, Mode.FIT)
_POSSIBILITY = (None, Possibility.NO_CANDIDATES, Possibility.PREEMPT, Possibility.RECLAIM, None)
_FROM_POSSIBILITY = {
    Possibility.NO_CANDIDATES: NO_CANDIDATES,
    Possibility.PREEMPT: PREEMPT,
    Possibility.RECLAIM: RECLAIM,
}


class Grade(NamedTuple):
    serves: int
    borrowing: int


_WORST = Grade(NO_FIT, 2**63)
_BEST = Grade(FIT, 0)


class Oracle(Protocol):
    """What preemption could do for one flavor-resource, and the borrowing level after it."""

    def __call__(self, index: quota_tree.Index, amount: int) -> tuple[Possibility, int]: ...


class _Outcome(NamedTuple):
    """Of one resource in one flavor."""

    grade: Grade
    reason: FlavorReason | None
    no_fit_reason: NoFitReason


class _Found(NamedTuple):
    """Of one resource group: the best flavors, and why not better."""

    flavors: dict[values.ResourceName, FlavorChoice]
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
        scan: ScanMemory | None,
        oracle: Oracle,
        places: TopologyCache | None = None,
        nominated: Nominated | None = None,
        held: Sequence[PodSetAssignment] = (),
        replaced: Sequence[values.PodSetAdmission] = (),
    ) -> None:
        """Without `places` topology is not looked at. Flavors that were `nominated` before are the only ones tried.

        What is `held` already is kept. Of what the `replaced` slice holds, pod set by pod set, only the rest is needed.
        """
        self._policy = policy
        self._queue = queue
        self._flavors = flavors
        self._workload = workload
        self._scan = scan
        self._oracle = oracle
        self._places = places
        self._nominated = nominated
        self._held = held
        self._replaced = replaced

    def assign(self, counts: Sequence[int] | None = None) -> Assignment:
        """Assign flavors to all pod sets, or to fewer pods of each (`counts`)."""
        result = Assignment(replaced=self._replaced)
        for group in self._pod_set_groups():
            if not self._assign_group(group, counts, result):
                break
        result.mode = min((pod_set.mode for pod_set in result.pod_sets), default=Mode.NO_FIT)
        if (
            self._places is not None
            and result.mode is not Mode.NO_FIT
            and assigner.concerns(self._queue, self._workload)
        ):
            assigner.place(self._places, self._queue, self._workload, result)
        if self._policy.unadmitted_workloads_observability and result.mode is Mode.NO_FIT:
            result.no_fit_reason = self._no_fit_reason(result)
        return result

    def _pod_set_groups(self) -> list[list[int]]:
        """Pod sets that share a topology group get their flavors together."""
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
        if self._held:
            flavors = {resource: choice for pod_set in assigned for resource, choice in pod_set.flavors.items()}
        found_reasons: list[FlavorReason] = []
        for resource, amount in requests.items():
            group = self._queue.group_of.get(resource)
            if resource in flavors or (group is None and (not amount or self._ignores_undeclared)):
                continue
            if group is None:
                flavors, found_reasons = {}, [reasons.ResourceUndeclared(resource=resource)]
                break
            found = self._find_flavor(group, positions, requests, resource, assumed=result.usage)
            attempts.merge(found.attempts, group, resource)
            if not found.flavors:
                flavors, found_reasons = {}, found.reasons
                break
            flavors |= found.flavors
            found_reasons += found.reasons
        considered = attempts.ordered()
        complete = True
        for pod_set in assigned:
            pod_set.flavors = self._own_flavors(pod_set, flavors, in_group=len(assigned) > 1)
            pod_set.reasons = tuple(found_reasons)
            pod_set.attempts = considered
            result.add(pod_set)
            complete = complete and bool(pod_set.flavors or not pod_set.requests)
        return complete

    def _own_flavors(
        self, pod_set: PodSetAssignment, flavors: dict[values.ResourceName, FlavorChoice], *, in_group: bool
    ) -> dict[values.ResourceName, FlavorChoice]:
        """Those of what it requests. One that requests nothing is placed with its group, so it shares its flavors."""
        if pod_set.requests or not in_group or self._places is None:
            return {resource: flavors[resource] for resource in pod_set.requests if resource in flavors}
        return {
            resource: choice
            for resource, choice in flavors.items()
            if self._places.levels_of(choice.flavor) is not None
        }

    @property
    def _ignores_undeclared(self) -> bool:
        return self._policy.quota_check_strategy is QuotaCheckStrategy.IGNORE_UNDECLARED

    def _unassigned(self, position: int, counts: Sequence[int] | None) -> PodSetAssignment:
        if self._held:
            return copy.deepcopy(self._held[position])
        pod_set = self._workload.pod_sets[position]
        count = pod_set.count if counts is None or not pod_set.count else counts[position]
        requests = assignment.scaled(pod_set, count)
        if values.PODS in self._queue.group_of:
            requests[values.PODS] = count
            requests = assignment.ranked(requests)
        return PodSetAssignment(name=pod_set.name, count=count, requests=requests, flavors={})

    def _find_flavor(
        self,
        group: Group,
        positions: list[int],
        requests: Requests,
        resource: values.ResourceName,
        *,
        assumed: quota_tree.Usage,
    ) -> _Found:
        covered = requests if requests.keys() <= group.covered else _only(requests, group.covered)
        best: dict[values.ResourceName, FlavorChoice] = {}
        best_grade = _WORST
        found_reasons: list[FlavorReason] = []
        attempts: list[FlavorAttempt] = []
        position = -1
        for position in range(self._first_flavor(positions[0], resource), len(group.flavors)):
            flavor = group.flavors[position]
            if self._nominated is not None and not self._is_nominated(flavor.name, positions, resource):
                found_reasons.append(reasons.FlavorNotNominated(flavor=flavor.name, resource=resource))
                continue
            mismatch = self._mismatch(flavor.name, positions, group)
            if mismatch is not None:
                found_reasons.append(mismatch)
                attempts.append(
                    self._attempt(
                        flavor.name,
                        NO_FIT,
                        borrowing=0,
                        found=[mismatch],
                        no_fit_reason=NoFitReason.NO_MATCHING_FLAVOR,
                    )
                )
                continue
            grade, choices = self._grade(
                flavor, covered, positions, assumed=assumed, found_reasons=found_reasons, attempts=attempts
            )
            if self._stops_at(grade):
                best, best_grade = choices, grade
                break
            if self._beats(grade, best_grade):
                best, best_grade = choices, grade
        last = -1 if position == len(group.flavors) - 1 else position
        for choice in best.values():
            choice.tried_flavor = last if self._policy.flavor_fungibility else 0
        return _Found(best, [] if best_grade.serves == FIT else found_reasons, attempts)

    def _first_flavor(self, position: int, resource: values.ResourceName) -> int:
        if self._scan is None or not self._policy.flavor_fungibility or position >= len(self._scan.tried):
            return 0
        return self._scan.tried[position].get(resource, -1) + 1

    def _grade(
        self,
        flavor: GroupFlavor,
        requests: Requests,
        positions: list[int],
        *,
        assumed: quota_tree.Usage,
        found_reasons: list[FlavorReason],
        attempts: list[FlavorAttempt],
    ) -> tuple[Grade, dict[values.ResourceName, FlavorChoice]]:
        """All resources are looked at, even after one does not fit, so that every reason is told."""
        worst = _BEST
        borrowing = 0
        choices: dict[values.ResourceName, FlavorChoice] = {}
        shortfalls: list[FlavorReason] = []
        no_fit_reason = NoFitReason.NONE
        for resource, requested in requests.items():
            index, amount = flavor.indices[resource], requested
            if self._replaced:
                amount, differs = self._beyond_replaced(flavor.name, resource, requested, positions)
                if differs is not None:
                    worst = _WORST
                    shortfalls.append(differs)
                    no_fit_reason = most_severe(no_fit_reason, NoFitReason.NO_MATCHING_FLAVOR)
            outcome = self._outcome(flavor.name, resource, assumed.get(index, 0), amount, index=index)
            if outcome.reason is not None:
                shortfalls.append(outcome.reason)
                no_fit_reason = most_severe(no_fit_reason, outcome.no_fit_reason)
            grade = outcome.grade
            borrowing = max(borrowing, grade.borrowing)
            if self._is_preferred(worst, grade):
                worst = grade
            choices[resource] = FlavorChoice(
                flavor=flavor.name, index=index, mode=_MODE[grade.serves], borrowing=grade.borrowing
            )
        found_reasons += shortfalls
        attempts.append(
            self._attempt(flavor.name, worst.serves, borrowing=borrowing, found=shortfalls, no_fit_reason=no_fit_reason)
        )
        return worst, choices

    def _beyond_replaced(
        self, flavor: values.FlavorName, resource: values.ResourceName, amount: int, positions: list[int]
    ) -> tuple[int, FlavorReason | None]:
        """What is needed beyond the slice that is replaced, which binds to its flavors."""
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
        serves: int,
        *,
        borrowing: int,
        found: list[FlavorReason],
        no_fit_reason: NoFitReason,
    ) -> FlavorAttempt:
        observed = self._policy.unadmitted_workloads_observability
        return FlavorAttempt(
            flavor=flavor,
            mode=_MODE[serves],
            borrowing=borrowing,
            possibility=_POSSIBILITY[serves],
            reasons=tuple(dict.fromkeys(found)) if self._replaced else tuple(found),
            no_fit_reason=no_fit_reason if observed else NoFitReason.NONE,
        )

    def _is_nominated(self, flavor: values.FlavorName, positions: list[int], resource: values.ResourceName) -> bool:
        assert self._nominated is not None
        names = [self._workload.pod_sets[position].name for position in positions]
        return any(self._nominated.get(name, {}).get(resource) == flavor for name in names)

    def _mismatch(self, name: values.FlavorName, positions: list[int], group: Group) -> FlavorReason | None:
        flavor = self._flavors.get(name)
        if flavor is None:
            return reasons.FlavorMissing(flavor=name)
        for position in positions:
            pod_set = self._workload.pod_sets[position]
            if self._places is not None and (flavor.topology is not None or pod_set.topology_request is not None):
                unplaceable = assigner.mismatch(self._places, self._queue, pod_set, flavor, group=group)
                if unplaceable is not None:
                    return unplaceable
            taint = matching.untolerated_taint(flavor, pod_set)
            if taint is not None:
                return reasons.TaintUntolerated(flavor=name, taint=taint)
            if not matching.matches_affinity(flavor, pod_set):
                return reasons.AffinityMismatch(flavor=name)
        return None

    def _outcome(
        self,
        flavor: values.FlavorName,
        resource: values.ResourceName,
        assumed: int,
        amount: int,
        *,
        index: quota_tree.Index,
    ) -> _Outcome:
        node = self._queue.node
        total = add(assumed, amount)
        capacity = quota_tree.potential_available(node, index)
        if total > capacity:
            reason = reasons.CapacityExceeded(
                flavor=flavor, resource=resource, assumed=assumed, requested=amount, capacity=capacity
            )
            return _Outcome(Grade(NO_FIT, 0), reason, NoFitReason.EXCEEDS_MAX_QUOTA)
        borrowing, may_reclaim = quota_tree.height_of_fit(node, index, total)
        unused = max(0, quota_tree.available(node, index))
        if total <= unused:
            return _Outcome(Grade(FIT, borrowing), None, NoFitReason.NONE)
        short = reasons.QuotaShort(flavor=flavor, resource=resource, needed=sub(total, unused))
        if node.nominal.get(index, 0) >= total or may_reclaim or self._can_preempt_while_borrowing:
            possibility, borrowing = self._oracle(index, total)
            return _Outcome(Grade(_FROM_POSSIBILITY[possibility], borrowing), short, NoFitReason.NONE)
        return _Outcome(Grade(NO_FIT, borrowing), short, NoFitReason.WAITING_FOR_QUOTA)

    @property
    def _can_preempt_while_borrowing(self) -> bool:
        preemption = self._queue.value.preemption
        return preemption.borrow_within_cohort is not None or (
            self._policy.fair_sharing is not None
            and preemption.reclaim_within_cohort is not values.PreemptionPolicy.NEVER
        )

    # Flavor fungibility.

    def _stops_at(self, grade: Grade) -> bool:
        if not self._policy.flavor_fungibility:
            return grade.serves == FIT
        if grade.serves in (NO_FIT, NO_CANDIDATES):
            return False
        fungibility = self._queue.value.flavor_fungibility
        if grade.serves != FIT and fungibility.when_can_preempt is FungibilityPolicy.TRY_NEXT_FLAVOR:
            return False
        return not (grade.borrowing and fungibility.when_can_borrow is FungibilityPolicy.TRY_NEXT_FLAVOR)

    def _beats(self, grade: Grade, best: Grade) -> bool:
        if not self._policy.flavor_fungibility:
            return grade.serves > best.serves
        return self._is_preferred(grade, best)

    def _is_preferred(self, left: Grade, right: Grade) -> bool:
        if NO_FIT in (left.serves, right.serves):
            return left.serves != NO_FIT
        if (left.serves == NO_CANDIDATES) != (right.serves == NO_CANDIDATES):
            return right.serves == NO_CANDIDATES
        if self._queue.value.flavor_fungibility.preference is FungibilityPreference.PREEMPTION_OVER_BORROWING:
            return (left.borrowing, -left.serves) < (right.borrowing, -right.serves)
        return (-left.serves, left.borrowing) < (-right.serves, right.borrowing)

    # Granular reasons.

    def _no_fit_reason(self, result: Assignment) -> NoFitReason:
        """Over the flavors of a resource group the mildest reason counts, over groups and pod sets the gravest."""
        overall = NoFitReason.NONE
        for pod_set in result.pod_sets:
            if pod_set.mode is not Mode.NO_FIT:
                continue
            if not pod_set.attempts:
                overall = most_severe(overall, NoFitReason.NO_MATCHING_FLAVOR)
            for group in self._queue.groups:
                names = {flavor.name for flavor in group.flavors}
                found = [
                    attempt.no_fit_reason
                    for attempt in pod_set.attempts
                    if attempt.mode is Mode.NO_FIT and attempt.flavor in names
                ]
                if found:
                    overall = most_severe(overall, min(found, key=reasons.SEVERITY.__getitem__))
        return overall


def _only(requests: Requests, covered: frozenset[values.ResourceName]) -> Requests:
    return {resource: amount for resource, amount in requests.items() if resource in covered}


def _summed(pod_sets: list[PodSetAssignment]) -> Requests:
    total: Requests = {}
    for pod_set in pod_sets:
        for resource, amount in pod_set.requests.items():
            total[resource] = add(total.get(resource, 0), amount)
    return assignment.ranked(total)
