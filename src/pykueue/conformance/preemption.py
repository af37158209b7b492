"""Replays recorded tests of preemption: the targets, their order and the preemption policies."""

from typing import Any

from msgspec import structs

from pykueue.conformance import differences
from pykueue.conformance.cluster import RecordedCluster
from pykueue.conformance.corpus import Case
from pykueue.conformance.differences import Difference
from pykueue.engine import decisions, events, values
from pykueue.engine.flavors import assignment
from pykueue.engine.preemption import target_search as preemption
from pykueue.engine.queues import pending_queue
from pykueue.engine.quota import reservations
from pykueue.engine.reasons import Mode
from pykueue.translate import messages

_MODES = {word: mode for mode, word in messages.MODES.items()}


def targets(case: Case) -> list[Difference]:
    cluster = RecordedCluster(case)
    state = cluster.state
    state.settle()
    queue = state.cluster_queues[values.ClusterQueueName(case["incomingClusterQueue"])]
    incoming = cluster.translated(case["incoming"])
    assigned = _assignment(cluster, case["assignment"])
    victims = preemption.find_targets(
        preemption.PreemptionSearch(
            state=state,
            queue=queue,
            workload=incoming,
            timestamp_ns=pending_queue.queue_order_timestamp(incoming, cluster.policy),
            requests=assignment.total_requests(incoming, assigned),
            needed=assigned.needs_preemption(),
        )
    )
    answer: dict[str, Any] = {
        "preempted": sorted(
            (
                {
                    "workload": target.reservation.key,
                    "reason": target.reason.value,
                    "clusterQueue": target.reservation.cluster_queue,
                }
                for target in victims
            ),
            key=lambda entry: str(entry["workload"]),
        )
    }
    if "conditions" in case["expect"]:
        cluster.preempt(_decision(cluster, incoming, queue.node.path, victims), incoming)
        answer["conditions"] = {
            key: sorted(obj["status"]["conditions"], key=lambda condition: str(condition["type"]))
            for key, obj in cluster.workloads.items()
        }
    return differences.between(_sorted_by_type(case["expect"]), answer)


def candidates_order(case: Case) -> list[Difference]:
    """Each candidate gets its own LocalQueue with the recorded usage."""
    cluster = RecordedCluster(_with_queues(case))
    state = cluster.state
    candidates = []
    for number, candidate in enumerate(case["candidates"]):
        key = values.LocalQueueKey(f"/{number}")
        nano = {values.ResourceName("cpu"): int((candidate.get("localQueueFSUsage") or 0) * 10**9)}
        cluster.handle(events.LocalQueueUsageSampled(at_ns=cluster.now_ns, key=key, consumed=nano))
        admission = values.Admission(cluster_queue=values.ClusterQueueName(candidate["clusterQueue"]), pod_sets=())
        value = structs.replace(cluster.translated(candidate["workload"]), admission=admission, local_queue=key)
        candidates.append(reservations.from_admission(value, state.tree.flavor_resources))
    search = preemption.PreemptionSearch(
        state=state,
        queue=state.cluster_queues[values.ClusterQueueName(case["preemptorClusterQueue"])],
        workload=candidates[0].workload,
        timestamp_ns=0,
        requests={},
        needed=frozenset(),
    )
    ordered = [reservation.key.rpartition("/")[2] for reservation in search.ordered(candidates)]
    return differences.between(case["expect"]["order"], ordered)


def _with_queues(case: Case) -> Case:
    names = {case["preemptorClusterQueue"], *(candidate["clusterQueue"] for candidate in case["candidates"])}
    is_fair = case["config"].get("admissionFairSharing")
    return {
        **case,
        "config": {**case["config"], "admissionFairSharing": {"usageHalfLifeTime": "10m"} if is_fair else None},
        "clusterQueues": [
            {
                "metadata": {"name": name},
                "spec": {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}},
            }
            for name in sorted(names)
        ],
        "localQueues": [
            {"metadata": {"name": str(number)}, "spec": {"clusterQueue": candidate["clusterQueue"]}}
            for number, candidate in enumerate(case["candidates"])
        ],
    }


def policy_is_satisfied(case: Case) -> list[Difference]:
    cluster = RecordedCluster(case)
    preemptor = cluster.translated(case["preemptor"])
    timestamp_ns = pending_queue.queue_order_timestamp(preemptor, cluster.policy)
    satisfied = preemption.satisfies_policy(
        cluster.policy,
        values.PreemptionPolicy(case["policy"]),
        (preemptor.priority, timestamp_ns),
        candidate=cluster.translated(case["candidate"]),
    )
    return differences.between(case["expect"]["satisfies"], satisfied)


def _assignment(cluster: RecordedCluster, recorded: Case) -> assignment.Assignment:
    result = assignment.Assignment()
    for pod_set in recorded["podSets"]:
        flavors = {
            values.ResourceName(resource): assignment.FlavorChoice(
                flavor=values.FlavorName(choice["name"]),
                index=cluster.index(f"{choice['name']}/{resource}"),
                mode=_MODES[choice["mode"]],
                borrowing=0,
            )
            for resource, choice in (pod_set.get("flavors") or {}).items()
        }
        result.pod_sets.append(
            assignment.PodSetAssignment(
                name=values.PodSetName(pod_set["name"]), count=pod_set["count"], requests={}, flavors=flavors
            )
        )
    result.mode = Mode.PREEMPT
    return result


def _decision(
    cluster: RecordedCluster,
    incoming: values.Workload,
    path: tuple[str, ...],
    victims: list[preemption.PreemptionTarget],
) -> decisions.Preempt:
    nodes = cluster.state.cluster_queues
    return decisions.Preempt(
        workload=incoming.key,
        cluster_queue=values.ClusterQueueName(path[-1]),
        path=path,
        targets=tuple(
            decisions.PreemptedWorkload(
                workload=target.reservation.key,
                cluster_queue=target.reservation.cluster_queue,
                reason=target.reason,
                path=nodes[target.reservation.cluster_queue].node.path,
                already_evicted=target.reservation.evicted,
            )
            for target in victims
        ),
    )


def _sorted_by_type(expect: Case) -> Case:
    if "conditions" not in expect:
        return expect
    conditions = {
        key: sorted(recorded, key=lambda condition: str(condition["type"]))
        for key, recorded in expect["conditions"].items()
    }
    return {**expect, "conditions": conditions}


RUNNERS = {
    **dict.fromkeys(("TestPreemption", "TestHierarchicalPreemptions", "TestFairPreemptions"), targets),
    "TestCandidatesOrdering": candidates_order,
    "TestSatisfiesPreemptionPolicy": policy_is_satisfied,
}
