import pytest
from msgspec import structs
from tests.engine import builders as b

from pykueue.engine import decisions, events, reasons, values
from pykueue.engine.policy import Policy, RequeuingTimestamp


def test_higher_priority_goes_first():
    cluster = b.Cluster(b.cluster_queue(nominal=1))
    cluster.add(b.workload("low", created=1), b.workload("high", priority=1, created=2))
    assert cluster.admitted() == ["high"]


def test_older_goes_first_among_equals():
    cluster = b.Cluster(b.cluster_queue(nominal=1))
    cluster.add(b.workload("young", created=2), b.workload("old", created=1))
    assert cluster.admitted() == ["old"]


def test_one_head_a_cycle_from_each_queue():
    cluster = b.Cluster(b.cluster_queue("left"), b.cluster_queue("right"))
    cluster.add(*(b.workload(f"{queue}{n}", queue, created=n) for queue in ("left", "right") for n in (1, 2)))
    assert cluster.admitted() == ["left1", "right1"]


def test_strict_fifo_head_blocks_its_queue():
    cluster = b.Cluster(b.cluster_queue(nominal=1, strict=True))
    cluster.add(b.workload("big", cpu=2, created=1), b.workload("small", created=2))
    cluster.cycle()
    assert (cluster.admitted(), cluster.waiting()) == ([], ["big", "small"])


def test_best_effort_fifo_marks_its_head_inadmissible_and_goes_on():
    cluster = b.Cluster(b.cluster_queue(nominal=1))
    cluster.add(b.workload("big", cpu=2, created=1), b.workload("small", created=2))
    cluster.cycle()
    assert (cluster.inadmissible(), cluster.admitted()) == (["big"], ["small"])


def test_workloads_with_one_scheduling_hash_become_inadmissible_together():
    cluster = b.Cluster(b.cluster_queue(nominal=1))
    cluster.add(*(b.workload(f"big{n}", cpu=2, created=n) for n in range(3)))
    cluster.cycle()
    assert cluster.inadmissible() == ["big0", "big1", "big2"]


def test_a_late_arrival_with_an_inadmissible_hash_is_inadmissible_at_once():
    cluster = b.Cluster(b.cluster_queue(nominal=1))
    cluster.add(b.workload("big", cpu=2))
    cluster.cycle()
    cluster.add(b.workload("late", cpu=2, created=1))
    assert cluster.inadmissible() == ["big", "late"]


def test_without_equivalence_hashing_every_workload_is_tried():
    cluster = b.Cluster(b.cluster_queue(nominal=1), policy=Policy(scheduling_equivalence_hashing=False))
    cluster.add(*(b.workload(f"big{n}", cpu=2, created=n) for n in range(3)))
    cluster.cycle()
    assert cluster.inadmissible() == ["big0"]


def test_a_finish_reactivates_the_whole_cohort():
    cluster = b.Cluster(b.cluster_queue("left", "cohort", nominal=1), b.cluster_queue("right", "cohort", nominal=1))
    running = b.workload("running", "left", cpu=2, admitted_to="default")
    cluster.add(running, b.workload("waits", "right", cpu=2))
    cluster.cycle()
    assert cluster.inadmissible("right") == ["waits"]
    cluster.handle(events.WorkloadChanged(workload=b.replaced(running, finished=True)))
    assert cluster.waiting("right") == ["waits"]


def test_deleting_a_finished_workload_reactivates_again():
    cluster = b.Cluster(b.cluster_queue(nominal=1))
    done = b.workload("done")
    cluster.add(done)
    cluster.handle(events.WorkloadChanged(workload=b.replaced(done, finished=True)))
    cluster.add(b.workload("big", cpu=2, created=1))
    cluster.cycle()
    cluster.handle(events.WorkloadGone(key="default/done"))
    assert cluster.waiting() == ["big"]


def test_a_finish_behind_a_stopped_local_queue_reactivates_nothing():
    cluster = b.Cluster(b.cluster_queue(nominal=1))
    running = b.workload("running", admitted_to="default")
    cluster.add(running, b.workload("next", "open"))
    cluster.handle(events.LocalQueueChanged(local_queue=values.LocalQueue(key="default/open", cluster_queue="queue")))
    cluster.cycle()
    stopped = values.LocalQueue(key="default/queue", cluster_queue="queue", stop_policy=values.StopPolicy.HOLD)
    cluster.handle(events.LocalQueueChanged(local_queue=stopped))
    cluster.handle(events.WorkloadChanged(workload=b.replaced(running, finished=True)))
    assert cluster.inadmissible() == ["next"]


