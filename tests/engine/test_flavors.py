import pytest
from msgspec import structs
from tests.engine import builders as b

from pykueue.engine import decisions, events, reasons, values
from pykueue.engine.flavors import matching
from pykueue.engine.policy import Policy, QuotaCheckStrategy
from pykueue.engine.quota.amounts import UNLIMITED
from pykueue.translate import messages


def flavors_of(admit):
    return [set(pod_set.flavors.values()) for pod_set in admit.admission.pod_sets]


def plain(resource, amount):
    return str(amount)


def test_first_flavor_that_fits_is_taken():
    cluster = b.Cluster(b.cluster_queue(groups=[b.group({"small": b.quota(1), "big": b.quota(5)})]))
    cluster.add(b.workload("one", cpu=3))
    (admit,) = cluster.cycle()
    assert flavors_of(admit) == [{"big"}]


def test_flavors_considered_tell_why_not_the_first():
    cluster = b.Cluster(b.cluster_queue(groups=[b.group({"small": b.quota(1), "big": b.quota(5)})]))
    cluster.add(b.workload("one", cpu=3))
    (admit,) = cluster.cycle()
    assert messages.considered_flavors(admit.considered, plain) == (
        "main: small(NoFit;insufficient quota for cpu in flavor small, previously considered podsets requests (0)"
        " + current podset request (3) > maximum capacity (1))"
    )


def test_pod_sets_share_what_one_workload_takes():
    cluster = b.Cluster(b.cluster_queue(groups=[b.group({"first": b.quota(3), "second": b.quota(3)})]))
    cluster.add(b.workload("two", pod_sets=[b.pod_set({b.CPU: 2}, name=name) for name in ("a", "b")]))
    (admit,) = cluster.cycle()
    assert flavors_of(admit) == [{"first"}, {"second"}]


def test_borrowing_may_try_the_next_flavor_first():
    groups = [b.group({"first": b.quota(1), "second": b.quota(5)})]
    fungibility = values.FlavorFungibility(when_can_borrow=values.FungibilityPolicy.TRY_NEXT_FLAVOR)
    cluster = b.Cluster(
        b.cluster_queue("mine", "cohort", groups=groups, flavor_fungibility=fungibility),
        b.cluster_queue("theirs", "cohort", groups=[b.group({"first": b.quota(5), "second": b.quota(0)})]),
    )
    cluster.add(b.workload("one", "mine", cpu=3))
    (admit,) = cluster.cycle()
    assert (flavors_of(admit), admit.borrowing) == ([{"second"}], 0)


def test_undeclared_resource_is_refused():
    cluster = b.Cluster(b.cluster_queue())
    cluster.add(b.workload("one", pod_sets=[b.pod_set({b.CPU: 1, "gpu": 1})]))
    (decision,) = cluster.cycle()
    assert messages.pending(decision.pending, plain) == (
        "couldn't assign flavors to pod set main: resource gpu unavailable in ClusterQueue"
    )


def test_undeclared_resource_is_ignored_if_so_configured():
    policy = Policy(quota_check_strategy=QuotaCheckStrategy.IGNORE_UNDECLARED)
    cluster = b.Cluster(b.cluster_queue(), policy=policy)
    cluster.add(b.workload("one", pod_sets=[b.pod_set({b.CPU: 1, "gpu": 1})]))
    assert cluster.admitted() == ["one"]


def test_pods_are_charged_where_they_are_covered():
    group = b.group({"default": {"cpu": b.quota(9), "pods": b.quota(2)}}, ("cpu", "pods"))
    cluster = b.Cluster(b.cluster_queue(groups=[group]))
    cluster.add(b.workload("many", pod_sets=[b.pod_set(count=3)]))
    (decision,) = cluster.cycle()
    assert isinstance(decision, decisions.MarkInadmissible)


