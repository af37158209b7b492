"""Random loads of any size: an engine, and a stream of events that depends on its decisions.

Two engines that decide alike get the same events from one seed, so `play` compares them: it
returns everything that an engine decides and shows.
"""

import random

from msgspec import structs

from pykueue.engine import decisions, events, values
from pykueue.engine.policy import AdmissionFairSharing, FairSharing, FairSharingStrategy, Policy
from pykueue.engine.values import FungibilityPolicy, FungibilityPreference, PreemptionPolicy, QueueingStrategy

SECOND_NS = 10**9
RESOURCES = ("cpu", "memory")
BLOCK, RACK, HOST = "block", "rack", "kubernetes.io/hostname"
PRIORITIES = (0, 50, 100)


class RandomLoad:
    def __init__(self, seed, make_engine, *, queues, topology=None):
        self.random = random.Random(seed)
        self.topology = self.random.random() < 0.3 if topology is None else topology
        self.engine = make_engine(self.policy())
        self.now_ns = 0
        self.number = 0
        self.workloads = {}
        self.evictions = []
        self.transcript = []
        self.flavors = [f"flavor{number}" for number in range(self.random.randint(1, 3))]
        self.resources = RESOURCES[: self.random.randint(1, 2)]
        self.queues = [f"queue{number}" for number in range(queues)]
        self.cohorts = [f"cohort{number}" for number in range(self.random.randint(1, max(2, queues // 6)))]
        self.share_nominal = self.random.choice((2, 5, 20))
        self.set_up()
        self.classes = [self.workload_class(number) for number in range(self.random.randint(2, 6))]

    def policy(self):
        choose = self.random.choice
        strategies = choose((None, None, tuple(FairSharingStrategy), (FairSharingStrategy.LESS_THAN_INITIAL_SHARE,)))
        return Policy(
            fair_sharing=None if strategies is None else FairSharing(preemption_strategies=strategies),
            admission_fair_sharing=AdmissionFairSharing(half_life_ns=SECOND_NS, sampling_interval_ns=SECOND_NS)
            if self.random.random() < 0.15
            else None,
            block_admission=self.random.random() < 0.05,
            preemption_loop_guard=self.random.random() < 0.1,
            preserve_scan_progress=self.random.random() < 0.8,
            flavor_fungibility=self.random.random() < 0.9,
            priority_sorting_within_cohort=self.random.random() < 0.9,
            scheduling_equivalence_hashing=self.random.random() < 0.85,
            unadmitted_workloads_observability=self.random.random() < 0.3,
            prioritize_preemptor_workloads=self.random.random() < 0.3,
            preemption_gates=self.random.random() < 0.3,
            recompute_placement_within_cycle=self.random.random() < 0.9,
        )

    # Objects.

    def set_up(self):
        for team in "ab":
            self.send(events.NamespaceChanged(name=team, labels={"team": team}))
        if self.topology:
            levels = self.random.choice(((BLOCK, RACK, HOST), (RACK, HOST), (BLOCK, RACK)))
            self.send(events.TopologyChanged(name="default", levels=levels))
            for number in range(self.random.randint(3, 24)):
                self.send(events.NodeChanged(node=self.node(number)))
        for name in self.flavors:
            self.send(events.FlavorChanged(flavor=self.flavor(name)))
        for position, name in enumerate(self.cohorts):
            parent = self.random.choice((None, *self.cohorts[:position][-3:]))
            if parent is not None or self.random.random() < 0.3:
                self.send(events.CohortChanged(cohort=self.cohort(name, parent)))
        for name in self.queues:
            self.send(events.ClusterQueueChanged(cluster_queue=self.cluster_queue(name)))
            for team in "ab":
                self.send(
                    events.LocalQueueChanged(
                        local_queue=values.LocalQueue(key=f"{team}/{name}", cluster_queue=name, fair_weight=1.0)
                    )
                )

    def node(self, number):
        labels = {BLOCK: f"block{number % 2}", RACK: f"rack{number % 5}", HOST: f"node{number}", "pool": "all"}
        taints = ()
        if self.random.random() < 0.1:
            taints = (values.Taint(key="busy", value="", effect=values.TaintEffect.NO_SCHEDULE),)
        allocatable = {"cpu": self.random.randint(2, 12), "memory": self.random.randint(2, 12), values.PODS: 20}
        return values.Node(name=f"node{number}", labels=labels, allocatable=allocatable, taints=taints)

    def flavor(self, name):
        has_topology = self.topology and self.random.random() < 0.8
        return values.ResourceFlavor(
            name=name,
            topology="default" if has_topology else None,
            node_labels={"pool": "all"} if has_topology else {},
        )

    def quotas(self):
        return (
            values.ResourceGroup(
                covered_resources=self.resources,
                flavors=tuple(
                    values.FlavorQuotas(name=name, resources={resource: self.quota() for resource in self.resources})
                    for name in self.flavors
                ),
            ),
        )

    def quota(self):
        nominal = self.random.randint(0, self.share_nominal)
        return values.Quota(
            nominal=nominal,
            borrowing_limit=self.random.choice((None, None, 0, nominal, 3 * self.share_nominal)),
            lending_limit=self.random.choice((None, None, None, nominal // 2)),
        )

    def cohort(self, name, parent):
        groups = self.quotas() if self.random.random() < 0.2 else ()
        weight = self.random.choice((None, 0.0, 1.0, 2.0))
        return values.Cohort(name=name, parent=parent, resource_groups=groups, fair_weight=weight)

    def cluster_queue(self, name):
        choose = self.random.choice
        reclaim = choose((PreemptionPolicy.NEVER, PreemptionPolicy.LOWER_PRIORITY, *[PreemptionPolicy.ANY] * 3))
        borrow = None
        if reclaim is not PreemptionPolicy.NEVER and self.random.random() < 0.3:
            borrow = values.BorrowWithinCohort(max_priority_threshold=choose((None, 0, 50)))
        return values.ClusterQueue(
            name=name,
            cohort=choose((None, *self.cohorts, *self.cohorts)),
            namespace_selector=values.LabelSelector(),
            resource_groups=self.quotas(),
            preemption=values.Preemption(
                within_cluster_queue=choose(
                    (
                        PreemptionPolicy.NEVER,
                        *[PreemptionPolicy.LOWER_PRIORITY] * 2,
                        PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY,
                    )
                ),
                reclaim_within_cohort=reclaim,
                borrow_within_cohort=borrow,
            ),
            queueing_strategy=choose((*[QueueingStrategy.BEST_EFFORT_FIFO] * 4, QueueingStrategy.STRICT_FIFO)),
            flavor_fungibility=values.FlavorFungibility(
                when_can_borrow=choose(tuple(FungibilityPolicy)),
                when_can_preempt=choose(tuple(FungibilityPolicy)),
                preference=choose((None, *FungibilityPreference)),
            ),
            fair_weight=choose((None, None, 0.0, 0.5, 2.0)),
            uses_admission_fair_sharing=self.random.random() < 0.5,
        )

    def workload_class(self, number):
        request = None
        if self.topology and self.random.random() < 0.8:
            request = self.random.choice(
                (
                    values.TopologyRequest(required=RACK),
                    values.TopologyRequest(preferred=RACK),
                    values.TopologyRequest(unconstrained=True),
                    values.TopologyRequest(required=BLOCK),
                    values.TopologyRequest(slices=(values.SliceLayer(topology=RACK, size=2),)),
                )
            )
        pod_sets = []
        for position in range(self.random.choice((1, 1, 1, 2))):
            count = self.random.choice((1, 1, 2, 4))
            pod = {resource: self.random.randint(0 if resource != "cpu" else 1, 3) for resource in self.resources}
            tolerates = self.random.random() < 0.3
            pod_sets.append(
                values.PodSet(
                    name=f"set{position}",
                    count=count,
                    spec_count=count,
                    min_count=1 if position == 0 and count > 1 and self.random.random() < 0.15 else None,
                    requests={resource: amount * count for resource, amount in pod.items()},
                    pod_requests=pod,
                    topology_request=request,
                    tolerations=(values.Toleration(key="busy", operator="Exists"),) if tolerates else (),
                )
            )
        return (f"class{number}", tuple(pod_sets), self.random.choice(PRIORITIES))

    # Events.

    def send(self, event):
        event = structs.replace(event, at_ns=self.now_ns)
        decided = self.engine.handle(event)
        if decided:
            self.transcript.append(repr(decided))
        return decided

    def arrive(self):
        self.number += 1
        name, pod_sets, priority = self.random.choice(self.classes)
        queue, team = self.random.choice(self.queues), self.random.choice("ab")
        workload = values.Workload(
            key=f"{team}/workload{self.number}",
            uid=f"{self.number:06d}",
            namespace=team,
            local_queue=f"{team}/{queue}",
            created_at_ns=self.now_ns + self.random.randint(0, 2) * SECOND_NS,
            arrival=self.number,
            pod_sets=pod_sets,
            priority=priority,
            generation=1,
            scheduling_hash=name,
            closed_preemption_gate=self.random.random() < 0.03,
        )
        self.workloads[workload.key] = workload
        self.send(events.WorkloadArrived(workload=workload))

    def change(self, key, **fields):
        workload = self.workloads[key] = structs.replace(self.workloads[key], **fields)
        self.send(events.WorkloadChanged(workload=workload))

    def cycle(self):
        for decision in self.send(events.CycleDue()):
            match decision:
                case decisions.Admit() | decisions.AssignTopology():
                    self.write(decision)
                case decisions.Preempt():
                    for target in decision.targets:
                        self.evictions.append((target.workload, decision.workload))
                case decisions.Evict():
                    self.evictions.append((decision.workload, None))

    def write(self, decision):
        """The API accepts most admissions, and refuses some."""
        if self.random.random() < 0.05:
            self.send(events.AdmissionRefused(key=decision.workload))
        elif isinstance(decision, decisions.Admit):
            self.change(
                decision.workload,
                admission=decision.admission,
                reserved_at_ns=decision.reserved_at_ns,
                admitted=decision.admitted,
                pods_ready=self.random.random() < 0.8,
                eviction=None,
            )
        else:
            self.change(decision.workload, admission=decision.admission, admitted=decision.admitted)

    def evict(self):
        """Preempted workloads stop one after another; some evictions are refused."""
        stopped = [eviction for eviction in self.evictions if self.random.random() < 0.7]
        self.evictions = [eviction for eviction in self.evictions if eviction not in stopped]
        for key, _ in dict.fromkeys(stopped):
            workload = self.workloads.get(key)
            if workload is None or workload.admission is None:
                continue
            if self.random.random() < 0.1:
                self.send(events.EvictionRefused(key=key))
                continue
            self.change(key, eviction=values.EvictionCondition(reason="Preempted", at_ns=self.now_ns))
            if self.random.random() < 0.8:
                self.change(key, admission=None, reserved_at_ns=None, admitted=False, pods_ready=False)
            else:
                self.evictions.append((key, None))

    def finish(self):
        running = [key for key, workload in self.workloads.items() if workload.admission is not None]
        for key in self.random.sample(running, min(len(running), self.random.randint(0, 1 + len(running) // 4))):
            self.change(key, finished=True)
            del self.workloads[key]
            if self.random.random() < 0.5:
                self.send(events.WorkloadGone(key=key))

    def disturb(self):
        kind = self.random.randrange(8)
        name = self.random.choice(self.queues)
        if kind == 0 and self.workloads:
            key = self.random.choice(list(self.workloads))
            del self.workloads[key]
            self.send(events.WorkloadGone(key=key))
        elif kind == 1:
            self.send(events.ClusterQueueChanged(cluster_queue=self.cluster_queue(name)))
        elif kind == 2:
            cohort = self.random.choice(self.cohorts)
            self.send(events.CohortChanged(cohort=self.cohort(cohort, self.random.choice((None, *self.cohorts)))))
        elif kind == 3:
            self.send(events.FlavorChanged(flavor=self.flavor(self.random.choice(self.flavors))))
        elif kind == 4 and self.workloads:
            key = self.random.choice(list(self.workloads))
            self.change(key, priority=self.random.choice(PRIORITIES))
        elif kind == 5:
            consumed = {"cpu": self.random.randint(0, 9) * SECOND_NS}
            self.send(events.LocalQueueUsageSampled(key=f"a/{name}", consumed=consumed))
        elif self.topology and kind == 6:
            number = self.random.randrange(24)
            if self.random.random() < 0.3:
                self.send(events.NodeGone(name=f"node{number}"))
            else:
                self.send(events.NodeChanged(node=self.node(number)))
        elif self.topology:
            key, node = f"pod{self.random.randrange(5)}", f"node{self.random.randrange(24)}"
            if self.random.random() < 0.5:
                self.send(events.PodBound(key=key, node=node, requests={"cpu": self.random.randint(1, 4)}))
            else:
                self.send(events.PodEnded(key=key))

    def step(self):
        self.now_ns += self.random.choice((0, 1, 1000)) * SECOND_NS // 100
        for _ in range(self.random.randint(0, 1 + len(self.queues) // 2)):
            self.arrive()
        if self.random.random() < 0.4:
            self.finish()
        if self.random.random() < 0.5:
            self.evict()
        if self.random.random() < 0.15:
            self.disturb()
        for _ in range(self.random.randint(1, 4)):
            self.cycle()

    def shown(self):
        """What the engine shows of every queue."""
        view = self.engine.view
        return [
            repr((queue, view.pending_in_order(queue.value.name), view.reservations(queue.value.name)))
            for queue in view.cluster_queues()
        ] + [repr(sorted(map(repr, view.pending(name)))) for name in self.queues[:20]]


def play(seed, make_engine, *, queues, steps=12, topology=None):
    """Everything that the engine decided and shows at the end."""
    load = RandomLoad(seed, make_engine, queues=queues, topology=topology)
    for _ in range(steps):
        load.step()
    return [*load.transcript, *load.shown()]
