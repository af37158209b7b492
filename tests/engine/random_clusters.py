"""Random clusters: an engine and a stream of random events. The seed repeats a failure."""

import random

from msgspec import structs
from tests.engine import builders as b

from pykueue.engine import decisions, events, values
from pykueue.engine.policy import FairSharing, FairSharingStrategy, Policy
from pykueue.engine.values import FungibilityPolicy, PreemptionPolicy, QueueingStrategy, StopPolicy

FLAVORS = ("spot", "reserved")
QUEUES = tuple(f"queue{number}" for number in range(4))
COHORTS = ("root", "left", "right")


def policy(seed):
    strategies = (tuple(FairSharingStrategy), *((strategy,) for strategy in FairSharingStrategy))
    chosen = random.Random(seed).choice((None, *strategies))
    return Policy(fair_sharing=None if chosen is None else FairSharing(preemption_strategies=chosen))


class RandomCluster:
    """`step` sends one random event and returns whether usage may now exceed the limits."""

    def __init__(self, seed, *, policy_of=policy):
        self.random = random.Random(seed)
        self.cluster = b.Cluster(policy=policy_of(seed))
        self.workloads = {}
        self.decided = []
        self.number = 0
        self.shrank = False
        for flavor in FLAVORS:
            self.cluster.handle(events.FlavorChanged(flavor=values.ResourceFlavor(name=flavor)))
        for name, parent in zip(COHORTS, (None, "root", "root"), strict=True):
            self.cluster.handle(events.CohortChanged(cohort=self.cohort(name, parent)))
        for name in QUEUES:
            self.cluster.put(self.queue(name))

    def cohort(self, name, parent):
        groups = (b.group({flavor: self.quota() for flavor in FLAVORS}),) if self.random.random() < 0.4 else ()
        return values.Cohort(
            name=name, parent=parent, resource_groups=groups, fair_weight=self.random.choice((0, 1, 2))
        )

    def quota(self):
        nominal = self.random.randint(0, 6)
        borrowing_limit = self.random.choice((None, None, 0, 2))
        lending_limit = self.random.choice((None, None, nominal // 2))
        return b.quota(nominal, borrowing_limit, lending_limit)

    def queue(self, name):
        choose = self.random.choice
        reclaim = (PreemptionPolicy.NEVER, PreemptionPolicy.LOWER_PRIORITY, PreemptionPolicy.ANY)
        within = (*reclaim[:2], PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY)
        return b.cluster_queue(
            name,
            choose((None, *COHORTS)),
            groups=[b.group({flavor: self.quota() for flavor in FLAVORS})],
            within=choose(within),
            reclaim=choose(reclaim),
            borrow_within_cohort=choose((None, values.BorrowWithinCohort(max_priority_threshold=1))),
            queueing_strategy=choose(tuple(QueueingStrategy)),
            flavor_fungibility=values.FlavorFungibility(
                when_can_borrow=choose(tuple(FungibilityPolicy)), when_can_preempt=choose(tuple(FungibilityPolicy))
            ),
            fair_weight=choose((0, 1, 2)),
        )

    def step(self):
        event = self.random.choices(
            (
                self.arrive,
                self.grow,
                self.finish,
                self.delete,
                self.cycle,
                self.change_queue,
                self.change_cohort,
                self.toggle,
            ),
            weights=(8, 2, 3, 1, 10, 1, 1, 1),
        )[0]
        event()
        return self.shrank

    def arrive(self):
        self.number += 1
        pod_sets = [
            b.pod_set({b.CPU: self.random.randint(1, 3)}, name=f"set{position}", count=count, min_count=minimum)
            for position in range(self.random.choice((1, 1, 2)))
            for count in [self.random.randint(1, 3)]
            for minimum in [1 if position == 0 and self.random.random() < 0.3 else None]
        ]
        added = b.workload(
            f"workload{self.number}",
            self.random.choice(QUEUES),
            pod_sets=pod_sets,
            priority=self.random.randint(0, 2),
            created=self.number,
        )
        self.workloads[added.key] = added
        self.cluster.add(added)

    def running(self):
        return sorted(key for key, workload in self.workloads.items() if workload.admission is not None)

    def grow(self):
        """An elastic job: a larger slice asks for the quota of the one that runs, and more."""
        running = [key for key in self.running() if all(key != other.replaces for other in self.workloads.values())]
        if not running:
            return
        self.number += 1
        old = self.workloads[self.random.choice(running)]
        pod_sets = [
            b.pod_set(
                {b.CPU: pod_set.requests[b.CPU] // pod_set.count},
                name=pod_set.name,
                count=pod_set.count + self.random.randint(1, 2),
            )
            for pod_set in old.pod_sets
        ]
        added = b.workload(
            f"workload{self.number}",
            old.local_queue.removeprefix("default/"),
            pod_sets=pod_sets,
            priority=old.priority,
            created=self.number,
            replaces=old.key,
        )
        self.workloads[added.key] = added
        self.cluster.add(added)

    def finish(self):
        if running := self.running():
            self.end(self.random.choice(running))

    def end(self, key):
        finished = structs.replace(self.workloads.pop(key), finished=True)
        self.cluster.handle(events.WorkloadChanged(workload=finished))

    def delete(self):
        if self.workloads:
            key = self.random.choice(sorted(self.workloads))
            del self.workloads[key]
            self.cluster.handle(events.WorkloadGone(key=key))

    def cycle(self):
        decided = self.cluster.cycle()
        self.decided += decided
        for decision in decided:
            if isinstance(decision, decisions.Admit):
                self.write(decision)
            elif isinstance(decision, decisions.Preempt):
                for target in decision.targets:
                    self.evict(target.workload)

    def write(self, decision):
        """The API accepts most admissions and refuses some."""
        if self.random.random() < 0.1:
            self.cluster.handle(events.AdmissionRefused(key=decision.workload))
            return
        written = structs.replace(
            self.workloads[decision.workload], admission=decision.admission, reserved_at_ns=decision.reserved_at_ns
        )
        self.workloads[decision.workload] = written
        self.cluster.handle(events.WorkloadChanged(workload=written))
        if decision.replaces is not None:
            self.end(decision.replaces)

    def evict(self, key):
        """The workload stops at once, or the eviction is refused."""
        if self.random.random() < 0.1:
            self.cluster.handle(events.EvictionRefused(key=key))
            return
        stopped = structs.replace(self.workloads[key], admission=None, reserved_at_ns=None)
        self.workloads[key] = stopped
        self.cluster.handle(events.WorkloadChanged(workload=stopped))

    def _may_exceed_quota(self):
        if not self.shrank:
            self.shrank = True
            self.cluster.may_exceed_quota()

    def change_queue(self):
        self._may_exceed_quota()
        self.cluster.put(self.queue(self.random.choice(QUEUES)))

    def change_cohort(self):
        """Also into cycles, or deleted."""
        self._may_exceed_quota()
        name = self.random.choice(COHORTS)
        if self.random.random() < 0.2:
            self.cluster.handle(events.CohortGone(name=name))
        else:
            self.cluster.handle(events.CohortChanged(cohort=self.cohort(name, self.random.choice((None, *COHORTS)))))

    def toggle(self):
        """Something that a queue needs is removed or added again."""
        kind = self.random.randrange(3)
        if kind == 0:
            name = self.random.choice(FLAVORS)
            if name in self.cluster.state.flavors:
                self.cluster.handle(events.FlavorGone(name=name))
            else:
                self.cluster.handle(events.FlavorChanged(flavor=values.ResourceFlavor(name=name)))
            return
        queue = self.random.choice(QUEUES)
        key = f"default/{queue}"
        if kind == 1:
            stop = self.random.choice((StopPolicy.NONE, StopPolicy.HOLD))
            local_queue = values.LocalQueue(key=key, cluster_queue=queue, stop_policy=stop)
            self.cluster.handle(events.LocalQueueChanged(local_queue=local_queue))
        else:
            self.cluster.handle(events.NamespaceChanged(name="default", labels={"toggle": str(self.number)}))