def test_an_unchanged_queue_reactivates_nothing():
    queue = b.cluster_queue(nominal=1)
    cluster = b.Cluster(queue)
    cluster.add(b.workload("big", cpu=2))
    cluster.cycle()
    cluster.put(queue)
    assert cluster.inadmissible() == ["big"]


def test_a_weight_spelled_out_brings_the_parked_back():
    queue = b.cluster_queue(nominal=1)
    cluster = b.Cluster(queue)
    cluster.add(b.workload("big", cpu=2))
    cluster.cycle()
    cluster.put(structs.replace(queue, fair_weight=1.0))
    assert cluster.waiting() == ["big"]


def test_more_quota_brings_the_parked_back():
    cluster = b.Cluster(b.cluster_queue(nominal=1))
    cluster.add(b.workload("big", cpu=2))
    cluster.cycle()
    cluster.put(b.cluster_queue(nominal=2))
    assert cluster.admitted() == ["big"]


@pytest.mark.parametrize("held_back", [{"requeued": False}, {"requeue_at_ns": 10**18}])
def test_backoff_keeps_a_workload_out_of_the_heap(held_back):
    cluster = b.Cluster(b.cluster_queue())
    cluster.add(b.workload("evicted", **held_back))
    cluster.put(b.cluster_queue(nominal=20))
    assert (cluster.waiting(), cluster.inadmissible()) == ([], ["evicted"])


def test_the_end_of_a_backoff_brings_it_back():
    cluster = b.Cluster(b.cluster_queue())
    evicted = b.workload("evicted", requeued=False)
    cluster.add(evicted)
    cluster.handle(events.WorkloadChanged(workload=structs.replace(evicted, requeued=True)))
    assert cluster.waiting() == ["evicted"]


@pytest.mark.parametrize(
    ("timestamp", "first"), [(RequeuingTimestamp.EVICTION, "other"), (RequeuingTimestamp.CREATION, "evicted")]
)
def test_a_pods_ready_timeout_sends_to_the_back_if_configured(timestamp, first):
    cluster = b.Cluster(b.cluster_queue(nominal=1), policy=Policy(requeuing_timestamp=timestamp))
    eviction = values.EvictionCondition(reason="PodsReadyTimeout", at_ns=100)
    cluster.add(b.workload("evicted", created=1, eviction=eviction), b.workload("other", created=50))
    assert cluster.admitted() == [first]


@pytest.mark.parametrize("field", ["on_hold", "admission_gated", "waiting_for_replacement_pods"])
def test_some_workloads_do_not_queue(field):
    cluster = b.Cluster(b.cluster_queue())
    cluster.add(b.workload("held", **{field: True}))
    assert cluster.admitted() == []


def test_a_stopped_local_queue_takes_its_workloads_out():
    cluster = b.Cluster(b.cluster_queue())
    cluster.add(b.workload("one"))
    stopped = values.LocalQueue(key="default/queue", cluster_queue="queue", stop_policy=values.StopPolicy.HOLD)
    cluster.handle(events.LocalQueueChanged(local_queue=stopped))
    assert cluster.waiting() == []


def test_a_queue_without_its_flavor_admits_nothing_until_it_comes():
    cluster = b.Cluster(b.cluster_queue())
    cluster.handle(events.FlavorGone(name="default"))
    cluster.add(b.workload("one"))
    assert cluster.admitted() == []
    cluster.handle(events.FlavorChanged(flavor=values.ResourceFlavor(name="default")))
    assert cluster.admitted() == ["one"]


def test_a_queue_with_an_inactive_check_admits_nothing():
    cluster = b.Cluster(b.cluster_queue(admission_checks={"check": frozenset()}))
    cluster.add(b.workload("one"))
    assert cluster.admitted() == []
    cluster.handle(events.AdmissionCheckChanged(check=values.AdmissionCheck(name="check", controller="any")))
    assert cluster.admitted() == ["one"]


def test_a_check_still_pending_reserves_without_admitting():
    cluster = b.Cluster(b.cluster_queue(admission_checks={"check": frozenset()}))
    cluster.handle(events.AdmissionCheckChanged(check=values.AdmissionCheck(name="check", controller="any")))
    cluster.add(b.workload("one"))
    (admit,) = cluster.cycle()
    assert not admit.admitted


def test_a_check_for_another_flavor_does_not_count():
    cluster = b.Cluster(b.cluster_queue(admission_checks={"check": frozenset({"other"})}))
    cluster.handle(events.AdmissionCheckChanged(check=values.AdmissionCheck(name="check", controller="any")))
    cluster.add(b.workload("one"))
    (admit,) = cluster.cycle()
    assert admit.admitted


