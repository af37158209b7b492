import pytest
from tests.engine import builders as b

from pykueue.engine import values
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import UNLIMITED
from pykueue.engine.quota.ledger import Ledger


@pytest.fixture
def tree():
    """A cohort without quota, A lends at most 4 of 10, and B borrows at most 3 over its 6."""
    tree = quota_tree.QuotaTree()
    tree.put_cluster_queue(b.cluster_queue("a", "c", groups=[b.group({"f": b.quota(10, lending_limit=4)})]))
    tree.put_cluster_queue(b.cluster_queue("b", "c", groups=[b.group({"f": b.quota(6, borrowing_limit=3)})]))
    tree.refresh()
    return tree


def test_lending_limit_keeps_the_rest_private(tree):
    assert quota_tree.potential_available(tree.cluster_queues["a"], 0) == 16


def test_borrowing_limit_caps_what_is_available(tree):
    assert quota_tree.available(tree.cluster_queues["b"], 0) == 9


def test_usage_within_local_quota_is_not_passed_up(tree):
    Ledger().charge(tree.cluster_queues["a"], {0: 6})
    assert tree.cohorts["c"].usage.get(0, 0) == 0


def test_usage_beyond_local_quota_is_passed_up(tree):
    Ledger().charge(tree.cluster_queues["a"], {0: 8})
    assert tree.cohorts["c"].usage[0] == 2


def test_release_takes_back_from_the_cohort_first(tree):
    ledger = Ledger()
    ledger.charge(tree.cluster_queues["a"], {0: 8})
    ledger.release(tree.cluster_queues["a"], {0: 1})
    assert tree.cohorts["c"].usage[0] == 1


def test_available_is_negative_when_overused(tree):
    Ledger().charge(tree.cluster_queues["b"], {0: 12})
    assert quota_tree.available(tree.cohorts["c"], 0) == -2


def test_trial_restores_usage_and_borrowers(tree):
    ledger = Ledger()
    with ledger.trial():
        ledger.charge(tree.cluster_queues["b"], {0: 7})
        assert tree.cohorts["c"].borrowers[0]
    assert (tree.cluster_queues["b"].usage, tree.cohorts["c"].borrowers) == ({}, {0: {}})


def test_nested_trial_restores_to_its_own_start(tree):
    ledger = Ledger()
    with ledger.trial():
        ledger.charge(tree.cluster_queues["b"], {0: 2})
        with ledger.trial():
            ledger.charge(tree.cluster_queues["b"], {0: 3})
        assert tree.cluster_queues["b"].usage[0] == 2


def test_trial_restores_after_an_error(tree):
    ledger = Ledger()
    with pytest.raises(ZeroDivisionError), ledger.trial():
        ledger.charge(tree.cluster_queues["b"], {0: 1 // 0})
    assert tree.cluster_queues["b"].usage == {}


def test_unlimited_quota_stays_unlimited_whatever_is_used():
    tree = quota_tree.QuotaTree()
    node = tree.put_cluster_queue(b.cluster_queue(nominal=UNLIMITED))
    tree.refresh()
    Ledger().charge(node, {0: 10**9})
    assert quota_tree.available(node, 0) == UNLIMITED


def test_height_of_fit_is_the_height_of_the_subtree():
    tree = quota_tree.QuotaTree()
    tree.put_cohort(values.Cohort(name="root", resource_groups=(b.group({"f": b.quota(10)}),)))
    tree.put_cohort(values.Cohort(name="left", parent="root"))
    queue = tree.put_cluster_queue(b.cluster_queue("q", "left", groups=[b.group({"f": b.quota(1)})]))
    tree.refresh()
    assert [quota_tree.height_of_fit(queue, 0, amount) for amount in (1, 5, 50)] == [(0, True), (2, False), (2, False)]


def test_cohorts_in_a_circle_are_cut_off_and_mended():
    tree = quota_tree.QuotaTree()
    tree.put_cohort(values.Cohort(name="one", parent="two"))
    tree.put_cohort(values.Cohort(name="two", parent="one"))
    queue = tree.put_cluster_queue(b.cluster_queue("q", "one"))
    tree.refresh()
    assert (tree.is_in_cycle("q"), queue.parent) == (True, None)
    tree.put_cohort(values.Cohort(name="two"))
    tree.refresh()
    assert (tree.is_in_cycle("q"), queue.path) == (False, ("two", "one", "q"))


def test_implicit_cohort_goes_with_its_last_member():
    tree = quota_tree.QuotaTree()
    tree.put_cluster_queue(b.cluster_queue("q", "implied"))
    tree.put_cluster_queue(b.cluster_queue("q"))
    assert tree.cohorts == {}


def test_deleted_cohort_stays_as_implicit_root_while_named():
    tree = quota_tree.QuotaTree()
    tree.put_cohort(values.Cohort(name="root"))
    tree.put_cohort(values.Cohort(name="left", parent="root", resource_groups=(b.group({"f": b.quota(5)}),)))
    queue = tree.put_cluster_queue(b.cluster_queue("q", "left", groups=[b.group({"f": b.quota(1)})]))
    tree.remove_cohort("left")
    tree.refresh()
    assert (queue.path, quota_tree.available(queue, 0)) == (("left", "q"), 1)


def test_a_removed_cohort_takes_its_quota_with_it():
    """Quota of a cohort that is gone would be lent to others, and admit more than there is."""
    tree = quota_tree.QuotaTree()
    tree.put_cohort(values.Cohort(name="root"))
    tree.put_cohort(values.Cohort(name="middle", parent="root"))
    tree.put_cohort(values.Cohort(name="leaf", parent="middle", resource_groups=(b.group({"f": b.quota(10)}),)))
    tree.put_cluster_queue(b.cluster_queue("a", "root", groups=[b.group({"f": b.quota(1)})]))
    tree.refresh()
    assert quota_tree.available(tree.cluster_queues["a"], 0) == 11
    tree.remove_cohort("leaf")
    tree.refresh()
    assert quota_tree.available(tree.cluster_queues["a"], 0) == 1
