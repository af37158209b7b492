"""The filter of Pending events emits what recordings of Kueue v0.19.2 show."""

from pykueue.controllers.scheduler.pending_events import BATCH_NS, PendingEventFilter
from pykueue.engine import values
from pykueue.engine.view import TreeKey

KEY = values.WorkloadKey("ns/job")
TREE = TreeKey(is_cluster_queue=False, name="team")


def written_at(arrived_ns, *, reactivated_ns):
    event_filter = PendingEventFilter()
    event_filter.reactivated([TREE], reactivated_ns)
    event_filter.written(KEY, "2", TREE, arrived_ns)
    return event_filter


def test_a_workload_in_a_quiet_tree_gets_an_event_for_every_change():
    event_filter = written_at(BATCH_NS, reactivated_ns=0)
    assert event_filter.should_emit(KEY, "2", 5 * BATCH_NS)


def test_a_workload_that_arrived_while_reactivations_are_collected_was_emitted_twice():
    event_filter = written_at(BATCH_NS // 2, reactivated_ns=0)
    assert not event_filter.should_emit(KEY, "2", BATCH_NS)


def test_a_change_within_the_batch_is_emitted():
    event_filter = written_at(BATCH_NS // 2, reactivated_ns=0)
    assert event_filter.should_emit(KEY, "2", BATCH_NS - 1)


def test_another_version_is_emitted():
    event_filter = written_at(BATCH_NS // 2, reactivated_ns=0)
    assert event_filter.should_emit(KEY, "3", BATCH_NS)


def test_the_first_of_several_reactivations_starts_the_batch():
    event_filter = written_at(BATCH_NS // 2, reactivated_ns=0)
    event_filter.reactivated([TREE], BATCH_NS // 2)
    assert not event_filter.should_emit(KEY, "2", BATCH_NS)


def test_a_workload_tried_again_is_not_emitted_twice_more():
    event_filter = written_at(BATCH_NS // 2, reactivated_ns=0)
    event_filter.written(KEY, "3", TREE, BATCH_NS - 1)
    assert event_filter.should_emit(KEY, "3", 5 * BATCH_NS)


def test_an_attempt_without_a_change_uses_up_the_version():
    event_filter = written_at(BATCH_NS, reactivated_ns=0)
    event_filter.unchanged(KEY, "2")
    assert not event_filter.should_emit(KEY, "2", 5 * BATCH_NS)


def test_a_workload_that_is_pending_again_starts_over():
    event_filter = written_at(BATCH_NS // 2, reactivated_ns=0)
    event_filter.forget(KEY)
    assert event_filter.should_emit(KEY, "2", BATCH_NS)


def test_a_suppressed_event_is_emitted_at_the_next_attempt():
    event_filter = written_at(BATCH_NS // 2, reactivated_ns=0)
    event_filter.written(KEY, "3", TREE, BATCH_NS, is_suppressed=True)
    assert event_filter.unchanged(KEY, "3")
    assert not event_filter.unchanged(KEY, "3")
