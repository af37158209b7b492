"""What the engine hears of Workloads while writes of the scheduler are in flight."""

import pytest

from pykueue.api import resources
from pykueue.controllers.cache import new_cache
from pykueue.controllers.scheduler.engine_events import EngineEventSource
from pykueue.controllers.workloads import transitions
from pykueue.engine import events
from pykueue.kube.clock import WallClock

KEY = "ns/a"


def workload(version, *, is_reserved=False):
    obj = {
        "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": str(version)},
        "spec": {
            "queueName": "lq",
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}],
        },
        "status": {},
    }
    if is_reserved:
        assignments = [{"name": "main", "count": 1, "flavors": {}}]
        transitions.reserve_quota(obj, {"clusterQueue": "cq", "podSetAssignments": assignments}, 1)
    return obj


@pytest.fixture
def sent():
    return []


@pytest.fixture
def cache():
    return new_cache()


@pytest.fixture
def source(cache, sent):
    source = EngineEventSource(cache, WallClock(), {}, sent.append)
    cache.apply_event(resources.WORKLOAD, "ADDED", workload(1))
    sent.clear()
    return source


def reservations(sent):
    return [event.workload.admission is not None for event in sent if isinstance(event, events.WorkloadChanged)]


def test_a_reservation_is_heard_of_although_it_is_released_already(source, cache, sent):
    source.pause(KEY)
    cache.apply_event(resources.WORKLOAD, "MODIFIED", workload(3))
    source.confirm(KEY, workload(2, is_reserved=True))
    source.resume(KEY)
    assert reservations(sent) == [True, False]


def test_a_reservation_is_heard_of_although_another_write_is_in_flight(source, cache, sent):
    source.pause(KEY)
    source.pause(KEY)
    cache.observe(resources.WORKLOAD, workload(2, is_reserved=True))
    source.confirm(KEY, workload(2, is_reserved=True))
    assert reservations(sent) == [True]


def test_a_reservation_that_is_the_latest_version_is_heard_of_once(source, cache, sent):
    source.pause(KEY)
    cache.observe(resources.WORKLOAD, workload(2, is_reserved=True))
    source.confirm(KEY, workload(2, is_reserved=True))
    source.resume(KEY)
    assert reservations(sent) == [True]
