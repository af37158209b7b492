import logging

from pykueue.api import resources
from pykueue.controllers.jobs.workload_handlers import WorkloadHandlers
from pykueue.kube.controller.cache import ObjectCache

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "u"}
WORKLOAD = {
    "metadata": {"name": "job-a", "namespace": "ns", "uid": "w", "resourceVersion": "1", "ownerReferences": [OWNER]}
}


def called_kinds(*kinds, cached=()):
    """The kinds whose handlers are called when a Workload of a Job appears."""
    cache, called = ObjectCache(), []
    handlers = WorkloadHandlers(cache)
    for kind in kinds:
        handlers.add(kind, lambda _old, _new, kind=kind: called.append(kind))
    for kind in cached:
        cache.observe(kind, {"metadata": {"name": "x", "namespace": "ns", "uid": "x", "resourceVersion": "1"}})
    cache.observe(resources.WORKLOAD, WORKLOAD)
    return called


def test_a_change_concerns_the_kind_of_the_owner_and_kinds_with_objects():
    assert called_kinds(resources.JOB, resources.POD) == [resources.JOB]
    assert called_kinds(resources.JOB, resources.POD, cached=[resources.POD]) == [resources.JOB, resources.POD]


def test_a_handler_that_fails_does_not_keep_the_change_from_the_others(caplog):
    cache, changes = ObjectCache(), []
    handlers = WorkloadHandlers(cache)
    handlers.add(resources.JOB, lambda _old, _new: 1 / 0)
    handlers.add(resources.JOB, lambda _old, new: changes.append(new))
    with caplog.at_level(logging.ERROR):
        cache.observe(resources.WORKLOAD, WORKLOAD)
    assert changes == [WORKLOAD]
    assert "a handler failed on workloads ns/job-a" in caplog.text
