import pytest

from pykueue.api.labels import PRIORITY_BOOST
from pykueue.controllers import priority_booster
from pykueue.controllers.priority_booster import BoosterOptions

SECOND = 10**9
OPTIONS = BoosterOptions(interval_ns=60 * SECOND, negative_boost=5)


def workload(*, admitted=True, boost=None, priority=0, **labels):
    condition = {
        "type": "Admitted",
        "status": "True" if admitted else "False",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    }
    annotations = {PRIORITY_BOOST: boost} if boost else {}
    metadata = {"name": "w", "namespace": "ns", "annotations": annotations, "labels": labels}
    return {"metadata": metadata, "spec": {"priority": priority}, "status": {"conditions": [condition]}}


def boost_after(obj, now_ns, options=OPTIONS):
    """The annotation after the plan."""
    plan = priority_booster.plan(obj, options, now_ns)
    value = obj["metadata"]["annotations"].get(PRIORITY_BOOST)
    for action in plan.actions[:1]:
        value = action.patch["metadata"]["annotations"][PRIORITY_BOOST]
    return value, plan.requeue_after_ns


@pytest.mark.parametrize(
    ("obj", "now_ns", "expected"),
    [
        (workload(), 0, (None, 60 * SECOND)),
        (workload(), 59 * SECOND, (None, SECOND)),
        (workload(), 60 * SECOND, ("-5", 0)),
        (workload(boost="-5"), 90 * SECOND, ("-5", 0)),
        (workload(boost="-5"), 0, (None, 60 * SECOND)),
        (workload(admitted=False, boost="-5"), 90 * SECOND, (None, 0)),
        (workload(admitted=False), 90 * SECOND, (None, 0)),
    ],
)
def test_the_boost_follows_the_time_since_admission(obj, now_ns, expected):
    assert boost_after(obj, now_ns) == expected


@pytest.mark.parametrize(("present", "expected"), [("-5", None), ("7", "7"), ("x", "x")])
def test_out_of_scope_only_boosts_of_the_booster_are_removed(present, expected):
    options = BoosterOptions(interval_ns=SECOND, max_priority=10)
    assert boost_after(workload(priority=11, boost=present), 90 * SECOND, options) == (expected, 0)


def test_a_selector_chooses_workloads():
    options = BoosterOptions(interval_ns=SECOND, workload_selector={"matchLabels": {"share": "yes"}})
    assert boost_after(workload(share="yes"), 90 * SECOND, options) == ("-100000", 0)
    assert boost_after(workload(share="no"), 90 * SECOND, options) == (None, 0)
