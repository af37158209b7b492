"""Pending events as Kueue's recorder lets them through; what it drops was seen in recordings of Kueue v0.19.2."""

from pykueue.controllers.scheduler.pending_events import BATCH_NS, PendingEventFilter
from pykueue.engine import values

KEY = values.WorkloadKey("ns/job")
TREE = (False, "team")


def told_at(came_ns, *, brought_back_ns):
    news = PendingEventFilter()
    news.brought_back([TREE], brought_back_ns)
    news.told(KEY, "2", TREE, came_ns)
    return news


def test_a_workload_that_came_to_a_quiet_tree_tells_each_change():
    news = told_at(BATCH_NS, brought_back_ns=0)
    assert news.is_news(KEY, "2", 5 * BATCH_NS)


def test_a_workload_that_came_while_retries_gather_is_told_of_twice():
    news = told_at(BATCH_NS // 2, brought_back_ns=0)
    assert not news.is_news(KEY, "2", BATCH_NS)


def test_a_change_within_the_batch_is_news():
    news = told_at(BATCH_NS // 2, brought_back_ns=0)
    assert news.is_news(KEY, "2", BATCH_NS - 1)


def test_another_version_is_news():
    news = told_at(BATCH_NS // 2, brought_back_ns=0)
    assert news.is_news(KEY, "3", BATCH_NS)


def test_the_first_of_several_calls_to_try_again_decides_when():
    news = told_at(BATCH_NS // 2, brought_back_ns=0)
    news.brought_back([TREE], BATCH_NS // 2)
    assert not news.is_news(KEY, "2", BATCH_NS)


def test_a_workload_tried_again_is_not_told_of_twice_more():
    news = told_at(BATCH_NS // 2, brought_back_ns=0)
    news.told(KEY, "3", TREE, BATCH_NS - 1)
    assert news.is_news(KEY, "3", 5 * BATCH_NS)


def test_a_try_without_anything_new_uses_up_the_version():
    news = told_at(BATCH_NS, brought_back_ns=0)
    news.told_again(KEY, "2")
    assert not news.is_news(KEY, "2", 5 * BATCH_NS)


def test_a_workload_that_comes_back_begins_anew():
    news = told_at(BATCH_NS // 2, brought_back_ns=0)
    news.forget(KEY)
    assert news.is_news(KEY, "2", BATCH_NS)


def test_what_was_dropped_is_said_at_the_next_try():
    news = told_at(BATCH_NS // 2, brought_back_ns=0)
    news.told(KEY, "3", TREE, BATCH_NS, was_dropped=True)
    assert news.told_again(KEY, "3")
    assert not news.told_again(KEY, "3")
