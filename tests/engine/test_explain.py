from random import Random

import pytest
from msgspec import structs
from tests.engine import builders as b

from pykueue.engine import events, values
from pykueue.engine.decisions import Admit
from pykueue.engine.explain.explanation import (
    Activate,
    CoverResources,
    CreateFlavors,
    DropChecks,
    DropRequests,
    FewerPods,
    HigherPriority,
    MoreQuota,
    Obstacle,
    ReduceRequests,
    Refusal,
    ResumeQueue,
    SelectNamespace,
    Standing,
    UseLocalQueue,
)
from pykueue.engine.values import PreemptionPolicy

CPU = values.FlavorResource("spot", "cpu")


def queue(name, nominal=10, cohort=None, **preemption):
    flavor = values.FlavorQuotas(name="spot", resources={"cpu": values.Quota(nominal=nominal)})
    return values.ClusterQueue(
        name=name,
        cohort=cohort,
        namespace_selector=values.LabelSelector(),
        resource_groups=(values.ResourceGroup(covered_resources=("cpu",), flavors=(flavor,)),),
        preemption=values.Preemption(**preemption),
    )


def workload(name, cpu, *, count=1, priority=0, to="a", created=0, **changes):
    settings = {
        "key": f"ns/{name}",
        "uid": name,
        "namespace": "ns",
        "local_queue": f"ns/{to}",
        "created_at_ns": created,
        "priority": priority,
        "pod_sets": (values.PodSet(name="main", count=count, spec_count=count, requests={"cpu": cpu}),),
    }
    return values.Workload(**(settings | changes))


def running(name, cpu, *, at="a", **changes):
    pod_set = values.PodSetAdmission(name="main", flavors={"cpu": "spot"}, usage={"cpu": cpu}, count=1)
    admission = values.Admission(cluster_queue=at, pod_sets=(pod_set,))
    return workload(name, cpu, to=at, admission=admission, reserved_at_ns=5, admitted=True, **changes)


def engine_with(*queues, workloads=()):
    engine = b.engine()
    engine.handle(events.NamespaceChanged(name="ns", labels={}))
    engine.handle(events.FlavorChanged(flavor=values.ResourceFlavor(name="spot")))
    for added in queues:
        engine.handle(events.ClusterQueueChanged(cluster_queue=added))
        local_queue = values.LocalQueue(key=f"ns/{added.name}", cluster_queue=added.name)
        engine.handle(events.LocalQueueChanged(local_queue=local_queue))
    for added in workloads:
        engine.handle(events.WorkloadArrived(workload=added))
    return engine


def test_an_unknown_workload_has_no_explanation():
    assert engine_with(queue("a")).view.explain("ns/x") is None


def test_a_running_workload_says_where():
    explanation = engine_with(queue("a"), workloads=[running("r", 4)]).view.explain("ns/r")
    assert (explanation.standing, explanation.cluster_queue) == (Standing.ADMITTED, "a")


def test_what_is_short_and_who_holds_it():
    explanation = engine_with(queue("a"), workloads=[running("r", 7), workload("w", 5)]).view.explain("ns/w")
    (fit,) = explanation.pod_sets[0].flavors[0].resources
    assert (fit.requested, fit.unused, fit.short) == (5, 3, 2)
    assert [(holder.workload, holder.usage, holder.since_ns) for holder in fit.holders] == [("ns/r", {CPU: 7}, 5)]


def test_position_counts_who_is_ahead():
    pending = [workload("new", 1, created=3), workload("old", 1, created=1), workload("high", 1, priority=9, created=4)]
    explanation = engine_with(queue("a"), workloads=pending).view.explain("ns/new")
    assert (explanation.position, explanation.queue_length, explanation.ahead) == (3, 3, ("ns/high", "ns/old"))


def test_one_that_fits_has_nothing_pending():
    assert engine_with(queue("a"), workloads=[workload("w", 5)]).view.explain("ns/w").pending is None


def test_victims_are_named_with_the_reason():
    queues = [queue("a", within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)]
    explanation = engine_with(*queues, workloads=[running("r", 10), workload("w", 5, priority=1)]).view.explain("ns/w")
    assert [(victim.holder.workload, victim.reason) for victim in explanation.victims] == [("ns/r", "InClusterQueue")]


@pytest.mark.parametrize(
    ("policy", "priority", "refusal"),
    [
        (PreemptionPolicy.NEVER, 0, Refusal.WITHIN_QUEUE_NEVER),
        (PreemptionPolicy.LOWER_PRIORITY, 9, Refusal.POLICY),
    ],
)
def test_others_are_spared_for_a_reason(policy, priority, refusal):
    other = running("r", 10, priority=priority)
    explanation = engine_with(
        queue("a", within_cluster_queue=policy), workloads=[other, workload("w", 5, priority=1)]
    ).view.explain("ns/w")
    assert [(spared.holder.workload, spared.refusal) for spared in explanation.spared] == [("ns/r", refusal)]


