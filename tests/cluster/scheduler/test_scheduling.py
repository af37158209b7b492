import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from tests.cluster.scheduler.scheduler_fixture import SchedulerFixture, node, pod

from pykueue.api import conditions, objects

GPU = {"nvidia.com/gpu": "1"}
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


def test_a_pod_goes_to_the_emptiest_node_that_fits():
    fixture = (
        SchedulerFixture(node("a"), node("b")).schedule(pod("one", {"cpu": "3"})).schedule(pod("two", {"cpu": "2"}))
    )
    assert fixture.node_names() == {"one": "a", "two": "b"}


def test_binding_emits_an_event():
    fixture = SchedulerFixture(node("a")).schedule(pod("one"))
    assert fixture.api.events == [("Normal", "Scheduled", "Successfully assigned default/one to a")]


def test_a_pod_that_was_unschedulable_gets_pod_scheduled_true():
    fixture = SchedulerFixture().schedule(pod("one"))
    fixture.fleet.set_node(fixture.api.add(node("a")))
    assert conditions.is_true(fixture.schedule().api.get("Pod", "one"), "PodScheduled")


def test_without_nodes_the_pod_waits():
    assert SchedulerFixture().schedule(pod("one")).message("one") == "no nodes available to schedule pods"


def test_an_unschedulable_pod_has_the_message_of_kube_scheduler():
    fixture = SchedulerFixture(node("a"), node("b"), node("c", taints=[{"key": "gpu", "effect": "NoSchedule"}]))
    fixture.schedule(pod("full-a", {"cpu": "3"}), pod("full-b", {"cpu": "3"}), pod("big", {"cpu": "2"}))
    assert fixture.message("big") == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
        f"preemption: 0/3 nodes are available: 1 {NOT_HELPFUL}, 2 {NO_VICTIMS}."
    )


def test_the_same_message_emits_one_event():
    fixture = SchedulerFixture(node("a")).schedule(pod("big", {"cpu": "9"})).schedule().schedule()
    assert fixture.api.event_reasons() == ["FailedScheduling"]


def test_a_resource_that_no_node_has():
    why = SchedulerFixture(node("a")).schedule(pod("one", GPU)).message("one")
    assert why == (
        f"0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: 1 {NOT_HELPFUL}."
    )


def test_a_node_holds_only_so_many_pods():
    fixture = SchedulerFixture(node("a", pods="1")).schedule(pod("one")).schedule(pod("two"))
    assert "Too many pods" in fixture.message("two")


def test_a_gated_pod_is_left_alone():
    assert SchedulerFixture(node("a")).schedule(pod("one", schedulingGates=[{"name": "hold"}])).node_names() == {
        "one": ""
    }


def test_another_schedulers_pod_is_left_alone():
    assert SchedulerFixture(node("a")).schedule(pod("one", schedulerName="mine")).node_names() == {"one": ""}


def test_a_finished_pod_gives_its_place_back():
    fixture = SchedulerFixture(node("a")).schedule(pod("one", {"cpu": "4"}))
    fixture.api.end_pod(fixture.api.of("Pod")[0])
    assert fixture.schedule(pod("two", {"cpu": "4"})).node_names()["two"] == "a"


def test_higher_priority_is_placed_first():
    fixture = SchedulerFixture(node("a")).schedule(pod("low", {"cpu": "4"}), pod("high", {"cpu": "4"}, priority=5))
    assert fixture.node_names() == {"low": "", "high": "a"}


def test_node_selector():
    fixture = SchedulerFixture(node("a"), node("b", {"disk": "ssd"})).schedule(pod("one", nodeSelector={"disk": "ssd"}))
    assert fixture.node_names() == {"one": "b"}


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ["east"], "a"),
        ("NotIn", ["east"], "b"),
        ("Exists", [], "a"),
        ("DoesNotExist", [], "b"),
        ("Gt", ["5"], ""),
    ],
)
def test_node_affinity(operator, values, expected):
    term = {"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]}
    rules = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    fixture = SchedulerFixture(node("a", {"zone": "east"}), node("b")).schedule(pod("one", affinity=rules))
    assert fixture.node_names() == {"one": expected}


def test_preferred_node_affinity_outweighs_emptiness():
    preference = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}
    rules = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": preference}]}
    }
    fixture = SchedulerFixture(node("a"), node("b", {"zone": "east"})).schedule(
        pod("x", {"cpu": "1"}, nodeSelector={"zone": "east"})
    )
    assert fixture.schedule(pod("one", affinity=rules)).node_names()["one"] == "b"


@pytest.mark.parametrize(
    ("toleration", "is_welcome"),
    [
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_tolerations(toleration, is_welcome):
    fixture = SchedulerFixture(node("a", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]))
    assert bool(fixture.schedule(pod("one", tolerations=[toleration])).node_names()["one"]) is is_welcome


def test_anti_affinity_keeps_equals_apart():
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    fixture = SchedulerFixture(node("a"), node("b"))
    for name in ("one", "two", "three"):
        fixture.schedule(pod(name, labels={"app": "web"}, affinity=rules))
    assert sorted(fixture.node_names().values()) == ["", "a", "b"]


def test_affinity_draws_pods_together():
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    rules = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    fixture = SchedulerFixture(node("a"), node("b"))
    for name in ("one", "two"):
        fixture.schedule(pod(name, {"cpu": "1"}, labels={"app": "web"}, affinity=rules))
    assert fixture.node_names() == {"one": "a", "two": "a"}


def test_a_pod_of_higher_priority_evicts_the_least():
    fixture = SchedulerFixture(node("a")).schedule(
        pod("small", {"cpu": "1"}, priority=1), pod("large", {"cpu": "3"}, priority=2), pod("other", {"cpu": "0"})
    )
    for other in fixture.api.of("Pod"):
        fixture.api.start_pod(other)
    fixture.schedule(pod("boss", {"cpu": "1"}, priority=9))
    assert [objects.name(other) for other in fixture.api.of("Pod") if objects.is_deleted(other)] == ["small"]
    assert fixture.api.get("Pod", "boss")["status"]["nominatedNodeName"] == "a"
    fixture.schedule()
    assert fixture.api.event_reasons().count("Preempted") == 1


def test_equal_priority_evicts_no_pod():
    fixture = (
        SchedulerFixture(node("a"))
        .schedule(pod("one", {"cpu": "4"}, priority=5))
        .schedule(pod("two", {"cpu": "4"}, priority=5))
    )
    assert NO_VICTIMS in fixture.message("two")


requests = st.fixed_dictionaries({"cpu": st.integers(0, 5).map(str), "memory": st.integers(0, 9).map("{}Gi".format)})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(requests, st.integers(0, 3), st.booleans()), max_size=15))
def test_no_node_is_ever_oversubscribed(arrivals):
    fixture = SchedulerFixture(node("a"), node("b", cpu="2"))
    for number, (pod_requests, priority, ends) in enumerate(arrivals):
        fixture.schedule(pod(f"p{number}", pod_requests, priority=priority))
        if ends:
            fixture.api.end_pod(fixture.api.of("Pod")[0])
        for state in fixture.fleet.nodes.values():
            assert all(state.requested.get(name, 0) <= amount for name, amount in state.capacity.items())