def test_partial_admission_takes_as_many_pods_as_fit():
    cluster = b.Cluster(b.cluster_queue(nominal=7))
    cluster.add(b.workload("ten", pod_sets=[b.pod_set(count=10, min_count=2)]))
    (admit,) = cluster.cycle()
    assert [pod_set.count for pod_set in admit.admission.pod_sets] == [7]


def test_untolerated_taint_skips_the_flavor():
    cluster = b.Cluster(b.cluster_queue())
    taint = values.Taint(key="gpu", value="yes")
    cluster.handle(events.FlavorChanged(flavor=values.ResourceFlavor(name="default", node_taints=(taint,))))
    cluster.add(b.workload("one"))
    (decision,) = cluster.cycle()
    assert messages.pending(decision.pending, plain) == (
        "couldn't assign flavors to pod set main: untolerated taint {gpu yes NoSchedule <nil>} in flavor default"
    )


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "k", "value": "other"}, False),
        ({"key": "k", "value": "v", "effect": "NoExecute"}, False),
        ({"key": "k", "operator": "Odd"}, False),
    ],
)
def test_toleration(toleration, tolerated):
    assert matching.tolerates(values.Toleration(**toleration), values.Taint(key="k", value="v")) is tolerated


@pytest.mark.parametrize(
    ("operator", "selected", "satisfied"),
    [
        ("In", ("5",), True),
        ("NotIn", ("5",), False),
        ("Exists", (), True),
        ("DoesNotExist", (), False),
        ("Gt", ("4",), True),
        ("Lt", ("4",), False),
        ("Gt", ("many",), False),
    ],
)
def test_label_requirement(operator, selected, satisfied):
    requirement = values.LabelRequirement(key="size", operator=values.Operator(operator), values=selected)
    assert matching.satisfies(requirement, {"size": "5"}) is satisfied


def test_affinity_looks_only_at_labels_of_the_flavor():
    flavor = values.ResourceFlavor(name="f", node_labels={"zone": "a"})
    elsewhere = values.LabelRequirement(key="disk", operator=values.Operator.IN, values=("ssd",))
    zone = values.LabelRequirement(key="zone", operator=values.Operator.IN, values=("b",))
    pod_set = b.pod_set(affinity_terms=((elsewhere,),))
    assert matching.matches_affinity(flavor, pod_set)
    assert not matching.matches_affinity(flavor, structs.replace(pod_set, affinity_terms=((elsewhere, zone),)))


def test_scan_goes_on_where_it_stopped():
    """Skipped because another took the quota: the next cycle begins with the flavor after."""
    fungibility = values.FlavorFungibility(when_can_borrow=values.FungibilityPolicy.MAY_STOP_SEARCH)
    groups = [b.group({"shared": b.quota(0), "spare": b.quota(2)})]
    cluster = b.Cluster(
        b.cluster_queue("a", "cohort", groups=groups, flavor_fungibility=fungibility),
        b.cluster_queue("b", "cohort", groups=groups, flavor_fungibility=fungibility),
        cohorts=[values.Cohort(name="cohort", resource_groups=(b.group({"shared": b.quota(2), "spare": b.quota(0)}),))],
    )
    cluster.add(b.workload("first", "a", cpu=2, created=1), b.workload("second", "b", cpu=2, created=2))
    first = cluster.cycle()
    assert [type(decision) for decision in first] == [decisions.Admit, decisions.Requeue]
    assert first[1].pending == reasons.NoLongerFits()
    (admit,) = cluster.cycle()
    assert flavors_of(admit) == [{"spare"}]


def test_pod_sets_that_need_more_than_can_be_counted_fit_in_unlimited_quota():
    cluster = b.Cluster(b.cluster_queue(nominal=UNLIMITED))
    cluster.add(b.workload("huge", pod_sets=[b.pod_set({b.CPU: UNLIMITED}), b.pod_set({b.CPU: 1}, name="more")]))
    assert cluster.admitted() == ["huge"]
