"""Recorded tests of single steps of the cycle: the order of entries, and what a blocked one keeps from others."""

from dataclasses import replace

from pykueue.conformance import differences
from pykueue.conformance.cluster import Cluster
from pykueue.conformance.corpus import Case
from pykueue.conformance.differences import Difference
from pykueue.engine import values
from pykueue.engine.cycle import order, process
from pykueue.engine.cycle.entries import CycleEntry
from pykueue.engine.flavors.assignment import Assignment
from pykueue.engine.queues import pending_queue
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.quota import quota_tree
from pykueue.translate import messages

_MODES = {word: mode for mode, word in messages.MODES.items()}


def entries(case: Case) -> list[Difference]:
    cluster = Cluster(case)
    name = values.ClusterQueueName("queue")
    queue = ClusterQueueState(
        values.ClusterQueue(name=name), quota_tree.QuotaNode(name, is_cluster_queue=True), cluster.policy
    )
    made = [
        CycleEntry(
            pending=pending_queue.PendingWorkload(
                _numbered(cluster.translated(entry["workload"]), number), cluster.policy
            ),
            queue=queue,
            is_preemptor=entry["isPreemptor"],
            scan_before=None,
            assignment=Assignment(borrowing=entry["borrowing"]),
        )
        for number, entry in enumerate(case["entries"])
    ]
    ordered = [entry.pending.key.rpartition("/")[2] for entry in order.ordered(cluster.state, made)]
    return differences.between(case["expect"]["order"], ordered)


def _numbered(workload: values.Workload, number: int) -> values.Workload:
    """The recorded workloads have no uid to end a tie; they stay in the order in which they are listed."""
    return replace(workload, uid=workload.uid or f"{number:06}")


def reserved(case: Case) -> list[Difference]:
    cluster = Cluster(case)
    cluster.charge(case["usage"])
    recorded = case["assignment"]
    found = Assignment(
        mode=_MODES[recorded["mode"]],
        borrowing=recorded["borrowing"],
        usage={cluster.index(name): amount for name, amount in recorded["usage"].items()},
    )
    kept = process.reserved_usage(cluster.state.tree.cluster_queues["cq"], found)
    names = cluster.state.tree.flavor_resources.names
    shown = {f"{names[index].flavor}/{names[index].resource}": amount for index, amount in kept.items()}
    return differences.between(case["expect"]["reserved"], shown)


RUNNERS = {"TestEntryOrdering": entries, "TestResourcesToReserve": reserved}
