"""Variants of concurrent admission: at most one of a parent runs, with the best flavor it got."""

import pytest
from tests.engine import builders as b

from pykueue.engine import decisions, reasons, values


def cluster(on_demand=10, **fields):
    group = b.group({"reservation": b.quota(0), "on-demand": b.quota(on_demand), "spot": b.quota(10)})
    return b.Cluster(b.cluster_queue(groups=[group], **fields))


def variant(flavor, **fields):
    return b.workload(flavor, cpu=10, parent_uid="parent", allowed_flavors=(flavor,), **fields)


def running(flavor):
    return variant(flavor, admitted_to=flavor, admitted=True)


def test_a_variant_uses_its_own_flavor_only():
    tried = cluster(on_demand=5)
    tried.add(variant("on-demand"))
    (pending,) = tried.cycle()
    causes = pending.pending.pod_sets[0].reasons
    assert reasons.FlavorNotAllowed(flavor="spot") in causes
    assert any(isinstance(cause, reasons.CapacityExceeded) for cause in causes)


def test_a_worse_variant_waits_while_a_better_one_runs():
    tried = cluster()
    tried.add(running("on-demand"), variant("spot"))
    (pending,) = tried.cycle()
    assert pending.pending == reasons.BetterVariantAdmitted()
    assert tried.waiting() == ["spot"]


def test_a_better_variant_evicts_the_worse_one_once():
    tried = cluster()
    tried.add(running("spot"), variant("on-demand"))
    migrate, pending = tried.cycle()
    assert migrate == decisions.Migrate(workload="default/on-demand", cluster_queue="queue", victim="default/spot")
    assert pending.reason is reasons.RequeueReason.PENDING_MIGRATION
    assert not any(isinstance(decision, decisions.Migrate) for decision in tried.cycle())


def test_variants_of_another_parent_do_not_count():
    tried = cluster()
    tried.add(running("spot"))
    tried.add(b.workload("other", cpu=10, parent_uid="other", allowed_flavors=("on-demand",)))
    assert tried.admitted() == ["other"]


def test_one_variant_of_a_parent_is_admitted_in_two_cycles():
    """The second variant sees the first as admitted before the API has confirmed it."""
    tried = cluster()
    tried.add(variant("on-demand", created=1), variant("spot", created=2))
    assert tried.admitted() == ["on-demand"]
    assert tried.admitted() == []


@pytest.mark.parametrize(("last", "is_allowed"), [("reservation", False), ("on-demand", True), ("spot", True)])
def test_no_variant_migrates_behind_the_last_acceptable_flavor(last, is_allowed):
    policy = values.ConcurrentAdmission(last_acceptable_flavor=last)
    tried = cluster(concurrent_admission=policy)
    tried.add(running("spot"), variant("on-demand"))
    *migrations, pending = tried.cycle()
    assert bool(migrations) == is_allowed
    assert isinstance(pending.pending, reasons.MigrationPending if is_allowed else reasons.MigrationForbidden)


def test_a_parent_neither_queues_nor_uses_quota():
    tried = cluster()
    tried.add(b.workload("parent", has_variants=True))
    assert tried.cycle() == []
    assert tried.waiting() == []
