"""Handlers for queues, cohorts, flavors, admission checks and namespaces."""

from pykueue.engine import events, values
from pykueue.engine.flavors import matching
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.quota import quota_tree
from pykueue.engine.state import EngineState

# Cluster queues.


def cluster_queue_changed(state: EngineState, event: events.ClusterQueueChanged) -> None:
    value = event.cluster_queue
    queue = state.cluster_queues.get(value.name)
    if queue is None or queue.value != value:
        state.settings_version += 1
    if queue is None:
        node = state.tree.put_cluster_queue(value)
        queue = state.cluster_queues[value.name] = ClusterQueueState(value, node, state.policy)
        queue.created_at = state.settings_version
        _set_value(state, queue, value)
        state.reserve_remembered(queue)
        for local_queue in sorted(state.local_queues.values(), key=lambda local_queue: local_queue.key):
            if local_queue.cluster_queue == value.name:
                _push_all(state, local_queue.key)
    elif queue.value == value:
        return
    else:
        old = queue.value
        queue.node.weight = quota_tree.fair_weight(value)
        if old.cohort != value.cohort or old.resource_groups != value.resource_groups:
            state.mark_dirty(queue.node)
            state.tree.put_cluster_queue(value)
        _set_value(state, queue, value)
    state.refresh()
    state.reactivate_queue(value.name)


def cluster_queue_gone(state: EngineState, event: events.ClusterQueueGone) -> None:
    queue = state.cluster_queues.get(event.name)
    if queue is None:
        return
    state.settings_version += 1
    for reservation in list(queue.reservations):
        state.release(reservation.key)
        if reservation.workload.key in state.workloads:
            state.remember_reservation(reservation)
    state.mark_dirty(queue.node)
    del state.cluster_queues[event.name]
    state.forget_namespace_check(event.name)
    state.tree.remove_cluster_queue(event.name)
    state.refresh()


def _set_value(state: EngineState, queue: ClusterQueueState, value: values.ClusterQueue) -> None:
    queue.set_value(value, state.tree.flavor_resources)
    by_local_queue = value.uses_admission_fair_sharing and state.policy.admission_fair_sharing is not None
    queue.pending.reorganize(value.queueing_strategy, by_local_queue=by_local_queue)
    state.refresh_activity_of(queue)


def _push_all(state: EngineState, local_queue: values.LocalQueueKey) -> None:
    """Put all workloads of a new or resumed local queue that may queue into the heap."""
    for workload in state.workloads_of(local_queue):
        queue = state.queue_of(workload)
        if queue is not None and workload.may_queue and workload.key not in state.reservations:
            queue.pending.push(workload)
            state.mark_dirty(queue.node)


# Cohorts.


def cohort_changed(state: EngineState, event: events.CohortChanged) -> None:
    if state.cohorts.get(event.cohort.name) == event.cohort:
        return
    state.settings_version += 1
    state.cohorts[event.cohort.name] = event.cohort
    before = state.tree.cohorts.get(event.cohort.name)
    if before is not None:
        state.mark_dirty(before)
    _tree_changed(state, state.tree.put_cohort(event.cohort))


def cohort_gone(state: EngineState, event: events.CohortGone) -> None:
    node = state.tree.cohorts.get(event.name)
    if node is None or state.cohorts.pop(event.name, None) is None:
        return
    state.settings_version += 1
    if node.parent is not None:
        state.reactivate(node)
    state.tree.remove_cohort(event.name)
    _tree_changed(state, node)


def _tree_changed(state: EngineState, node: quota_tree.QuotaNode) -> None:
    state.refresh()
    state.refresh_activity()
    state.refresh()
    state.reactivate(node)


# Flavors and admission checks.


def flavor_changed(state: EngineState, event: events.FlavorChanged) -> None:
    state.settings_version += 1
    state.flavors[event.flavor.name] = event.flavor
    state.topology_cache.set_flavor(event.flavor)
    _refresh_queues_of_flavor(state, event.flavor.name)


def flavor_gone(state: EngineState, event: events.FlavorGone) -> None:
    if state.flavors.pop(event.name, None) is not None:
        state.settings_version += 1
        state.topology_cache.drop_flavor(event.name)
        _refresh_queues_of_flavor(state, event.name)


def _refresh_queues_of_flavor(state: EngineState, name: values.FlavorName) -> None:
    for queue in state.cluster_queues.values():
        if any(flavor.name == name for group in queue.groups for flavor in group.flavors):
            state.refresh_activity_of(queue)
            state.reactivate_queue(queue.name)


def admission_check_changed(state: EngineState, event: events.AdmissionCheckChanged) -> None:
    state.settings_version += 1
    state.checks[event.check.name] = event.check
    _refresh_queues_of_check(state, event.check.name)


def admission_check_gone(state: EngineState, event: events.AdmissionCheckGone) -> None:
    if state.checks.pop(event.name, None) is not None:
        state.settings_version += 1
        _refresh_queues_of_check(state, event.name)


def _refresh_queues_of_check(state: EngineState, name: values.CheckName) -> None:
    for queue in state.cluster_queues.values():
        if name in queue.value.admission_checks:
            was_active = queue.is_active
            state.refresh_activity_of(queue)
            if queue.is_active and not was_active:
                state.reactivate_queue(queue.name)


# Namespaces.


def namespace_changed(state: EngineState, event: events.NamespaceChanged) -> None:
    """Reactivate the queues that select the namespace now and did not before.

    A new namespace without workloads reactivates nothing.
    """
    before = state.namespaces.get(event.name)
    after = state.namespaces[event.name] = dict(event.labels)
    if before == after:
        return
    state.settings_version += 1
    if before is None and all(workload.namespace != event.name for workload in state.workloads.values()):
        return
    for queue in state.cluster_queues.values():
        selector = queue.value.namespace_selector
        matched = before is not None and matching.selects(selector, before)
        if not matched and matching.selects(selector, after):
            state.reactivate_queue(queue.name)


def namespace_gone(state: EngineState, event: events.NamespaceGone) -> None:
    state.settings_version += 1
    state.namespaces.pop(event.name, None)


# Local queues.


def local_queue_changed(state: EngineState, event: events.LocalQueueChanged) -> None:
    value = event.local_queue
    old = state.local_queues.get(value.key)
    if old is not None and (old.cluster_queue, old.stop_policy) != (value.cluster_queue, value.stop_policy):
        for workload in state.workloads_of(value.key):
            state.dequeue(workload)
    state.local_queues[value.key] = value
    if old is None or (old.cluster_queue, old.stop_policy) != (value.cluster_queue, value.stop_policy):
        _push_all(state, value.key)


def local_queue_gone(state: EngineState, event: events.LocalQueueGone) -> None:
    for workload in state.workloads_of(event.key):
        state.dequeue(workload)
    state.local_queues.pop(event.key, None)
    state.local_queue_usage.forget(event.key)


def local_queue_usage_sampled(state: EngineState, event: events.LocalQueueUsageSampled) -> None:
    state.local_queue_usage.consumed[event.key] = dict(event.consumed)
    local_queue = state.local_queues.get(event.key)
    queue = None if local_queue is None else state.cluster_queues.get(local_queue.cluster_queue)
    if queue is not None:
        state.mark_dirty(queue.node)
