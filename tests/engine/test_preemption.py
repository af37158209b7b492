import pytest
from tests.engine import builders as b

from pykueue.engine import decisions, events, reasons, values
from pykueue.engine.policy import AdmissionFairSharing, FairSharing, Policy
from pykueue.engine.quota import fair_sharing


def cohort(policy=None, **fields):
    """Two queues of 4; `mine` has the preemption policies."""
    return b.Cluster(
        b.cluster_queue("mine", "cohort", nominal=4, **fields),
        b.cluster_queue("theirs", "cohort", nominal=4),
        policy=policy,
    )


def test_lower_priority_in_the_own_queue_gives_way():
    cluster = b.Cluster(b.cluster_queue(nominal=1, within="LowerPriority"))
    cluster.add(b.workload("low", admitted_to="default"), b.workload("high", priority=1, created=1))
    assert cluster.preempted() == [("low", "InClusterQueue")]


def test_newer_equal_gives_way_if_the_policy_says_so():
    cluster = b.Cluster(b.cluster_queue(nominal=1, within="LowerOrNewerEqualPriority"))
    cluster.add(b.workload("newer", admitted_to="default", created=5), b.workload("older", created=1))
    assert cluster.preempted() == [("newer", "InClusterQueue")]


def test_borrower_gives_back_what_is_not_its_own():
    cluster = cohort(reclaim="Any")
    cluster.add(b.workload("borrower", "theirs", cpu=5, admitted_to="default"), b.workload("owner", "mine", cpu=4))
    assert cluster.preempted() == [("borrower", "InCohortReclamation")]


def test_queue_within_its_quota_keeps_it():
    cluster = cohort(reclaim="Any")
    cluster.add(b.workload("theirs", "theirs", cpu=4, admitted_to="default"))
    cluster.add(b.workload("mine", "mine", cpu=2, admitted_to="default"), b.workload("more", "mine", cpu=4))
    assert cluster.preempted() == []


def test_borrowing_preemptor_needs_a_policy_for_that():
    cluster = cohort(reclaim="LowerPriority", borrow_within_cohort=values.BorrowWithinCohort())
    cluster.add(b.workload("low", "theirs", cpu=6, admitted_to="default"))
    cluster.add(b.workload("high", "mine", cpu=6, priority=1, created=1))
    assert cluster.preempted() == [("low", "InCohortReclaimWhileBorrowing")]


def test_only_as_many_as_needed_are_taken():
    cluster = b.Cluster(b.cluster_queue(nominal=6, within="LowerPriority"))
    cluster.add(*(b.workload(f"low{n}", cpu=n, admitted_to="default", created=n) for n in (1, 2, 3)))
    cluster.add(b.workload("high", cpu=3, priority=1, created=9))
    assert cluster.preempted() == [("low3", "InClusterQueue")]


def test_two_preemptors_do_not_share_a_victim():
    cluster = b.Cluster(
        b.cluster_queue("a", "cohort", nominal=2, reclaim="Any"),
        b.cluster_queue("b", "cohort", nominal=2, reclaim="Any"),
        b.cluster_queue("c", "cohort", nominal=0),
    )
    cluster.add(b.workload("borrower", "c", cpu=4, admitted_to="default"))
    cluster.add(b.workload("one", "a", cpu=2, created=1), b.workload("two", "b", cpu=2, created=2))
    preempt, requeue, overlapping = cluster.cycle()
    assert (preempt.workload, requeue.workload) == ("default/one", "default/one")
    assert overlapping.pending == reasons.TargetsOverlap()
    assert cluster.state.skipped_preemptions == {"b": 1}


def test_a_preemptor_waits_for_the_victims_of_another_one():
    """Both fit when the borrower is gone, so the second one keeps its place in the queue."""
    cluster = b.Cluster(
        b.cluster_queue("a", "cohort", nominal=2, reclaim="Any"),
        b.cluster_queue("b", "cohort", nominal=2, reclaim="Any"),
        b.cluster_queue("c", "cohort", nominal=0),
        policy=Policy(recompute_overlapping_targets=True),
    )
    cluster.add(b.workload("borrower", "c", cpu=4, admitted_to="default"))
    cluster.add(b.workload("one", "a", cpu=2, created=1), b.workload("two", "b", cpu=2, created=2))
    *_, deferred = cluster.cycle()
    assert (deferred.workload, deferred.pending) == ("default/two", reasons.FitsAfterPreemptions())
    assert deferred.no_fit_reason is reasons.NoFitReason.WAITING_FOR_PREEMPTED_WORKLOADS
    assert cluster.state.skipped_preemptions == {}
    assert cluster.waiting("b") == ["two"]


def test_a_preemptor_takes_other_victims_if_its_own_are_taken():
    """Of two borrowers, each preemptor takes one in the same cycle."""
    cluster = b.Cluster(
        b.cluster_queue("a", "cohort", nominal=2, reclaim="Any"),
        b.cluster_queue("b", "cohort", nominal=2, reclaim="Any"),
        b.cluster_queue("c", "cohort", nominal=0),
        policy=Policy(recompute_overlapping_targets=True),
    )
    cluster.add(*(b.workload(f"borrower{n}", "c", cpu=2, admitted_to="default", created=n) for n in (1, 2)))
    cluster.add(b.workload("one", "a", cpu=2, created=3), b.workload("two", "b", cpu=2, created=4))
    assert sorted(cluster.preempted()) == [
        ("borrower1", "InCohortReclamation"),
        ("borrower2", "InCohortReclamation"),
    ]


