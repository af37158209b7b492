"""Replays recorded tests of the flavor assigner with recorded results of the preemption oracle."""

from collections.abc import Mapping, Sequence
from typing import Any

from pykueue.conformance import differences
from pykueue.conformance.cluster import RecordedCluster
from pykueue.conformance.corpus import Case
from pykueue.conformance.differences import Difference
from pykueue.engine import values
from pykueue.engine.cycle import nominate
from pykueue.engine.flavors.assigner import FlavorAssigner
from pykueue.engine.flavors.assignment import Assignment, PodSetAssignment
from pykueue.engine.quota import quota_tree
from pykueue.engine.reasons import FlavorAttempt, Possibility
from pykueue.translate import messages, outcomes

_POSSIBILITIES = {
    "NoCandidates": Possibility.NO_CANDIDATES,
    "Preempt": Possibility.PREEMPT,
    "Reclaim": Possibility.RECLAIM,
}


class RecordedOracle:
    """Returns the recorded results of the simulated preemption."""

    def __init__(self, simulation: Mapping[str, Any], names: quota_tree.FlavorResources) -> None:
        self._simulation = simulation
        self._names = names

    def __call__(self, index: quota_tree.Index, amount: int) -> tuple[Possibility, int]:
        del amount
        name = self._names.names[index]
        by_name = self._simulation.get("byFlavorResource") or {}
        answer = by_name.get(f"{name.flavor}/{name.resource}", self._simulation["default"])
        return _POSSIBILITIES[answer["possibility"]], answer["borrowingAfter"]


def assign(case: Case) -> list[Difference]:
    cluster = RecordedCluster(case)
    cluster.charge(case.get("usage") or {})
    state = cluster.state
    assigner = FlavorAssigner(
        policy=cluster.policy,
        queue=state.cluster_queues[values.ClusterQueueName(case["clusterQueue"])],
        flavors=state.flavors,
        workload=cluster.translated(case["workload"]),
        scan=None,
        oracle=RecordedOracle(case["simulation"], state.tree.flavor_resources),
        topology_cache=state.topology_cache if cluster.policy.topology_aware else None,
        replaced=_replaced(case.get("replacedWorkloadSlice") or {}),
    )
    return differences.between(case["expect"], _as_recorded(assigner.assign(), state.tree.flavor_resources))


def _replaced(recorded: Mapping[str, Any]) -> tuple[values.PodSetAdmission, ...]:
    """The admission of the slice that the workload of an elastic job replaces."""
    return tuple(
        values.PodSetAdmission(
            name=values.PodSetName(pod_set["Name"]),
            flavors=pod_set["Flavors"],
            usage=pod_set["Requests"],
            count=pod_set["Count"],
        )
        for pod_set in recorded.get("totalRequests") or ()
    )


def reducer_search(case: Case) -> list[Difference]:
    """Searches the largest counts, not below the minimum counts, with a sum within the limit."""
    pod_sets = [
        values.PodSet(
            name=values.PodSetName(pod_set.get("name", "")),
            count=pod_set["count"],
            spec_count=pod_set["count"],
            min_count=pod_set.get("minCount"),
            requests={},
        )
        for pod_set in case["podSets"]
    ]

    def within_limit(counts: Sequence[int]) -> int | None:
        return sum(counts) if sum(counts) <= case["totalCountLimit"] else None

    total = nominate.search_counts(pod_sets, within_limit)
    return differences.between(case["expect"], {"found": total is not None, "totalCount": total or 0})


def _as_recorded(result: Assignment, names: quota_tree.FlavorResources) -> dict[str, Any]:
    return {
        "representativeMode": messages.MODES[result.mode],
        "borrowing": result.borrowing,
        "message": messages.flavors_short(result.shortages(), outcomes.amount_text),
        "noFitReason": result.no_fit_reason.value,
        "usage": outcomes.usage_by_name((names.names[index], amount) for index, amount in result.usage.items()),
        "lastTriedFlavorIdx": [dict(tried) for tried in result.tried()],
        "podSets": [_pod_set(pod_set) for pod_set in result.pod_sets],
    }


def _pod_set(pod_set: PodSetAssignment) -> dict[str, Any]:
    return {
        "name": pod_set.name,
        "count": pod_set.count,
        "mode": messages.MODES[pod_set.mode],
        "requests": {name: outcomes.amount_text(name, amount) for name, amount in pod_set.requests.items()} or None,
        "flavors": {
            resource: {
                "name": choice.flavor,
                "mode": messages.MODES[choice.mode],
                "borrow": choice.borrowing,
                "triedFlavorIdx": choice.tried_flavor,
            }
            for resource, choice in pod_set.flavors.items()
        },
        "reasons": messages.flavor_reasons(pod_set.reasons, outcomes.amount_text) or None,
        "attempts": [_attempt(attempt) for attempt in pod_set.attempts],
        **({} if pod_set.conflict is None else {"error": messages.flavors_conflict(pod_set.conflict)}),
        **({} if pod_set.topology is None else {"topologyAssignment": _topology(pod_set.topology)}),
    }


def _topology(assignment: values.TopologyAssignment) -> dict[str, Any]:
    return {
        "Levels": list(assignment.levels),
        "Domains": [{"Values": list(domain.values), "Count": domain.pods} for domain in assignment.domains],
    }


def _attempt(attempt: FlavorAttempt) -> dict[str, Any]:
    return {
        "Flavor": attempt.flavor,
        "Mode": messages.MODES[attempt.mode],
        "Borrow": attempt.borrowing,
        "NoFitReason": attempt.no_fit_reason.value,
        "PreemptionPossibility": None if attempt.possibility is None else int(attempt.possibility),
        "Reasons": messages.flavor_reasons(attempt.reasons, outcomes.amount_text) or None,
    }


RUNNERS = {
    **dict.fromkeys(
        (
            "TestAssignFlavors",
            "TestHierarchical",
            "TestReclaimBeforePriorityPreemption",
            "TestDeletedFlavors",
            "TestIsNoFitDueToCapacityAndLimits",
            "TestAssignFlavorsWithAllowedFlavors",
            "TestAssignFlavors_LeaderWorkerSetTASFlavor",
        ),
        assign,
    ),
    "TestPodSetReducerSearch": reducer_search,
}
