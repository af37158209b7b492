"""The largest requests that a workload can have, whatever is freed: of its queue and of one node.

Called by `explain` and by `remedies`.
"""

from collections.abc import Mapping

from msgspec import structs

from pykueue.engine import values
from pykueue.engine.flavors import matching
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.quota import quota_tree
from pykueue.engine.state import EngineState

PodRequests = Mapping[values.ResourceName, int]


def exceeds(state: EngineState, queue: ClusterQueueState, workload: values.Workload) -> bool:
    """Whether a request is larger than the quota that the queue could have, in every flavor."""
    return bool(reduced(state, queue, workload, None))


def reduced(
    state: EngineState, queue: ClusterQueueState, workload: values.Workload, largest_node: PodRequests | None
) -> dict[values.PodSetName, dict[values.ResourceName, int]]:
    """The requests that are too large, by pod set, as the largest possible amounts of one pod."""
    return {
        pod_set.name: amounts
        for pod_set in workload.pod_sets
        if (
            amounts := {
                resource: limit
                for resource, amount in pod_set.requests.items()
                if (limit := _limit(state, queue, pod_set, (resource, largest_node))) * pod_set.count < amount
            }
        )
    }


def leaves_something(
    queue: ClusterQueueState,
    amounts: Mapping[values.PodSetName, PodRequests],
    largest_node: PodRequests | None,
) -> bool:
    """Whether only requests become 0 of which the queue or the nodes have nothing."""
    return all(
        amount or resource not in queue.group_of or (largest_node is not None and not largest_node.get(resource))
        for requests in amounts.values()
        for resource, amount in requests.items()
    )


def _limit(
    state: EngineState,
    queue: ClusterQueueState,
    pod_set: values.PodSet,
    request: tuple[values.ResourceName, PodRequests | None],
) -> int:
    resource, largest_node = request
    limit = _capacity(state, queue, pod_set, resource) // max(1, pod_set.count)
    return limit if largest_node is None else min(limit, largest_node.get(resource, 0))


def _capacity(
    state: EngineState, queue: ClusterQueueState, pod_set: values.PodSet, resource: values.ResourceName
) -> int:
    group = queue.group_of.get(resource)
    if group is None:
        return 0
    return max(
        (
            quota_tree.potential_available(queue.node, flavor.indices[resource])
            for flavor in group.flavors
            if (value := state.flavors.get(flavor.name)) is not None
            and matching.untolerated_taint(value, pod_set) is None
            and matching.matches_affinity(value, pod_set)
        ),
        default=0,
    )


def fits_a_node(workload: values.Workload, largest_node: PodRequests | None) -> bool:
    """Whether no request of a pod is larger than the largest node; True if nodes are unknown."""
    return largest_node is None or all(
        amount <= largest_node.get(resource, 0)
        for pod_set in workload.pod_sets
        for resource, amount in pod_set.pod_requests.items()
    )


def with_pod_requests(pod_set: values.PodSet, amounts: PodRequests) -> values.PodSet:
    """The pod set with these requests of each pod; 0 removes a request."""
    requests = {**pod_set.requests, **{name: amount * pod_set.count for name, amount in amounts.items()}}
    pod_requests = {**pod_set.pod_requests, **amounts}
    return structs.replace(
        pod_set,
        requests={name: amount for name, amount in requests.items() if amount or name not in amounts},
        pod_requests={name: amount for name, amount in pod_requests.items() if amount or name not in amounts},
    )