def test_a_neighbour_within_its_own_quota_is_spared():
    queues = [queue("a", 2, "all", reclaim_within_cohort=PreemptionPolicy.ANY), queue("b", 10, "all")]
    explanation = engine_with(*queues, workloads=[running("r", 10, at="b"), workload("w", 5)]).view.explain("ns/w")
    assert [spared.refusal for spared in explanation.spared] == [Refusal.WITHIN_NOMINAL]


def test_the_quota_that_would_help():
    explanation = engine_with(queue("a"), workloads=[running("r", 7), workload("w", 5)]).view.explain("ns/w")
    assert explanation.remedies == (MoreQuota(amounts={CPU: 2}),)


def test_the_priority_that_would_help():
    queues = [queue("a", within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)]
    explanation = engine_with(*queues, workloads=[running("r", 10, priority=50), workload("w", 5)]).view.explain("ns/w")
    assert HigherPriority(priority=51) in explanation.remedies


def test_the_number_of_pods_that_would_fit():
    explanation = engine_with(queue("a"), workloads=[running("r", 4), workload("w", 10, count=10)]).view.explain("ns/w")
    assert FewerPods(counts={"main": 6}) in explanation.remedies


@pytest.mark.parametrize(
    ("changes", "obstacle"),
    [
        ({"active": False}, Obstacle.DEACTIVATED),
        ({"on_hold": True}, Obstacle.ON_HOLD),
        ({"admission_gated": True}, Obstacle.ADMISSION_GATED),
        ({"has_variants": True}, Obstacle.HAS_VARIANTS),
        ({"local_queue": "ns/none"}, Obstacle.LOCAL_QUEUE_MISSING),
    ],
)
def test_a_workload_outside_the_queues_says_why(changes, obstacle):
    explanation = engine_with(queue("a"), workloads=[workload("w", 1, **changes)]).view.explain("ns/w")
    assert (explanation.standing, explanation.obstacle) == (Standing.OUTSIDE, obstacle)


def test_asking_changes_nothing():
    engine = engine_with(queue("a"), workloads=[running("r", 7), workload("w", 5)])
    cluster_queue = engine._state.cluster_queues["a"]
    before = (dict(cluster_queue.node.usage), cluster_queue.pending.get("ns/w").scan)
    engine.view.explain("ns/w")
    assert (dict(cluster_queue.node.usage), cluster_queue.pending.get("ns/w").scan) == before


def test_quota_is_raised_by_all_that_is_used_beyond_it():
    """A workload was admitted before the quota was lowered to 10."""
    engine = engine_with(queue("a"), workloads=[running("r", 14), workload("w", 5)])
    b.OVER_QUOTA.append(engine)
    assert engine.view.explain("ns/w").remedies == (MoreQuota(amounts={CPU: 9}),)


def test_a_trial_of_quota_leaves_no_trace():
    workloads = [running("r", 4, at="b"), workload("w", 5)]
    engine = engine_with(queue("a", 2, "all"), queue("b", 4, "all"), workloads=workloads)
    state = engine._state
    state.settle()
    before = quotas(state)
    engine.view.explain("ns/w")
    assert quotas(state) == before


def quotas(state):
    nodes = [*state.tree.cluster_queues.items(), *state.tree.cohorts.items()]
    return {name: (node.nominal, node.subtree, node.usage, node.generation) for name, node in nodes}


def test_quota_covers_those_ahead_who_would_take_it_first():
    pending = [workload("first", 3, created=1), workload("w", 5, created=2)]
    explanation = engine_with(queue("a"), workloads=[running("r", 10), *pending]).view.explain("ns/w")
    assert explanation.remedies == (MoreQuota(amounts={CPU: 8}),)


def test_quota_does_not_cover_those_ahead_who_need_still_more():
    """The huge one stays where it is; the one of 2 takes new quota first."""
    pending = [workload("huge", 64, created=1), workload("first", 2, created=2), workload("w", 3, created=3)]
    explanation = engine_with(queue("a"), workloads=[running("r", 9), *pending]).view.explain("ns/w")
    assert explanation.remedies == (MoreQuota(amounts={CPU: 4}),)


