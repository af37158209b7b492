"""The engine's private state: objects by name, pending workloads, reserved quota and topology
usage.

Event handlers change it, and the scheduling cycle reads it and assumes its decisions in it.
Everybody outside `pykueue.engine` reads `EngineView` instead; an import-linter contract forbids
importing this module.

A change that may make inadmissible workloads admissible only marks its cohort tree. `settle` moves
the workloads of marked trees back to their heaps, all at once; `Reactivations` says when.
"""

from pykueue.engine import values
from pykueue.engine.cycle.second_pass import SecondPassQueue
from pykueue.engine.flavors import matching
from pykueue.engine.policy import Policy
from pykueue.engine.preemption.loop_guard import LoopGuard
from pykueue.engine.preemption.shared_candidates import SharedCandidates
from pykueue.engine.queues import pending_queue
from pykueue.engine.queues.cluster_queue import ClusterQueueState, inactivity
from pykueue.engine.queues.reactivations import Reactivations
from pykueue.engine.quota import admission_fair_sharing, quota_tree, reservations
from pykueue.engine.quota.ledger import Ledger
from pykueue.engine.quota.quota_tree import NodeKey
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.topology import workload_placement
from pykueue.engine.topology.cache import TopologyCache


class EngineState:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.now_ns = 0
        self.cycle = 0
        self.settings_version = 0
        """Grows when cluster queues, cohorts, flavors, checks, namespaces or topologies change."""
        self.tree = quota_tree.QuotaTree()
        self.topology_cache = TopologyCache(policy.topology)
        self.ledger = Ledger(self.topology_cache)
        self.cluster_queues: dict[values.ClusterQueueName, ClusterQueueState] = {}
        self.cohorts: dict[values.CohortName, values.Cohort] = {}
        """Only cohorts that exist as objects; `tree.cohorts` also has the implicit ones."""
        self.local_queues: dict[values.LocalQueueKey, values.LocalQueue] = {}
        self.flavors: dict[values.FlavorName, values.ResourceFlavor] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.checks: dict[values.CheckName, values.AdmissionCheck] = {}
        self.workloads: dict[values.WorkloadKey, values.Workload] = {}
        """Unfinished workloads as the last event described them."""
        self.finished: dict[values.WorkloadKey, values.LocalQueueKey] = {}
        """Local queues of finished workloads: deleting one of these reactivates its tree."""
        self.reservations: dict[values.WorkloadKey, Reservation] = {}
        self.assumed: dict[values.WorkloadKey, pending_queue.PendingWorkload] = {}
        """Admitted by a cycle, but not yet confirmed by an event."""
        self.not_ready: dict[values.WorkloadKey, None] = {}
        """Workloads with quota whose pods are not ready."""
        self.second_passes = SecondPassQueue()
        self.local_queue_usage = admission_fair_sharing.UsageLedger(policy.admission_fair_sharing)
        self.skipped_preemptions: dict[str, int] = {}
        """Preemptions that the last cycle skipped, per cluster queue."""
        self.loop_guard = LoopGuard() if policy.preemption_loop_guard else None
        self.shared_candidates = SharedCandidates()
        self.dirty_trees: dict[NodeKey, None] = {}
        """Roots of the trees that the next cycle looks at."""
        self.idle_trees: dict[NodeKey, None] = {}
        """Roots of trees whose heads cannot be admitted until something changes."""
        self.reactivated_trees: dict[NodeKey, None] = {}
        """Trees that the last event reactivated."""
        self.reactivations = Reactivations()
        """Trees whose inadmissible workloads `settle` will move back to their heaps."""
        self._namespace_checks: dict[values.ClusterQueueName, tuple[int, NamespaceCheck]] = {}
        """One for each cluster queue, valid for one version of the settings."""
        self._queues_of_tree: dict[NodeKey, tuple[int, list[ClusterQueueState]]] = {}
        """The cluster queues of a tree, valid for one version of the settings."""
        self._workloads_of: dict[values.LocalQueueKey, dict[values.WorkloadKey, None]] = {}
        self._without_cluster_queue: dict[values.ClusterQueueName, dict[values.WorkloadKey, None]] = {}
        """Workloads admitted to a cluster queue that does not exist (yet)."""

    # Cohort trees.

    def tree_of(self, name: values.ClusterQueueName) -> NodeKey:
        queue = self.cluster_queues.get(name)
        return NodeKey(is_cluster_queue=True, name=name) if queue is None else queue.node.root.key

    def mark_dirty(self, node: quota_tree.QuotaNode) -> None:
        key = node.root.key
        if key not in self.dirty_trees:
            self.dirty_trees[key] = None
            self.idle_trees.pop(key, None)

    def mark_all_dirty(self) -> None:
        self.dirty_trees |= self.idle_trees
        self.idle_trees = {}

    def tree_queues(self, key: NodeKey) -> list[ClusterQueueState]:
        """The cluster queues of one tree, in a total order."""
        version, queues = self._queues_of_tree.get(key, (-1, []))
        if version != self.settings_version:
            root = self.tree.find(key)
            nodes = () if root is None or root.parent is not None else quota_tree.subtree_cluster_queues(root)
            queues = [self.cluster_queues[values.ClusterQueueName(node.name)] for node in nodes]
            self._queues_of_tree[key] = (self.settings_version, queues)
        return queues

    def reactivate(self, node: quota_tree.QuotaNode) -> None:
        """Let the inadmissible workloads of this tree be tried again."""
        self.mark_dirty(node)
        key = node.root.key
        self.reactivations.add(key, self.now_ns)
        self.reactivated_trees[key] = None

    def reactivate_queue(self, name: values.ClusterQueueName) -> None:
        queue = self.cluster_queues.get(name)
        if queue is not None and not queue.in_cycle:
            self.reactivate(queue.node)

    def reactivate_around(self, local_queue: values.LocalQueueKey) -> None:
        """Reactivate the tree behind a local queue.

        As in Kueue, a stopped local queue reactivates nothing.
        """
        queue = self.queue_behind(local_queue)
        if queue is not None:
            self.reactivate_queue(queue.name)

    def begin_cycle(self, at_ns: int, requeue_interval_ns: int) -> None:
        self.now_ns = max(self.now_ns, at_ns)
        self.reactivations.begin_cycle(at_ns, requeue_interval_ns)
        self.settle()

    def settle(self) -> None:
        """Recompute changed trees, and move the workloads of reactivated trees to their heaps."""
        self.refresh()
        for key, above in self.reactivations.pop_due():
            for queue in self.tree_queues(key):
                if queue.pending.has_inadmissible:
                    self.mark_dirty(queue.node)
                    queue.pending.reactivate(self.namespace_check(queue), self.now_ns, above)

    def refresh(self) -> None:
        """Recompute changed trees, and drop the marks of nodes that are no longer roots."""
        rebuilt = self.tree.refresh()
        for root in rebuilt:
            self.mark_dirty(root)
        if rebuilt:
            self._queues_of_tree = {}
            for key in [key for key in (*self.dirty_trees, *self.idle_trees) if not self._is_root(key)]:
                self.dirty_trees.pop(key, None)
                self.idle_trees.pop(key, None)
            for key in self.reactivations.trees():
                if not self._is_root(key):
                    self.reactivations.forget(key)

    def _is_root(self, key: NodeKey) -> bool:
        node = self.tree.find(key)
        return node is not None and node.parent is None

    def namespace_check(self, queue: ClusterQueueState) -> "NamespaceCheck":
        version, check = self._namespace_checks.get(queue.name, (-1, None))
        if check is None or version != self.settings_version:
            check = NamespaceCheck(self.namespaces, queue.value.namespace_selector)
            self._namespace_checks[queue.name] = (self.settings_version, check)
        return check

    def forget_namespace_check(self, name: values.ClusterQueueName) -> None:
        self._namespace_checks.pop(name, None)

    def refresh_activity(self) -> None:
        """Recompute whether each cluster queue is active, after cohorts changed."""
        for queue in self.cluster_queues.values():
            self.refresh_activity_of(queue)

    def refresh_activity_of(self, queue: ClusterQueueState) -> None:
        before = (queue.node.participates, queue.inactivity)
        queue.inactivity = inactivity(queue.value, self.flavors, self.checks)
        if self.policy.topology_aware:
            queue.placement = workload_placement.policy_of(queue.value, self.flavors, self.checks)
            queue.inactivity += workload_placement.missing_topologies(queue, self.flavors, self.topology_cache)
        queue.in_cycle = self.tree.is_in_cycle(queue.name)
        self.tree.set_participation(queue.node, participates=queue.is_active and not queue.in_cycle)
        if before != (queue.node.participates, queue.inactivity):
            self.mark_dirty(queue.node)

    def usage_of(self, key: values.LocalQueueKey) -> float:
        """Usage under admission fair sharing; a missing local queue has weight 1."""
        local_queue = self.local_queues.get(key)
        return self.local_queue_usage.usage(key, 1.0 if local_queue is None else local_queue.fair_weight)

    # Pending workloads.

    def queue_of(self, workload: values.Workload) -> ClusterQueueState | None:
        return self.queue_behind(workload.local_queue)

    def queue_behind(self, key: values.LocalQueueKey) -> ClusterQueueState | None:
        """The cluster queue of a local queue; None if the local queue is stopped or missing."""
        local_queue = self.local_queues.get(key)
        if local_queue is None or local_queue.stop_policy is not values.StopPolicy.NONE:
            return None
        return self.cluster_queues.get(local_queue.cluster_queue)

    def index(self, workload: values.Workload) -> None:
        old = self.workloads.get(workload.key)
        if old is not None and old.local_queue != workload.local_queue:
            self._workloads_of[old.local_queue].pop(workload.key, None)
        self.workloads[workload.key] = workload
        self._workloads_of.setdefault(workload.local_queue, {})[workload.key] = None

    def remember_finished(self, workload: values.Workload) -> None:
        self.forget(workload)
        self.finished[workload.key] = workload.local_queue

    def forget(self, workload: values.Workload) -> None:
        del self.workloads[workload.key]
        self.second_passes.remove(workload.key)
        if self.loop_guard is not None:
            self.loop_guard.forget(workload.key)
        members = self._workloads_of[workload.local_queue]
        members.pop(workload.key, None)
        if not members:
            del self._workloads_of[workload.local_queue]

    def workloads_of(self, local_queue: values.LocalQueueKey) -> list[values.Workload]:
        return [self.workloads[key] for key in sorted(self._workloads_of.get(local_queue, ()))]

    def enqueue(self, workload: values.Workload) -> None:
        queue = self.queue_of(workload)
        if queue is not None:
            queue.pending.put(workload, self.now_ns)
            self.mark_dirty(queue.node)

    def dequeue(self, workload: values.Workload) -> None:
        queue = self.queue_of(workload)
        if queue is not None:
            queue.pending.remove(workload.key)
            self.mark_dirty(queue.node)

    # Workloads with quota.

    def reserve(self, workload: values.Workload) -> None:
        """Charge a workload for its admission, or remember it until its cluster queue exists."""
        assert workload.admission is not None
        queue = self.cluster_queues.get(workload.admission.cluster_queue)
        if queue is None:
            self._without_cluster_queue.setdefault(workload.admission.cluster_queue, {})[workload.key] = None
            return
        self.refresh()
        self.charge(queue, reservations.from_admission(workload, self.tree.flavor_resources))

    def charge(self, queue: ClusterQueueState, reservation: Reservation) -> None:
        self.reservations[reservation.key] = reservation
        queue.reservations.put(reservation)
        self.ledger.charge(queue.node, reservation.usage)
        self._add_topology_usage(reservation, 1)
        if not reservation.workload.pods_ready:
            self.not_ready[reservation.key] = None
        self.mark_dirty(queue.node)

    def _add_topology_usage(self, reservation: Reservation, sign: int) -> None:
        """Nodes serve many trees, so a change of their usage makes every tree dirty."""
        if reservation.topology_usage:
            self.topology_cache.add_usage(reservation.topology_usage, sign)
            self.mark_all_dirty()

    def confirm(self, workload: values.Workload) -> bool:
        """Accept an admission that equals the assumed one; False if it differs.

        Like every change of a reservation, this raises the generation of the queue, which outdates
        flavor scans.
        """
        reservation = self.reservations.get(workload.key)
        if (
            reservation is None
            or self.assumed.get(workload.key) is None
            or reservation.admission != workload.admission
            or reservation.workload.priority != workload.priority
        ):
            return False
        queue = self.cluster_queues[reservation.cluster_queue]
        queue.reservations.remove(workload.key)
        reservation.confirm(workload)
        queue.reservations.put(reservation)
        queue.node.generation += 1
        del self.assumed[workload.key]
        if workload.pods_ready:
            self.not_ready.pop(workload.key, None)
        self.mark_dirty(queue.node)
        return True

    def release(self, key: values.WorkloadKey) -> Reservation | None:
        reservation = self.reservations.pop(key, None)
        self.assumed.pop(key, None)
        self.not_ready.pop(key, None)
        if reservation is None:
            for keys in self._without_cluster_queue.values():
                keys.pop(key, None)
            return None
        queue = self.cluster_queues[reservation.cluster_queue]
        self.refresh()
        queue.reservations.remove(key)
        self.ledger.release(queue.node, reservation.usage)
        self._add_topology_usage(reservation, -1)
        queue.node.generation += 1
        self.mark_dirty(queue.node)
        return reservation

    def remember_reservation(self, reservation: Reservation) -> None:
        """Keep a workload in mind whose cluster queue was deleted."""
        self._without_cluster_queue.setdefault(reservation.cluster_queue, {})[reservation.key] = None

    def reserve_remembered(self, queue: ClusterQueueState) -> None:
        """Charge the workloads that were admitted to this cluster queue before it existed."""
        for key in sorted(self._without_cluster_queue.pop(queue.name, ())):
            self.reserve(self.workloads[key])

    def mark_evicted(self, key: values.WorkloadKey, *, evicted: bool) -> None:
        """Record that an eviction was decided, or refused.

        Evicted workloads are the first preemption candidates.
        """
        reservation = self.reservations[key]
        queue = self.cluster_queues[reservation.cluster_queue]
        queue.reservations.remove(key)
        reservation.set_evicted(evicted=evicted)
        queue.reservations.put(reservation)
        self.mark_dirty(queue.node)


class NamespaceCheck:
    """Whether the selector of a cluster queue accepts a namespace."""

    __slots__ = ("_answers", "_namespaces", "_selector")

    def __init__(self, namespaces: dict[str, dict[str, str]], selector: values.LabelSelector | None) -> None:
        self._namespaces = namespaces
        self._selector = selector
        self._answers: dict[str, bool] = {}

    def __call__(self, namespace: str) -> bool:
        answer = self._answers.get(namespace)
        if answer is None:
            labels = self._namespaces.get(namespace)
            answer = labels is not None and matching.selects(self._selector, labels)
            self._answers[namespace] = answer
        return answer
