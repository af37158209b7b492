import pytest

from pykueue.api import resources
from pykueue.kube.controller.cache import ObjectCache, named


def workload(version, *, name="a", queue="q", **metadata):
    return {
        "metadata": {"name": name, "namespace": "ns", "resourceVersion": str(version), **metadata},
        "spec": {"queueName": queue},
    }


@pytest.fixture
def mirror():
    made = ObjectCache()
    made.add_index(resources.WORKLOAD, "queue", lambda obj: [obj["spec"]["queueName"]])
    return made


def seen(mirror):
    return mirror.get(resources.WORKLOAD, "a", "ns")


def test_an_older_version_never_replaces_a_newer_one(mirror):
    mirror.observe(resources.WORKLOAD, workload(2))
    mirror.observe(resources.WORKLOAD, workload(1))
    assert seen(mirror)["metadata"]["resourceVersion"] == "2"


def test_a_late_deletion_does_not_hide_a_newer_version(mirror):
    mirror.observe(resources.WORKLOAD, workload(3))
    assert not mirror.forget(resources.WORKLOAD, workload(2))
    assert seen(mirror)


def test_taking_the_last_finalizer_of_a_deleted_object_ends_it(mirror):
    mirror.observe(resources.WORKLOAD, workload(1, deletionTimestamp="t", finalizers=["f"]))
    mirror.observe(resources.WORKLOAD, workload(2, deletionTimestamp="t"))
    assert seen(mirror) is None


def test_what_has_ended_does_not_come_back(mirror):
    mirror.observe(resources.WORKLOAD, workload(2, deletionTimestamp="t"))
    mirror.observe(resources.WORKLOAD, workload(1))
    assert seen(mirror) is None


def test_an_index_follows_changes(mirror):
    mirror.observe(resources.WORKLOAD, workload(1, queue="old"))
    mirror.observe(resources.WORKLOAD, workload(2, queue="new"))
    assert mirror.indexed(resources.WORKLOAD, "queue", "old") == []
    assert mirror.indexed(resources.WORKLOAD, "queue", "new") == [seen(mirror)]


def test_handlers_see_before_and_after(mirror):
    told = []
    mirror.on_change(resources.WORKLOAD, lambda old, new: told.append((old is None, new is None)))
    mirror.observe(resources.WORKLOAD, workload(1))
    mirror.forget(resources.WORKLOAD, workload(2))
    assert told == [(True, False), (False, True)]


def test_one_faulty_handler_does_not_stop_the_others(mirror):
    told = []
    mirror.on_change(resources.WORKLOAD, lambda _old, _new: 1 / 0)
    mirror.on_change(resources.WORKLOAD, lambda _old, new: told.append(new))
    mirror.observe(resources.WORKLOAD, workload(1))
    assert told


def test_items_of_a_list_learn_what_they_are():
    assert named(resources.POD, {"metadata": {}})["kind"] == "Pod"


def test_what_the_api_does_not_require_is_there_for_controllers():
    mirror = ObjectCache()
    bare = {
        "metadata": {"name": "w", "namespace": "n", "resourceVersion": "1"},
        "spec": {"podSets": [{"template": {}}]},
    }
    mirror.observe(resources.WORKLOAD, bare)
    seen = mirror.get(resources.WORKLOAD, "w", "n")
    assert seen["spec"]["podSets"][0]["template"]["spec"] == {}


def test_a_queue_without_a_spec_is_observed():
    mirror = ObjectCache()
    mirror.add_index(resources.LOCAL_QUEUE, "clusterQueue", lambda queue: [queue["spec"].get("clusterQueue", "")])
    mirror.observe(resources.LOCAL_QUEUE, {"metadata": {"name": "q", "namespace": "n", "resourceVersion": "1"}})
    assert mirror.get(resources.LOCAL_QUEUE, "q", "n")["spec"] == {}
