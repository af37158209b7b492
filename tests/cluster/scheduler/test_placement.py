import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from tests.cluster.scheduler.yard import Yard, node, pod

from pykueue.api import conditions, objects

GPU = {"nvidia.com/gpu": "1"}
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


def test_a_pod_goes_to_the_emptiest_node_that_fits():
    yard = Yard(node("a"), node("b")).place(pod("one", {"cpu": "3"})).place(pod("two", {"cpu": "2"}))
    assert yard.where() == {"one": "a", "two": "b"}


def test_binding_is_told():
    yard = Yard(node("a")).place(pod("one"))
    assert yard.world.events == [("Normal", "Scheduled", "Successfully assigned default/one to a")]


def test_a_pod_that_was_told_to_wait_is_told_that_it_is_over():
    yard = Yard().place(pod("one"))
    yard.fleet.set_node(yard.world.add(node("a")))
    assert conditions.is_true(yard.place().world.get("Pod", "one"), "PodScheduled")


def test_without_nodes_the_pod_waits():
    assert Yard().place(pod("one")).why("one") == "no nodes available to schedule pods"


def test_what_does_not_fit_is_told_in_the_words_of_kube_scheduler():
    yard = Yard(node("a"), node("b"), node("c", taints=[{"key": "gpu", "effect": "NoSchedule"}]))
    yard.place(pod("full-a", {"cpu": "3"}), pod("full-b", {"cpu": "3"}), pod("big", {"cpu": "2"}))
    assert yard.why("big") == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
        f"preemption: 0/3 nodes are available: 1 {NOT_HELPFUL}, 2 {NO_VICTIMS}."
    )


def test_a_reason_is_told_once():
    yard = Yard(node("a")).place(pod("big", {"cpu": "9"})).place().place()
    assert yard.world.event_reasons() == ["FailedScheduling"]


def test_a_resource_that_no_node_has():
    why = Yard(node("a")).place(pod("one", GPU)).why("one")
    assert why == (
        f"0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: 1 {NOT_HELPFUL}."
    )


def test_a_node_holds_only_so_many_pods():
    yard = Yard(node("a", pods="1")).place(pod("one")).place(pod("two"))
    assert "Too many pods" in yard.why("two")


def test_a_gated_pod_is_left_alone():
    assert Yard(node("a")).place(pod("one", schedulingGates=[{"name": "hold"}])).where() == {"one": ""}


def test_another_schedulers_pod_is_left_alone():
    assert Yard(node("a")).place(pod("one", schedulerName="mine")).where() == {"one": ""}


def test_a_finished_pod_gives_its_place_back():
    yard = Yard(node("a")).place(pod("one", {"cpu": "4"}))
    yard.world.end_pod(yard.world.of("Pod")[0])
    assert yard.place(pod("two", {"cpu": "4"})).where()["two"] == "a"


def test_higher_priority_is_placed_first():
    yard = Yard(node("a")).place(pod("low", {"cpu": "4"}), pod("high", {"cpu": "4"}, priority=5))
    assert yard.where() == {"low": "", "high": "a"}


def test_node_selector():
    yard = Yard(node("a"), node("b", {"disk": "ssd"})).place(pod("one", nodeSelector={"disk": "ssd"}))
    assert yard.where() == {"one": "b"}


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
    yard = Yard(node("a", {"zone": "east"}), node("b")).place(pod("one", affinity=rules))
    assert yard.where() == {"one": expected}


def test_preferred_node_affinity_outweighs_emptiness():
    preference = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}
    rules = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": preference}]}
    }
    yard = Yard(node("a"), node("b", {"zone": "east"})).place(pod("x", {"cpu": "1"}, nodeSelector={"zone": "east"}))
    assert yard.place(pod("one", affinity=rules)).where()["one"] == "b"


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
    yard = Yard(node("a", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]))
    assert bool(yard.place(pod("one", tolerations=[toleration])).where()["one"]) is is_welcome


def test_anti_affinity_keeps_equals_apart():
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    yard = Yard(node("a"), node("b"))
    for name in ("one", "two", "three"):
        yard.place(pod(name, labels={"app": "web"}, affinity=rules))
    assert sorted(yard.where().values()) == ["", "a", "b"]


def test_affinity_draws_pods_together():
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    rules = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    yard = Yard(node("a"), node("b"))
    for name in ("one", "two"):
        yard.place(pod(name, {"cpu": "1"}, labels={"app": "web"}, affinity=rules))
    assert yard.where() == {"one": "a", "two": "a"}


def test_a_pod_of_higher_priority_evicts_the_least():
    yard = Yard(node("a")).place(
        pod("small", {"cpu": "1"}, priority=1), pod("large", {"cpu": "3"}, priority=2), pod("other", {"cpu": "0"})
    )
    for found in yard.world.of("Pod"):
        yard.world.start_pod(found)
    yard.place(pod("boss", {"cpu": "1"}, priority=9))
    assert [objects.name(found) for found in yard.world.of("Pod") if objects.is_deleted(found)] == ["small"]
    assert yard.world.get("Pod", "boss")["status"]["nominatedNodeName"] == "a"
    yard.place()
    assert yard.world.event_reasons().count("Preempted") == 1


def test_equal_priority_evicts_nobody():
    yard = Yard(node("a")).place(pod("one", {"cpu": "4"}, priority=5)).place(pod("two", {"cpu": "4"}, priority=5))
    assert NO_VICTIMS in yard.why("two")


requests = st.fixed_dictionaries({"cpu": st.integers(0, 5).map(str), "memory": st.integers(0, 9).map("{}Gi".format)})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(requests, st.integers(0, 3), st.booleans()), max_size=15))
def test_no_node_is_ever_oversubscribed(wishes):
    yard = Yard(node("a"), node("b", cpu="2"))
    for number, (wanted, priority, ends) in enumerate(wishes):
        yard.place(pod(f"p{number}", wanted, priority=priority))
        if ends:
            yard.world.end_pod(yard.world.of("Pod")[0])
        for state in yard.fleet.nodes.values():
            assert all(state.taken.get(name, 0) <= amount for name, amount in state.capacity.items())
