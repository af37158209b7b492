import pytest

from pykueue.api import resources
from pykueue.controllers.cache import new_cache
from pykueue.kube.controller.cache import ObjectCache


def workload(version, *, name="a", queue="q", **metadata):
    return {
        "metadata": {"name": name, "namespace": "ns", "resourceVersion": str(version), **metadata},
        "spec": {"queueName": queue},
    }


@pytest.fixture
def cache():
    cache = ObjectCache()
    cache.add_index(resources.WORKLOAD, "queue", lambda obj: [obj["spec"]["queueName"]])
    return cache


def current(cache):
    return cache.get(resources.WORKLOAD, "a", "ns")


def test_an_older_version_never_replaces_a_newer_one(cache):
    cache.observe(resources.WORKLOAD, workload(2))
    cache.observe(resources.WORKLOAD, workload(1))
    assert current(cache)["metadata"]["resourceVersion"] == "2"


def test_a_late_deletion_does_not_hide_a_newer_version(cache):
    cache.observe(resources.WORKLOAD, workload(3))
    cache.apply_event(resources.WORKLOAD, "DELETED", workload(2))
    assert current(cache)


def test_taking_the_last_finalizer_of_a_deleted_object_ends_it(cache):
    cache.observe(resources.WORKLOAD, workload(1, deletionTimestamp="t", finalizers=["f"]))
    cache.observe(resources.WORKLOAD, workload(2, deletionTimestamp="t"))
    assert current(cache) is None


def test_what_has_ended_does_not_come_back(cache):
    cache.observe(resources.WORKLOAD, workload(2, deletionTimestamp="t"))
    cache.observe(resources.WORKLOAD, workload(1))
    assert current(cache) is None


def test_an_index_follows_changes(cache):
    cache.observe(resources.WORKLOAD, workload(1, queue="old"))
    cache.observe(resources.WORKLOAD, workload(2, queue="new"))
    assert cache.indexed(resources.WORKLOAD, "queue", "old") == []
    assert cache.indexed(resources.WORKLOAD, "queue", "new") == [current(cache)]


def test_an_object_that_changed_is_the_last_of_its_index(cache):
    for version, name in enumerate(("a", "b", "a"), 1):
        cache.observe(resources.WORKLOAD, workload(version, name=name))
    names = [obj["metadata"]["name"] for obj in cache.indexed(resources.WORKLOAD, "queue", "q")]
    assert names == ["b", "a"]


def test_an_index_function_is_called_once_for_a_change(cache):
    calls = []
    cache.add_index(resources.WORKLOAD, "name", lambda obj: calls.append(obj) or [obj["metadata"]["name"]])
    objs = [workload(1), workload(2)]
    for obj in objs:
        cache.observe(resources.WORKLOAD, obj)
    cache.apply_event(resources.WORKLOAD, "DELETED", workload(3))
    assert calls == objs
    assert cache.indexed(resources.WORKLOAD, "name", "a") == []


def test_handlers_see_before_and_after(cache):
    calls = []
    cache.on_change(resources.WORKLOAD, lambda old, new: calls.append((old is None, new is None)))
    cache.observe(resources.WORKLOAD, workload(1))
    cache.apply_event(resources.WORKLOAD, "DELETED", workload(2))
    assert calls == [(True, False), (False, True)]


def test_one_faulty_handler_does_not_stop_the_others(cache):
    calls = []
    cache.on_change(resources.WORKLOAD, lambda _old, _new: 1 / 0)
    cache.on_change(resources.WORKLOAD, lambda _old, new: calls.append(new))
    cache.observe(resources.WORKLOAD, workload(1))
    assert calls


def test_what_the_api_does_not_require_is_there_for_controllers():
    cache = new_cache()
    bare = {
        "metadata": {"name": "w", "namespace": "n", "resourceVersion": "1"},
        "spec": {"podSets": [{"template": {}}]},
    }
    cache.observe(resources.WORKLOAD, bare)
    observed = cache.get(resources.WORKLOAD, "w", "n")
    assert observed["spec"]["podSets"][0]["template"]["spec"] == {}


def test_a_queue_without_a_spec_is_observed():
    cache = new_cache()
    cache.observe(resources.LOCAL_QUEUE, {"metadata": {"name": "q", "namespace": "n", "resourceVersion": "1"}})
    assert cache.get(resources.LOCAL_QUEUE, "q", "n")["spec"] == {}


def test_an_object_that_an_index_cannot_read_does_not_stop_the_watch(cache):
    cache.apply_event(resources.WORKLOAD, "ADDED", {"metadata": workload(1)["metadata"]})
    cache.apply_event(resources.WORKLOAD, "MODIFIED", workload(2))
    assert cache.indexed(resources.WORKLOAD, "queue", "q") == [current(cache)]


def test_a_namespace_stays_while_its_contents_are_deleted(cache):
    metadata = {"name": "team", "resourceVersion": "2", "deletionTimestamp": "t"}
    cache.observe(resources.NAMESPACE, {"metadata": metadata, "spec": {"finalizers": ["kubernetes"]}})
    assert cache.get(resources.NAMESPACE, "team")
