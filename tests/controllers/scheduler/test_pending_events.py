"""Which Pending events Kueue would emit: one for each version of a Workload, and when it is tried."""

import pytest

from pykueue.api.times import SECOND_NS
from pykueue.controllers.scheduler.pending_events import PendingEventFilter


@pytest.fixture
def events():
    """A filter that saw a Workload arrive while Kueue collected reactivations, from second 0 on."""
    events = PendingEventFilter()
    events.reactivated(["tree"], 0)
    assert events.should_emit("ns/w", "1", SECOND_NS // 10)
    events.written("ns/w", "2", "tree", SECOND_NS // 10)
    return events


def test_kueue_emits_for_the_second_attempt_when_the_second_is_over(events):
    assert events.should_emit("ns/w", "2", SECOND_NS // 2)
    assert not events.should_emit("ns/w", "2", 3 * SECOND_NS)


def test_the_second_attempt_sees_what_others_wrote_before_it(events):
    events.changed("ns/w", "3", SECOND_NS // 2)
    assert not events.should_emit("ns/w", "3", 3 * SECOND_NS)


def test_the_second_attempt_does_not_see_what_others_wrote_after_it(events):
    events.changed("ns/w", "3", 2 * SECOND_NS)
    assert events.should_emit("ns/w", "3", 3 * SECOND_NS)


def test_a_workload_that_is_tried_once_has_an_event_for_each_version():
    events = PendingEventFilter()
    events.written("ns/w", "2", "tree", 0)
    events.changed("ns/w", "3", 1)
    assert events.should_emit("ns/w", "3", 2)
