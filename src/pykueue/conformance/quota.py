"""Replays recorded tests of quota: available amounts, usage and shares in trees of cohorts."""

import math
from collections.abc import Mapping
from typing import Any

from pykueue.conformance import differences
from pykueue.conformance.cluster import RecordedCluster
from pykueue.conformance.corpus import Case
from pykueue.conformance.differences import Difference
from pykueue.engine import events
from pykueue.engine.quota import fair_sharing, quota_tree
from pykueue.translate import queue_report


def snapshot(case: Case) -> list[Difference]:
    cluster = RecordedCluster(case)
    cluster.charge(case.get("usage") or {})
    for key in case.get("remove") or ():
        cluster.handle(events.WorkloadGone(at_ns=cluster.now_ns, key=key))
    for key in case.get("add") or ():
        cluster.handle(events.WorkloadArrived(at_ns=cluster.now_ns, workload=cluster.value(key)))
    cluster.state.settle()
    expected = _comparable(case, case["expect"])
    answer = _comparable(case, _tree(cluster))
    if "additionalRequest" in case:
        answer["shares"] = _shares(cluster, case)
    return differences.between(expected, answer)


def is_borrowing(case: Case) -> list[Difference]:
    cluster = RecordedCluster(case)
    cluster.charge(case["usage"])
    node = cluster.state.tree.cluster_queues["cq"]
    requested = [cluster.index(name) for name in case["requested"] or ()]
    return differences.between(
        case["expect"],
        {
            "borrowing": not quota_tree.is_within_quota(node, node.usage),
            "borrowingOnRequested": not quota_tree.is_within_quota(node, requested),
        },
    )


def cluster_queue_usage(case: Case) -> list[Difference]:
    cluster = RecordedCluster(case)
    (queue,) = cluster.engine.view.cluster_queues()
    status = queue_report.cluster_queue(cluster.engine.view, queue)
    return differences.between(case["expect"], {name: status[name] for name in case["expect"]})


def _tree(cluster: RecordedCluster) -> dict[str, Any]:
    state = cluster.state
    active = {name: queue for name, queue in state.cluster_queues.items() if queue.node.participates}
    return {
        "clusterQueues": {
            name: {
                **_node(cluster, queue.node),
                "available": _available(cluster, queue.node),
                "potentialAvailable": {
                    key: quota_tree.potential_available(queue.node, index)
                    for key, index in _quotas(cluster, queue.node)
                },
                "workloads": sorted(reservation.key for reservation in queue.reservations),
            }
            for name, queue in active.items()
        },
        "cohorts": {
            name: _node(cluster, node) for name, node in state.tree.cohorts.items() if name not in state.tree.in_cycle
        },
        "inactiveClusterQueues": sorted(name for name in state.cluster_queues if name not in active),
    }


def _node(cluster: RecordedCluster, node: quota_tree.QuotaNode) -> dict[str, Any]:
    names = cluster.state.tree.flavor_resources.names
    return {
        "usage": cluster.by_name(node.usage),
        "subtreeQuota": {
            f"{names[index].flavor}/{names[index].resource}": amount for index, amount in node.subtree.items()
        },
        "drs": _share(cluster, node),
        **({"parent": node.parent.name} if node.parent is not None else {}),
    }


def _quotas(cluster: RecordedCluster, node: quota_tree.QuotaNode) -> list[tuple[str, quota_tree.Index]]:
    names = cluster.state.tree.flavor_resources.names
    return [(f"{names[index].flavor}/{names[index].resource}", index) for index in node.nominal]


def _available(cluster: RecordedCluster, node: quota_tree.QuotaNode) -> dict[str, int]:
    return {key: max(0, quota_tree.available(node, index)) for key, index in _quotas(cluster, node)}


def _share(
    cluster: RecordedCluster, node: quota_tree.QuotaNode, additional: Mapping[quota_tree.Index, int] | None = None
) -> dict[str, Any]:
    share = fair_sharing.share(cluster.state.tree, node, additional)
    precise = share.weighted
    return {
        "borrowing": share.is_borrowing,
        "dominantResource": share.dominant_resource,
        "preciseWeightedShare": "+Inf" if math.isinf(precise) else precise,
        "weightedShare": share.rounded,
    }


def _shares(cluster: RecordedCluster, case: Case) -> list[dict[str, Any]]:
    state = cluster.state
    request = {cluster.index(name): amount for name, amount in (case["additionalRequest"] or {}).items()}
    answers = []
    for expected in case["expect"]["shares"]:
        is_queue = expected["kind"] == "ClusterQueue"
        node = (state.tree.cluster_queues if is_queue else state.tree.cohorts)[expected["name"]]
        share = _share(cluster, node, request if is_queue else None)
        answers.append({"kind": expected["kind"], "name": expected["name"], **share})
    return answers


def _comparable(case: Case, tree: Mapping[str, Any]) -> dict[str, Any]:
    """Drops zero usage, and the workloads where the recording has only their usage."""
    hidden = {"workloads"} if "usage" in case else set()
    compared = dict(tree)
    for kind in ("clusterQueues", "cohorts"):
        compared[kind] = {
            name: {
                **{field: value for field, value in node.items() if field not in hidden},
                "usage": {key: amount for key, amount in node["usage"].items() if amount},
            }
            for name, node in tree[kind].items()
        }
    return compared


RUNNERS = {
    **dict.fromkeys(
        (
            "TestAvailable",
            "TestSnapshot",
            "TestSnapshotAddRemoveWorkload",
            "TestSnapshotAddRemoveWorkloadWithLendingLimit",
            "TestDominantResourceShare",
        ),
        snapshot,
    ),
    "TestIsBorrowingOn": is_borrowing,
    "TestClusterQueueUsage": cluster_queue_usage,
}