def test_a_namespace_that_does_not_match_is_told_so():
    selector = values.LabelSelector(
        requirements=(values.LabelRequirement(key="team", operator=values.Operator.EXISTS),)
    )
    cluster = b.Cluster(structs.replace(b.cluster_queue(), namespace_selector=selector))
    cluster.add(b.workload("one"))
    (decision,) = cluster.cycle()
    assert decision.pending == reasons.NamespaceMismatch()
    cluster.handle(events.NamespaceChanged(name="default", labels={"team": "a"}))
    assert cluster.admitted() == ["one"]


def test_a_refused_admission_gives_the_quota_back():
    cluster = b.Cluster(b.cluster_queue(nominal=1))
    cluster.add(b.workload("one"))
    cluster.cycle()
    cluster.handle(events.AdmissionRefused(key="default/one"))
    assert (cluster.waiting(), cluster.admitted()) == (["one"], ["one"])


def test_a_stale_view_does_not_queue_an_assumed_workload_again():
    cluster = b.Cluster(b.cluster_queue())
    one = b.workload("one")
    cluster.add(one)
    cluster.cycle()
    cluster.handle(events.WorkloadChanged(workload=one))
    assert cluster.waiting() == []


def test_admission_waits_until_pods_are_ready():
    cluster = b.Cluster(b.cluster_queue(), policy=Policy(block_admission=True))
    one = b.workload("one", created=1)
    cluster.add(one, b.workload("two", created=2))
    (admit,) = cluster.cycle()
    assert admit.workload == "default/one"
    (requeue,) = cluster.cycle()
    assert requeue.pending == reasons.PodsNotReady()
    ready = b.replaced(one, admission=admit.admission, reserved_at_ns=admit.reserved_at_ns, pods_ready=True)
    cluster.handle(events.WorkloadChanged(workload=ready))
    assert cluster.admitted() == ["two"]


def test_heads_that_cannot_go_cost_nothing_until_something_changes():
    queues = [b.cluster_queue(f"queue{n}", nominal=1, strict=True) for n in range(20)]
    cluster = b.Cluster(*queues)
    cluster.add(*(b.workload(f"big{n}", f"queue{n}", cpu=2) for n in range(20)))
    assert len(cluster.cycle()) == 20
    assert cluster.cycle() == []
    cluster.put(b.cluster_queue("queue7", nominal=1, strict=True, within="LowerPriority"))
    (requeue,) = cluster.cycle()
    assert isinstance(requeue, decisions.Requeue)
    assert requeue.cluster_queue == "queue7"


def test_a_workload_is_queued_again_when_its_backoff_is_cleared():
    cluster = b.Cluster(b.cluster_queue(nominal=1))
    cluster.add(b.workload("evicted", requeue_at_ns=5 * b.SECOND_NS))
    assert cluster.inadmissible() == ["evicted"]
    cluster.handle(events.WorkloadChanged(workload=b.workload("evicted")))
    assert cluster.admitted() == ["evicted"]


def test_the_first_to_arrive_goes_first_among_workloads_of_one_second():
    cluster = b.Cluster(b.cluster_queue(nominal=1))
    cluster.add(b.workload("a", arrival=2), b.workload("b", arrival=1))
    assert cluster.admitted() == ["b"]


def test_the_first_to_arrive_goes_first_in_a_cohort():
    queues = (b.cluster_queue(name, "cohort", nominal=1) for name in ("left", "right"))
    cluster = b.Cluster(*queues)
    cluster.add(b.workload("a", "left", cpu=2, arrival=2), b.workload("b", "right", cpu=2, arrival=1))
    assert cluster.admitted() == ["b"]


@pytest.mark.parametrize("end", ["finished", "deleted"])
def test_quota_of_a_deleted_local_queue_lets_others_be_tried(end):
    """Kueue finds whom to try by the local queue, and tries nobody if it is gone."""
    cluster = b.Cluster(b.cluster_queue("left", "cohort", nominal=1), b.cluster_queue("right", "cohort", nominal=0))
    holder = b.workload("holder", "left", created=1)
    cluster.add(holder)
    cluster.cycle()
    cluster.add(b.workload("waiting", "right", created=2))
    cluster.cycle()
    assert cluster.inadmissible("right") == ["waiting"]
    cluster.handle(events.LocalQueueGone(key=holder.local_queue))
    if end == "deleted":
        cluster.handle(events.WorkloadGone(key=holder.key))
    else:
        cluster.handle(events.WorkloadChanged(workload=structs.replace(holder, finished=True)))
    assert cluster.admitted() == ["waiting"]