@pytest.mark.parametrize("seed", range(20))
def test_the_named_quota_is_the_smallest(seed):
    """Every smaller amount is tried: with none of them the workload is admitted."""
    random = Random(seed)
    pending = [workload(f"w{n}", random.randint(1, 12), created=n) for n in range(random.randint(2, 7))]
    workloads = [running("r", 10), *pending]
    (remedy,) = engine_with(queue("a"), workloads=workloads).view.explain(pending[-1].key).remedies
    assert remedy == MoreQuota(amounts={CPU: smallest_raise(workloads)})


def smallest_raise(workloads):
    for raised in range(100):
        engine = engine_with(queue("a", 10 + raised), workloads=workloads)
        while cycle := engine.handle(events.CycleDue()):
            if any(decision.workload == workloads[-1].key and isinstance(decision, Admit) for decision in cycle):
                return raised
    raise AssertionError(workloads)


def test_more_quota_is_not_named_where_it_does_not_help():
    """The head of a strict queue asks for a resource that the queue does not cover."""
    strict = structs.replace(queue("a"), queueing_strategy=values.QueueingStrategy.STRICT_FIFO)
    requests = {"cpu": 1, "memory": 1}
    head = workload("head", 1, pod_sets=(values.PodSet(name="main", count=1, spec_count=1, requests=requests),))
    explanation = engine_with(strict, workloads=[running("r", 10), head, workload("w", 5, created=2)]).view.explain(
        "ns/w"
    )
    assert explanation.remedies == ()


def uncovered(**changes):
    pod_set = values.PodSet(name="main", count=1, spec_count=1, requests={"cpu": 1, "memory": 7})
    return workload("w", 1, pod_sets=(pod_set,), **changes)


UNCOVERED = (CoverResources(amounts={"memory": 7}), DropRequests(resources=("memory",)))


def one_pod(cpu):
    return (values.PodSet(name="main", count=1, spec_count=1, requests={"cpu": cpu}, pod_requests={"cpu": cpu}),)


@pytest.mark.parametrize(
    ("largest_node", "checks", "unschedulable"),
    [({"cpu": 6}, {}, ["ns/huge"]), ({"cpu": 7}, {}, []), (None, {}, []), ({"cpu": 6}, {"provisioning": []}, [])],
)
def test_holders_whose_pods_no_node_is_large_enough_for(largest_node, checks, unschedulable):
    checked = structs.replace(queue("a"), admission_checks={name: frozenset() for name in checks})
    holders = [running("huge", 7, pod_sets=one_pod(7)), running("small", 3, pod_sets=one_pod(3))]
    explanation = engine_with(checked, workloads=[*holders, workload("w", 5)]).view.explain("ns/w", largest_node)
    assert [holder.workload for holder in explanation.unschedulable] == unschedulable


def test_all_covered_resources_are_listed():
    """Also those that the workload does not ask for."""
    resources = {name: values.Quota(nominal=1) for name in ("memory", "cpu")}
    flavor = values.FlavorQuotas(name="spot", resources=resources)
    group = values.ResourceGroup(covered_resources=("memory", "cpu"), flavors=(flavor,))
    covering = structs.replace(queue("a"), resource_groups=(group,))
    assert engine_with(covering, workloads=[uncovered()]).view.explain("ns/w").covered == ("cpu", "memory")


def test_a_resource_that_is_not_covered():
    assert engine_with(queue("a"), workloads=[uncovered()]).view.explain("ns/w").remedies == UNCOVERED


def test_a_repair_after_which_it_waits_for_quota():
    explanation = engine_with(queue("a"), workloads=[running("r", 10), uncovered()]).view.explain("ns/w")
    assert (explanation.remedies, explanation.repairs) == ((), tuple((remedy,) for remedy in UNCOVERED))


def large(cpu, **requests):
    requests = {"cpu": cpu, **requests}
    pod_set = values.PodSet(name="main", count=1, spec_count=1, requests=requests, pod_requests=requests)
    return workload("w", cpu, pod_sets=(pod_set,))


def test_a_request_beyond_the_quota_may_be_reduced():
    explanation = engine_with(queue("a"), workloads=[workload("w", 12)]).view.explain("ns/w")
    assert explanation.remedies == (MoreQuota(amounts={CPU: 2}), ReduceRequests(amounts={"main": {"cpu": 10}}))


def test_no_remedy_asks_for_more_than_a_node_has():
    explanation = engine_with(queue("a"), workloads=[large(12)]).view.explain("ns/w", {"cpu": 4})
    assert explanation.remedies == (ReduceRequests(amounts={"main": {"cpu": 4}}),)


