"""Variants of concurrent admission: workloads of one parent, each with a flavor of its own.

At most one variant of a parent stays admitted, and a variant with an earlier flavor replaces one
with a later flavor. `process` asks before it admits a variant.
"""

from pykueue.engine import values
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.quota.reservations import Reservation


def better_admitted(queue: ClusterQueueState, variant: values.Workload) -> Reservation | None:
    """The admitted variant of the same parent with an earlier flavor."""
    return _admitted_sibling(queue, variant, is_earlier=True)


def worse_admitted(queue: ClusterQueueState, variant: values.Workload) -> Reservation | None:
    """The admitted variant of the same parent with a later flavor."""
    return _admitted_sibling(queue, variant, is_earlier=False)


def may_migrate(queue: ClusterQueueState, variant: values.Workload) -> bool:
    """Whether the flavor of the variant is acceptable for a workload that runs already."""
    policy = queue.value.concurrent_admission
    if policy is None or policy.last_acceptable_flavor is None:
        return True
    rank = _rank(queue, variant)
    last = _ranks(queue).get(policy.last_acceptable_flavor)
    return rank is not None and last is not None and rank <= last


def _admitted_sibling(queue: ClusterQueueState, variant: values.Workload, *, is_earlier: bool) -> Reservation | None:
    rank = _rank(queue, variant)
    if rank is None:
        return None
    for reservation in queue.reservations:
        sibling = reservation.workload
        if sibling.parent_uid != variant.parent_uid or sibling.key == variant.key or not sibling.admitted:
            continue
        sibling_rank = _rank(queue, sibling)
        if sibling_rank is not None and (sibling_rank < rank if is_earlier else sibling_rank > rank):
            return reservation
    return None


def _rank(queue: ClusterQueueState, variant: values.Workload) -> int | None:
    """The position of the variant's flavor in the cluster queue."""
    return _ranks(queue).get(variant.allowed_flavors[0]) if variant.allowed_flavors else None


def _ranks(queue: ClusterQueueState) -> dict[values.FlavorName, int]:
    groups = queue.value.resource_groups
    return {flavor.name: rank for rank, flavor in enumerate(groups[0].flavors)} if groups else {}
