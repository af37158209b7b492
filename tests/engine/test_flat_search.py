"""The search in plain numbers finds the targets that the search in the ledger finds."""

import random
from collections import Counter

import pytest

from pykueue.engine import events, values
from pykueue.engine.engine import Engine
from pykueue.engine.policy import Policy
from pykueue.engine.preemption import classical_targets
from pykueue.engine.preemption.target_search import PreemptionSearch
from pykueue.engine.reasons import PreemptionReason
from pykueue.engine.values import PreemptionPolicy

pytestmark = pytest.mark.untraced

RESOURCES = ("cpu", "memory")
PRIORITIES = (0, 50, 100)


class Cohort:
    """A cohort of some cluster queues and the workloads with quota in them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.engine = Engine(Policy(preemption_loop_guard=self.random.random() < 0.1))
        self.queues = [f"queue{number}" for number in range(self.random.randint(2, 6))]
        self.share_of_lenders = self.random.choice((0, 0.3))
        self.engine.handle(events.FlavorChanged(flavor=values.ResourceFlavor(name="default")))
        self.engine.handle(events.NamespaceChanged(name="a", labels={}))
        for name in self.queues:
            self.engine.handle(events.ClusterQueueChanged(cluster_queue=self.cluster_queue(name)))
            queue = values.LocalQueue(key=f"a/{name}", cluster_queue=name)
            self.engine.handle(events.LocalQueueChanged(local_queue=queue))
        for number in range(self.random.randint(10, 40)):
            self.engine.handle(events.WorkloadArrived(workload=self.running(number)))
        self.state = self.engine._state
        self.state.settle()

    def quota(self):
        nominal = self.random.randint(3, 20)
        return values.Quota(
            nominal=nominal,
            borrowing_limit=self.random.choice((None, None, 2, 20)),
            lending_limit=nominal // 2 if self.random.random() < self.share_of_lenders else None,
        )

    def cluster_queue(self, name):
        borrow = values.BorrowWithinCohort(max_priority_threshold=0) if self.random.random() < 0.1 else None
        quotas = values.FlavorQuotas(name="default", resources={resource: self.quota() for resource in RESOURCES})
        return values.ClusterQueue(
            name=name,
            cohort="all",
            namespace_selector=values.LabelSelector(),
            resource_groups=(values.ResourceGroup(covered_resources=RESOURCES, flavors=(quotas,)),),
            preemption=values.Preemption(
                within_cluster_queue=self.random.choice(tuple(PreemptionPolicy)[:3]),
                reclaim_within_cohort=self.random.choice((PreemptionPolicy.LOWER_PRIORITY, PreemptionPolicy.ANY)),
                borrow_within_cohort=borrow,
            ),
        )

    def workload(self, number, queue, requests, **fields):
        pod_set = values.PodSet(name="main", count=1, spec_count=1, requests=requests, pod_requests=requests)
        return values.Workload(
            key=f"a/workload{number}",
            uid=f"{number:06d}",
            namespace="a",
            local_queue=f"a/{queue}",
            created_at_ns=number,
            arrival=number,
            pod_sets=(pod_set,),
            priority=self.random.choice(PRIORITIES),
            generation=1,
            scheduling_hash=str(number),
            **fields,
        )

    def running(self, number):
        queue = self.random.choice(self.queues)
        usage = {resource: self.random.randint(0, self.random.choice((1, 3, 9))) for resource in RESOURCES}
        flavors = dict.fromkeys(RESOURCES, "default")
        assigned = values.PodSetAdmission(name="main", flavors=flavors, usage=usage, count=1)
        is_evicted = self.random.random() < 0.2
        return self.workload(
            number,
            queue,
            usage,
            admission=values.Admission(cluster_queue=queue, pod_sets=(assigned,)),
            reserved_at_ns=self.random.randint(0, 5),
            admitted=True,
            eviction=values.EvictionCondition(reason="Preempted", at_ns=9) if is_evicted else None,
        )

    def search(self, number):
        """A preemptor that needs one or all of the resources that it requests."""
        queue = self.random.choice(self.queues)
        chosen = RESOURCES[: self.random.randint(1, 2)]
        requests = {resource: self.random.randint(0 if self.random.random() < 0.1 else 1, 12) for resource in chosen}
        workload = self.workload(number, queue, requests)
        indexed = {self.state.tree.flavor_resources.index("default", name): amount for name, amount in requests.items()}
        return PreemptionSearch(
            state=self.state,
            queue=self.state.cluster_queues[queue],
            workload=workload,
            timestamp_ns=number,
            requests=indexed,
            needed=frozenset(self.random.sample(list(indexed), self.random.randint(1, len(indexed)))),
        )


def compare(monkeypatch, seeds):
    """Search on many cohorts, compare both searches each time, and count what they found."""
    flat_attempt = classical_targets._flat_attempt
    counts = Counter()

    def both_attempts(search, candidates, *, borrowing):
        targets = flat_attempt(search, candidates, borrowing=borrowing)
        if targets is None:
            counts["in the ledger"] += 1
            return None
        with search.state.ledger.trial():
            expected = classical_targets._attempt(search, candidates, borrowing=borrowing)
        assert targets == expected
        reasons = {target.reason for target in targets}
        counts["nothing"] += not targets
        counts["both"] += len(reasons) == 2
        counts["others"] += len(targets) > 1 and reasons == {PreemptionReason.IN_COHORT_RECLAMATION}
        counts["evicted"] += any(target.reservation.evicted for target in targets)
        return targets

    monkeypatch.setattr(classical_targets, "_flat_attempt", both_attempts)
    for seed in seeds:
        cohort = Cohort(seed)
        cohort.state.shared_candidates.open()
        for number in range(20):
            classical_targets.find_targets(cohort.search(1000 + number))
        cohort.state.shared_candidates.close()
    return counts


def test_the_flat_search_finds_the_same_targets(monkeypatch):
    counts = compare(monkeypatch, range(300))
    kinds = ("in the ledger", "nothing", "both", "others", "evicted")
    assert all(counts[kind] > 30 for kind in kinds), counts


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_the_flat_search_finds_the_same_targets_in_many_cohorts(monkeypatch):
    compare(monkeypatch, range(1000, 21_000))
