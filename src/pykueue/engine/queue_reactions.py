"""What the engine does when queues, cohorts, flavors, checks or namespaces change."""

from pykueue.engine import events, values
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.quota import quota_tree
from pykueue.engine.reactions import react
from pykueue.engine.world import World


@react.register
def _cluster_queue_changed(event: events.ClusterQueueChanged, world: World) -> None:
    value = event.cluster_queue
    queue = world.cluster_queues.get(value.name)
    if queue is None:
        node = world.tree.put_cluster_queue(value)
        queue = world.cluster_queues[value.name] = ClusterQueueState(value, node, world.policy)
        _set_value(world, queue, value)
        world.adopt_homeless(queue)
        for local_queue in sorted(world.local_queues.values(), key=lambda each: each.key):
            if local_queue.cluster_queue == value.name:
                _push_all(world, local_queue.key)
    elif queue.value == value:
        return
    else:
        old = queue.value
        queue.node.weight = quota_tree.fair_weight(value)
        if old.cohort != value.cohort or old.resource_groups != value.resource_groups:
            world.stir(queue.node)
            world.tree.put_cluster_queue(value)
        _set_value(world, queue, value)
    world.refresh()
    world.reactivate_queue(value.name)


def _set_value(world: World, queue: ClusterQueueState, value: values.ClusterQueue) -> None:
    queue.set_value(value, world.tree.flavor_resources)
    uses_usage = value.uses_admission_fair_sharing and world.policy.admission_fair_sharing is not None
    queue.pending.reorganize(value.queueing_strategy, by_local_queue=uses_usage)
    world.refresh_activity_of(queue)


def _push_all(world: World, local_queue: values.LocalQueueKey) -> None:
    """A queue came (back): all that may queue goes into the heap."""
    for workload in world.workloads_of(local_queue):
        queue = world.queue_of(workload)
        if queue is not None and workload.may_queue and workload.key not in world.holdings:
            queue.pending.push(workload)
            world.stir(queue.node)


@react.register
def _cluster_queue_gone(event: events.ClusterQueueGone, world: World) -> None:
    queue = world.cluster_queues.get(event.name)
    if queue is None:
        return
    for holding in list(queue.holdings):
        world.release(holding.key)
        if holding.workload.key in world.workloads:
            world.remember_homeless(holding)
    world.stir(queue.node)
    del world.cluster_queues[event.name]
    world.tree.remove_cluster_queue(event.name)
    world.refresh()


@react.register
def _cohort_changed(event: events.CohortChanged, world: World) -> None:
    if world.cohorts.get(event.cohort.name) == event.cohort:
        return
    world.cohorts[event.cohort.name] = event.cohort
    before = world.tree.cohorts.get(event.cohort.name)
    if before is not None:
        world.stir(before)
    node = world.tree.put_cohort(event.cohort)
    _tree_changed(world, node)


@react.register
def _cohort_gone(event: events.CohortGone, world: World) -> None:
    node = world.tree.cohorts.get(event.name)
    if node is None or world.cohorts.pop(event.name, None) is None:
        return
    if node.parent is not None:
        world.reactivate(node)
    world.tree.remove_cohort(event.name)
    _tree_changed(world, node)


def _tree_changed(world: World, node: quota_tree.QuotaNode) -> None:
    world.refresh()
    world.refresh_activity()
    world.refresh()
    world.reactivate(node)


@react.register
def _flavor_changed(event: events.FlavorChanged, world: World) -> None:
    world.flavors[event.flavor.name] = event.flavor
    world.places.set_flavor(event.flavor)
    _flavors_changed(world, event.flavor.name)


@react.register
def _flavor_gone(event: events.FlavorGone, world: World) -> None:
    if world.flavors.pop(event.name, None) is not None:
        world.places.drop_flavor(event.name)
        _flavors_changed(world, event.name)


def _flavors_changed(world: World, name: values.FlavorName) -> None:
    for queue in world.cluster_queues.values():
        if any(flavor.name == name for group in queue.groups for flavor in group.flavors):
            world.refresh_activity_of(queue)
            world.reactivate_queue(queue.name)


@react.register
def _admission_check_changed(event: events.AdmissionCheckChanged, world: World) -> None:
    world.checks[event.check.name] = event.check
    _checks_changed_on_queues(world, event.check.name)


@react.register
def _admission_check_gone(event: events.AdmissionCheckGone, world: World) -> None:
    if world.checks.pop(event.name, None) is not None:
        _checks_changed_on_queues(world, event.name)


def _checks_changed_on_queues(world: World, name: values.CheckName) -> None:
    for queue in world.cluster_queues.values():
        if name in queue.value.admission_checks:
            was_active = queue.is_active
            world.refresh_activity_of(queue)
            if queue.is_active and not was_active:
                world.reactivate_queue(queue.name)


@react.register
def _namespace_changed(event: events.NamespaceChanged, world: World) -> None:
    """Queues that select the namespace now and did not before try again; a new namespace has nobody waiting yet."""
    matched_before = {queue.name for queue in world.cluster_queues.values() if world.namespace_check(queue)(event.name)}
    is_new = event.name not in world.namespaces
    world.namespaces[event.name] = dict(event.labels)
    if is_new and all(workload.namespace != event.name for workload in world.workloads.values()):
        return
    for queue in world.cluster_queues.values():
        if queue.name not in matched_before and world.namespace_check(queue)(event.name):
            world.reactivate_queue(queue.name)


@react.register
def _namespace_gone(event: events.NamespaceGone, world: World) -> None:
    world.namespaces.pop(event.name, None)


@react.register
def _local_queue_changed(event: events.LocalQueueChanged, world: World) -> None:
    value = event.local_queue
    old = world.local_queues.get(value.key)
    if old is not None and (old.cluster_queue, old.stop_policy) != (value.cluster_queue, value.stop_policy):
        for workload in world.workloads_of(value.key):
            world.dequeue(workload)
    world.local_queues[value.key] = value
    if old is None or (old.cluster_queue, old.stop_policy) != (value.cluster_queue, value.stop_policy):
        _push_all(world, value.key)


@react.register
def _local_queue_gone(event: events.LocalQueueGone, world: World) -> None:
    for workload in world.workloads_of(event.key):
        world.dequeue(workload)
    world.local_queues.pop(event.key, None)
    world.local_queue_usage.forget(event.key)


@react.register
def _local_queue_usage_sampled(event: events.LocalQueueUsageSampled, world: World) -> None:
    world.local_queue_usage.consumed[event.key] = dict(event.consumed)
    local_queue = world.local_queues.get(event.key)
    queue = None if local_queue is None else world.cluster_queues.get(local_queue.cluster_queue)
    if queue is not None:
        world.stir(queue.node)