def test_the_preemptor_keeps_the_head_of_its_queue():
    cluster = b.Cluster(b.cluster_queue(nominal=1, within="LowerPriority"))
    running = b.workload("low", admitted_to="default")
    cluster.add(running, b.workload("preemptor", priority=1, created=1))
    cluster.cycle()
    cluster.add(b.workload("later but higher", priority=2, created=2))
    cluster.handle(events.WorkloadGone(key=running.key))
    assert cluster.admitted() == ["preemptor"]


def test_a_preemption_is_not_issued_twice():
    cluster = b.Cluster(b.cluster_queue(nominal=1, within="LowerPriority"))
    cluster.add(b.workload("low", admitted_to="default"), b.workload("high", priority=1, created=1))
    cluster.cycle()
    (preempt, _) = cluster.cycle()
    assert [target.already_evicted for target in preempt.targets] == [True]


def test_a_refused_eviction_is_issued_again():
    cluster = b.Cluster(b.cluster_queue(nominal=1, within="LowerPriority"))
    cluster.add(b.workload("low", admitted_to="default"), b.workload("high", priority=1, created=1))
    cluster.cycle()
    cluster.handle(events.EvictionRefused(key="default/low"))
    (preempt, _) = cluster.cycle()
    assert [target.already_evicted for target in preempt.targets] == [False]


def test_head_without_victims_keeps_its_place_free():
    """A lower priority of another queue may not slip into what the head waits for."""
    cluster = cohort(within="LowerPriority")
    cluster.add(b.workload("running", "mine", cpu=3, priority=9, admitted_to="default"))
    cluster.add(b.workload("other", "theirs", cpu=2, admitted_to="default"))
    cluster.add(b.workload("waits", "mine", cpu=4, priority=5, created=1))
    cluster.add(b.workload("borrows", "theirs", cpu=3, created=2))
    assert cluster.admitted() == []


def test_closed_preemption_gate_holds_back_preemption_only():
    policy = Policy(preemption_gates=True)
    cluster = b.Cluster(b.cluster_queue(nominal=1, within="LowerPriority"), policy=policy)
    cluster.add(b.workload("low", admitted_to="default"))
    cluster.add(b.workload("gated", priority=1, created=1, closed_preemption_gate=True))
    (decision,) = cluster.cycle()
    assert decision.pending == reasons.PreemptionGated()
    cluster.handle(events.WorkloadGone(key="default/low"))
    assert cluster.admitted() == ["gated"]


FAIR = Policy(fair_sharing=FairSharing())


def test_the_lesser_share_goes_first():
    cluster = cohort(policy=FAIR)
    cluster.add(b.workload("theirs", "theirs", cpu=5, admitted_to="default"))
    cluster.add(
        b.workload("more", "theirs", cpu=1, priority=9, created=1), b.workload("mine", "mine", cpu=1, created=2)
    )
    assert cluster.admitted() == ["mine", "more"]


def test_fair_sharing_takes_from_the_greater_share():
    cluster = cohort(policy=FAIR, reclaim="Any")
    cluster.add(*(b.workload(f"theirs{n}", "theirs", cpu=2, admitted_to="default", created=n) for n in range(4)))
    cluster.add(b.workload("mine", "mine", cpu=2, created=9))
    assert cluster.preempted() == [("theirs3", "InCohortReclamation")]


@pytest.mark.parametrize(("weight", "weighted"), [(1.0, 250.0), (2.0, 125.0), (0.0, float("inf"))])
def test_share_is_what_is_borrowed_of_what_can_be_lent(weight, weighted):
    cluster = b.Cluster(
        b.cluster_queue("mine", "cohort", nominal=4, fair_weight=weight), b.cluster_queue("theirs", "cohort", nominal=4)
    )
    cluster.add(b.workload("big", "mine", cpu=6, admitted_to="default"))
    cluster.state.settle()
    share = fair_sharing.share(cluster.state.tree, cluster.state.tree.cluster_queues["mine"])
    assert (share.weighted, share.dominant_resource) == (weighted, "cpu")


def test_admission_fair_sharing_serves_who_used_less():
    afs = AdmissionFairSharing(half_life_ns=10**12, sampling_interval_ns=10**11)
    cluster = b.Cluster(b.cluster_queue(uses_admission_fair_sharing=True), policy=Policy(admission_fair_sharing=afs))
    for name, nano in (("greedy", 5 * 10**9), ("modest", 10**9)):
        key = f"default/{name}"
        cluster.handle(events.LocalQueueChanged(local_queue=values.LocalQueue(key=key, cluster_queue="queue")))
        cluster.handle(events.LocalQueueUsageSampled(key=key, consumed={b.CPU: nano}))
    cluster.add(b.workload("first", "greedy", priority=9), b.workload("second", "modest", created=1))
    assert cluster.admitted() == ["second"]


def test_loop_guard_lets_nobody_take_back():
    cluster = b.Cluster(b.cluster_queue(nominal=1, within="LowerPriority"), policy=Policy(preemption_loop_guard=True))
    low = b.workload("low", admitted_to="default")
    cluster.add(low, b.workload("high", priority=1, created=1))
    assert [type(decision) for decision in cluster.cycle()] == [decisions.Preempt, decisions.Requeue]
    assert not cluster.state.loop_guard.allows("default/low", "default/high")
