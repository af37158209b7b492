from pykueue.engine import values
from pykueue.engine.quota import amounts
from pykueue.translate import queues


def cluster_queue(**spec):
    return queues.cluster_queue({"metadata": {"name": "team-a"}, "spec": spec})


def quota(**entry):
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "spot", "resources": [{"name": "cpu", **entry}]}]}
    return cluster_queue(resourceGroups=[group]).resource_groups[0].flavors[0].resources["cpu"]


def test_quotas_are_counted_in_thousandths_of_cpu():
    assert quota(nominalQuota="2", borrowingLimit="500m") == values.Quota(nominal=2000, borrowing_limit=500)


def test_a_huge_quota_is_unlimited():
    assert quota(nominalQuota="1E").nominal == amounts.UNLIMITED


def test_absent_preemption_is_never():
    assert cluster_queue().preemption.reclaim_within_cohort is values.PreemptionPolicy.NEVER


def test_a_policy_absent_inside_preemption_is_not_never():
    assert cluster_queue(preemption={}).preemption.reclaim_within_cohort is values.PreemptionPolicy.UNSET


def test_borrowing_within_the_cohort_is_present_only_when_allowed():
    def borrowing(policy):
        return cluster_queue(preemption={"borrowWithinCohort": policy}).preemption.borrow_within_cohort

    assert borrowing({"policy": "Never"}) is None
    assert borrowing({"policy": "LowerPriority", "maxPriorityThreshold": 7}).max_priority_threshold == 7


def test_an_absent_namespace_selector_selects_nothing():
    assert cluster_queue().namespace_selector is None
    assert cluster_queue(namespaceSelector={}).namespace_selector == values.LabelSelector()


def test_match_labels_become_requirements():
    selector = cluster_queue(namespaceSelector={"matchLabels": {"team": "a"}}).namespace_selector
    assert selector.requirements == (values.LabelRequirement(key="team", operator=values.Operator.IN, values=("a",)),)


def test_a_fair_weight_is_a_quantity():
    assert cluster_queue(fairSharing={"weight": "500m"}).fair_weight == 0.5
    assert cluster_queue(fairSharing={"weight": "0"}).fair_weight == 0
    assert cluster_queue().fair_weight is None


def test_checks_name_the_flavors_they_apply_to():
    strategy = {"admissionChecks": [{"name": "prov", "onFlavors": ["spot"]}, {"name": "budget"}]}
    assert cluster_queue(admissionChecksStrategy=strategy).admission_checks == {
        "prov": frozenset({"spot"}),
        "budget": frozenset(),
    }


def test_a_queue_being_deleted_is_terminating():
    metadata = {"name": "team-a", "deletionTimestamp": "2026-01-15T12:00:00Z"}
    assert queues.cluster_queue({"metadata": metadata, "spec": {}}).terminating


def test_a_flavor_brings_its_taints():
    flavor = queues.resource_flavor(
        {"metadata": {"name": "spot"}, "spec": {"nodeTaints": [{"key": "spot", "effect": "NoSchedule"}]}}
    )
    assert flavor.node_taints == (values.Taint(key="spot", effect="NoSchedule"),)
