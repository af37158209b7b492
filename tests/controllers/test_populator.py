import pytest

from pykueue.controllers import populator
from pykueue.controllers.populator import PopulatorOptions

NAMESPACE = {"metadata": {"name": "team", "labels": {"kind": "team"}}}


def queue(name, selector):
    return {"metadata": {"name": name}, "spec": {"namespaceSelector": selector}}


def names(cluster_queues, present=(), **options):
    actions = populator.plan(NAMESPACE, cluster_queues, present, PopulatorOptions(**options))
    return [(action.object["metadata"]["name"], action.object["spec"]["clusterQueue"]) for action in actions]


@pytest.mark.parametrize(
    ("selector", "made"),
    [
        ({}, [("default", "cq")]),
        ({"matchLabels": {"kind": "team"}}, [("default", "cq")]),
        ({"matchLabels": {"kind": "other"}}, []),
    ],
)
def test_a_selected_namespace_gets_a_local_queue(selector, made):
    assert names([queue("cq", selector)]) == made


def test_an_existing_local_queue_stays():
    assert names([queue("cq", {})], present=[{"metadata": {"name": "default"}}]) == []


def test_local_queues_may_have_the_names_of_their_cluster_queues():
    queues = [queue("b", {}), queue("a", {})]
    assert names(queues, name_mode=populator.AS_CLUSTER_QUEUE) == [("a", "a"), ("b", "b")]


def test_one_name_is_given_once():
    assert names([queue("b", {}), queue("a", {})]) == [("default", "a")]


def test_only_managed_namespaces_get_queues():
    assert names([queue("cq", {})], namespace_selector={"matchLabels": {"kind": "other"}}) == []