def test_a_resource_that_no_node_has_is_not_added_to_the_quota():
    engine = engine_with(queue("a"), workloads=[running("r", 10), large(1, gpu=1)])
    assert engine.view.explain("ns/w", {"cpu": 4}).repairs == ((DropRequests(resources=("gpu",)),),)
    assert engine.view.explain("ns/w", {"cpu": 4, "gpu": 1}).repairs == (
        (CoverResources(amounts={"gpu": 1}),),
        (DropRequests(resources=("gpu",)),),
    )


def test_a_request_is_not_reduced_to_nothing():
    """One of two pods fits; no amount fits both."""
    explanation = engine_with(queue("a", 1), workloads=[workload("w", 2, count=2)]).view.explain("ns/w")
    assert explanation.remedies == (MoreQuota(amounts={CPU: 1}), FewerPods(counts={"main": 1}))


@pytest.mark.parametrize("strategy", values.QueueingStrategy)
def test_those_ahead_that_can_never_start_are_told_apart(strategy):
    changed = structs.replace(queue("a"), queueing_strategy=strategy)
    pending = [workload("huge", 11), workload("next", 5, created=1), workload("w", 6, created=2)]
    explanation = engine_with(changed, workloads=[running("r", 10), *pending]).view.explain("ns/w")
    assert (explanation.ahead, explanation.stuck_ahead) == (("ns/huge", "ns/next"), ("ns/huge",))
    assert explanation.is_strict == (strategy == "StrictFIFO")


def test_a_namespace_that_the_queue_does_not_select():
    unselective = structs.replace(queue("a"), namespace_selector=None)
    assert engine_with(unselective, workloads=[workload("w", 1)]).view.explain("ns/w").remedies == (SelectNamespace(),)


def test_a_flavor_that_does_not_exist():
    engine = engine_with(queue("a"), workloads=[workload("w", 1)])
    engine.handle(events.FlavorGone(name="spot"))
    assert engine.view.explain("ns/w").remedies == (CreateFlavors(names=("spot",)),)


def test_a_stopped_cluster_queue():
    stopped = structs.replace(queue("a"), stop_policy=values.StopPolicy.HOLD)
    assert engine_with(stopped, workloads=[workload("w", 1)]).view.explain("ns/w").remedies == (
        ResumeQueue(cluster_queue="a"),
    )


def test_a_stopped_cluster_queue_that_evicted_the_workload():
    stopped = structs.replace(queue("a"), stop_policy=values.StopPolicy.HOLD_AND_DRAIN)
    evicted = structs.replace(workload("w", 1), requeued=False)
    assert engine_with(stopped, workloads=[evicted]).view.explain("ns/w").remedies == (ResumeQueue(cluster_queue="a"),)


@pytest.mark.parametrize("exists", [True, False])
def test_an_admission_check_that_is_missing_or_inactive(exists):
    checked = structs.replace(queue("a"), admission_checks={values.CheckName("license"): frozenset()})
    engine = engine_with(checked, workloads=[workload("w", 1)])
    if exists:
        check = values.AdmissionCheck(name=values.CheckName("license"), controller="example.com/license", active=False)
        engine.handle(events.AdmissionCheckChanged(check=check))
    assert engine.view.explain("ns/w").remedies == (DropChecks(names=("license",)),)


def test_the_local_queue_of_the_most_similar_name_is_suggested_first():
    engine = engine_with(queue("a"), workloads=[structs.replace(workload("w", 1), local_queue="ns/trian")])
    for name in ("eval", "train"):
        engine.handle(events.LocalQueueChanged(local_queue=values.LocalQueue(key=f"ns/{name}", cluster_queue="a")))
    [(remedy,)] = engine.view.explain("ns/w").repairs
    assert remedy.names[0] == "train"


def test_faults_that_must_be_repaired_together():
    faulty = structs.replace(queue("a"), namespace_selector=None, stop_policy=values.StopPolicy.HOLD)
    assert engine_with(faulty, workloads=[workload("w", 1)]).view.explain("ns/w").repairs == (
        (SelectNamespace(), ResumeQueue(cluster_queue="a")),
    )


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [({"active": False}, Activate()), ({"local_queue": "ns/none"}, UseLocalQueue(names=("a",)))],
)
def test_a_way_back_into_the_queues(changes, remedy):
    explanation = engine_with(queue("a"), workloads=[workload("w", 1, **changes)]).view.explain("ns/w")
    assert explanation.repairs == ((remedy,),)


def test_a_stopped_local_queue():
    engine = engine_with(queue("a"), workloads=[workload("w", 1)])
    stopped = values.LocalQueue(key="ns/a", cluster_queue="a", stop_policy=values.StopPolicy.HOLD)
    engine.handle(events.LocalQueueChanged(local_queue=stopped))
    assert engine.view.explain("ns/w").repairs == ((ResumeQueue(local_queue="a"),),)
