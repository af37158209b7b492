"""Everything the engine knows: objects by name, who waits where, who holds what.

`Engine` changes it by events, the cycle reads it and books its decisions. Reactivation of parked workloads is
gathered per cohort tree and done once, before the next cycle.
"""

from collections.abc import Iterator

from pykueue.engine import values
from pykueue.engine.cycle.second_pass import SecondPasses
from pykueue.engine.flavors import matching
from pykueue.engine.policy import Policy
from pykueue.engine.preemption.loop_guard import LoopGuard
from pykueue.engine.queues import pending_queue
from pykueue.engine.queues.cluster_queue import ClusterQueueState, inactivity
from pykueue.engine.quota import admission_fair_sharing, quota_tree, reservations
from pykueue.engine.quota.ledger import Ledger
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.topology import assigner
from pykueue.engine.topology.cache import TopologyCache

RootKey = tuple[bool, str]


class World:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.now_ns = 0
        self.cycle = 0
        self.tree = quota_tree.QuotaTree()
        self.places = TopologyCache()
        self.ledger = Ledger(self.places)
        self.cluster_queues: dict[values.ClusterQueueName, ClusterQueueState] = {}
        self.cohorts: dict[values.CohortName, values.Cohort] = {}
        """Those that exist as objects."""
        self.local_queues: dict[values.LocalQueueKey, values.LocalQueue] = {}
        self.flavors: dict[values.FlavorName, values.ResourceFlavor] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.checks: dict[values.CheckName, values.AdmissionCheck] = {}
        self.workloads: dict[values.WorkloadKey, values.Workload] = {}
        """As the API last showed them."""
        self.finished: dict[values.WorkloadKey, values.LocalQueueKey] = {}
        """Where they were queued: that one of them is deleted is a reason to try the parked again."""
        self.holdings: dict[values.WorkloadKey, Reservation] = {}
        self.assumed: dict[values.WorkloadKey, pending_queue.Pending] = {}
        """Admitted by us and not yet seen so in the API."""
        self.not_ready: dict[values.WorkloadKey, None] = {}
        self.second_passes = SecondPasses()
        self.local_queue_usage = admission_fair_sharing.UsageLedger(policy.admission_fair_sharing)
        self.skipped_preemptions: dict[str, int] = {}
        """Of the last cycle, per cluster queue."""
        self.loop_guard = LoopGuard() if policy.preemption_loop_guard else None
        self.stirred: dict[RootKey, None] = {}
        """Trees to look at in the next cycle."""
        self.sleeping: dict[RootKey, None] = {}
        """Trees with heads that cannot go until something changes."""
        self._workloads_of: dict[values.LocalQueueKey, dict[values.WorkloadKey, None]] = {}
        self._homeless: dict[values.ClusterQueueName, dict[values.WorkloadKey, None]] = {}
        self._reactivations: dict[RootKey, None] = {}
        self.reactivated: dict[RootKey, None] = {}
        """Trees whose parked workloads were brought back; whoever reads it empties it."""

    # Trees.

    def root_key(self, node: quota_tree.QuotaNode) -> RootKey:
        root = node.root
        return (root.is_cluster_queue, root.name)

    def tree_of(self, name: values.ClusterQueueName) -> RootKey:
        queue = self.cluster_queues.get(name)
        return (True, name) if queue is None else self.root_key(queue.node)

    def stir(self, node: quota_tree.QuotaNode) -> None:
        key = self.root_key(node)
        if key not in self.stirred:
            self.stirred[key] = None
            self.sleeping.pop(key, None)

    def stir_all(self) -> None:
        self.stirred |= self.sleeping
        self.sleeping = {}

    def tree_queues(self, key: RootKey) -> Iterator[ClusterQueueState]:
        """The cluster queues of one tree, in a total order."""
        is_cluster_queue, name = key
        root = (self.tree.cluster_queues if is_cluster_queue else self.tree.cohorts).get(name)
        if root is not None and root.parent is None:
            for node in quota_tree.subtree_cluster_queues(root):
                yield self.cluster_queues[values.ClusterQueueName(node.name)]

    def reactivate(self, node: quota_tree.QuotaNode) -> None:
        """Whatever is parked in this tree may be tried again."""
        self.stir(node)
        self._reactivations[self.root_key(node)] = None
        self.reactivated[self.root_key(node)] = None

    def reactivate_queue(self, name: values.ClusterQueueName) -> None:
        queue = self.cluster_queues.get(name)
        if queue is not None and not queue.in_cycle:
            self.reactivate(queue.node)

    def reactivate_around(self, local_queue: values.LocalQueueKey) -> None:
        """A workload of this local queue went. As in Kueue, nobody notices if the local queue is stopped."""
        queue = self.queue_behind(local_queue)
        if queue is not None:
            self.reactivate_queue(queue.name)

    def settle(self) -> None:
        """Do what was gathered: recompute changed trees, bring parked workloads back."""
        self.refresh()
        if self._reactivations:
            for key in self._reactivations:
                for queue in self.tree_queues(key):
                    if queue.pending.has_parked:
                        queue.pending.reactivate(self.namespace_check(queue), self.now_ns)
            self._reactivations = {}

    def refresh(self) -> None:
        """Recompute trees whose quota or shape changed; old roots may be none any more."""
        rebuilt = self.tree.refresh()
        for root in rebuilt:
            self.stir(root)
        if rebuilt:
            for key in [key for key in (*self.stirred, *self.sleeping) if not self._is_root(key)]:
                self.stirred.pop(key, None)
                self.sleeping.pop(key, None)

    def _is_root(self, key: RootKey) -> bool:
        is_cluster_queue, name = key
        node = (self.tree.cluster_queues if is_cluster_queue else self.tree.cohorts).get(name)
        return node is not None and node.parent is None

    def namespace_check(self, queue: ClusterQueueState) -> "NamespaceCheck":
        return NamespaceCheck(self.namespaces, queue.value.namespace_selector)

    def refresh_activity(self) -> None:
        """After flavors, checks, stop policies or cohorts changed."""
        for queue in self.cluster_queues.values():
            self.refresh_activity_of(queue)

    def refresh_activity_of(self, queue: ClusterQueueState) -> None:
        before = (queue.node.participates, queue.inactivity)
        queue.inactivity = inactivity(queue.value, self.flavors, self.checks)
        if self.policy.topology_aware:
            queue.placement = assigner.policy_of(queue.value, self.flavors, self.checks)
            queue.inactivity += assigner.missing_topologies(queue, self.flavors, self.places)
        queue.in_cycle = self.tree.is_in_cycle(queue.name)
        self.tree.set_participation(queue.node, participates=queue.is_active and not queue.in_cycle)
        if before != (queue.node.participates, queue.inactivity):
            self.stir(queue.node)

    def usage_of(self, local_queue: values.LocalQueueKey) -> float:
        """Admission fair sharing: a missing local queue has weight 1."""
        found = self.local_queues.get(local_queue)
        return self.local_queue_usage.usage(local_queue, 1.0 if found is None else found.fair_weight)

    # Workloads in queues.

    def queue_of(self, workload: values.Workload) -> ClusterQueueState | None:
        return self.queue_behind(workload.local_queue)

    def queue_behind(self, key: values.LocalQueueKey) -> ClusterQueueState | None:
        """A stopped or missing local queue leads nowhere."""
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
        self.second_passes.drop(workload.key)
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
            self.stir(queue.node)

    def dequeue(self, workload: values.Workload) -> None:
        queue = self.queue_of(workload)
        if queue is not None:
            queue.pending.remove(workload.key)
            self.stir(queue.node)

    # Workloads with quota.

    def hold(self, workload: values.Workload) -> None:
        """Charge a workload for its admission; until its cluster queue exists it is only remembered."""
        assert workload.admission is not None
        queue = self.cluster_queues.get(workload.admission.cluster_queue)
        if queue is None:
            self._homeless.setdefault(workload.admission.cluster_queue, {})[workload.key] = None
            return
        self.refresh()
        self.charge(queue, reservations.from_admission(workload, self.tree.flavor_resources))

    def charge(self, queue: ClusterQueueState, holding: Reservation) -> None:
        self.holdings[holding.key] = holding
        queue.holdings.put(holding)
        self.ledger.charge(queue.node, holding.usage)
        self._places_changed(holding, 1)
        if not holding.workload.pods_ready:
            self.not_ready[holding.key] = None
        self.stir(queue.node)

    def _places_changed(self, holding: Reservation, sign: int) -> None:
        """Nodes serve many trees: whoever sleeps may find a place now, or lose one."""
        if holding.taken:
            self.places.book(holding.taken, sign)
            self.stir_all()

    def confirm(self, workload: values.Workload) -> bool:
        """Take in an admission that is just as assumed; answers whether it was. It ages flavor scans all the same."""
        holding = self.holdings.get(workload.key)
        if holding is None or self.assumed.get(workload.key) is None or holding.admission != workload.admission:
            return False
        if holding.workload.priority != workload.priority:
            return False
        queue = self.cluster_queues[holding.cluster_queue]
        queue.holdings.remove(workload.key)
        holding.confirm(workload)
        queue.holdings.put(holding)
        queue.node.generation += 1
        del self.assumed[workload.key]
        if workload.pods_ready:
            self.not_ready.pop(workload.key, None)
        self.stir(queue.node)
        return True

    def release(self, key: values.WorkloadKey) -> Reservation | None:
        holding = self.holdings.pop(key, None)
        self.assumed.pop(key, None)
        self.not_ready.pop(key, None)
        if holding is None:
            for keys in self._homeless.values():
                keys.pop(key, None)
            return None
        queue = self.cluster_queues[holding.cluster_queue]
        self.refresh()
        queue.holdings.remove(key)
        self.ledger.release(queue.node, holding.usage)
        self._places_changed(holding, -1)
        queue.node.generation += 1
        self.stir(queue.node)
        return holding

    def remember_homeless(self, holding: Reservation) -> None:
        self._homeless.setdefault(holding.cluster_queue, {})[holding.key] = None

    def mark_evicted(self, key: values.WorkloadKey, *, evicted: bool) -> None:
        """An eviction was decided (or refused): the next search takes it first (or as any other)."""
        holding = self.holdings[key]
        queue = self.cluster_queues[holding.cluster_queue]
        queue.holdings.remove(key)
        holding.set_evicted(evicted=evicted)
        queue.holdings.put(holding)
        self.stir(queue.node)

    def adopt_homeless(self, queue: ClusterQueueState) -> None:
        for key in sorted(self._homeless.pop(queue.name, ())):
            self.hold(self.workloads[key])


class NamespaceCheck:
    """Whether a namespace may use a cluster queue."""

    __slots__ = ("_namespaces", "_selector")

    def __init__(self, namespaces: dict[str, dict[str, str]], selector: values.LabelSelector | None) -> None:
        self._namespaces = namespaces
        self._selector = selector

    def __call__(self, namespace: str) -> bool:
        labels = self._namespaces.get(namespace)
        return labels is not None and matching.selects(self._selector, labels)
