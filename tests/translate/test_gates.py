"""What a feature gate of the Configuration changes in decisions of the engine and in its input."""

import pytest
from tests.engine import builders as b
from tests.translate import test_devices, test_workload

from pykueue.engine import events, values
from pykueue.translate import devices, policy, workload

MINUTE_NS = 60 * 10**9


def configuration(gate, is_on, **fields):
    return {"featureGates": {gate: is_on}, **fields}


def engine_policy(gate, is_on, **fields):
    return policy.engine_policy(configuration(gate, is_on, **fields))


def read(source, gate, is_on):
    return workload.workload(source, policy.workload_options(configuration(gate, is_on)))


@pytest.mark.parametrize(("is_on", "first"), [(True, "important"), (False, "early")])
def test_priority_sorting_within_cohort_decides_who_may_borrow(is_on, first):
    queues = [b.cluster_queue(name, "cohort", nominal=nominal) for name, nominal in (("a", 0), ("b", 0), ("c", 2))]
    cluster = b.Cluster(*queues, policy=engine_policy("PrioritySortingWithinCohort", is_on))
    cluster.add(b.workload("early", "a", cpu=2), b.workload("important", "b", cpu=2, priority=9, created=1))
    assert cluster.admitted() == [first]


@pytest.mark.parametrize(("is_on", "preempted"), [(False, ["newer"]), (True, [])])
def test_a_timestamp_preemption_buffer_spares_workloads_of_the_same_minutes(is_on, preempted):
    queue = b.cluster_queue(nominal=1, within="LowerOrNewerEqualPriority")
    cluster = b.Cluster(queue, policy=engine_policy("SchedulerTimestampPreemptionBuffer", is_on))
    cluster.add(b.workload("newer", admitted_to="default", created=2 * MINUTE_NS), b.workload("older"))
    assert [name for name, _ in cluster.preempted()] == preempted


@pytest.mark.parametrize(("is_on", "first"), [(True, "within"), (False, "borrows")])
def test_fair_sharing_prioritizes_who_does_not_borrow(is_on, first):
    """A queue that borrows GPUs has a great share, but borrows none of the CPUs that it needs."""

    def queue(name, cpu, gpu):
        quotas = {"cpu": b.quota(cpu), "gpu": b.quota(gpu)}
        return b.cluster_queue(name, "cohort", groups=[b.group({"default": quotas}, ("cpu", "gpu"))])

    gate = engine_policy("FairSharingPrioritizeNonBorrowing", is_on, fairSharing={})
    cluster = b.Cluster(queue("light", 0, 4), queue("heavy", 3, 0), queue("lender", 10, 4), policy=gate)
    gpus = b.pod_set({"gpu": 3})
    cluster.add(b.workload("running", "heavy", pod_sets=[gpus], admitted_to="default"))
    cluster.add(b.workload("within", "heavy", created=1), b.workload("borrows", "light"))
    assert cluster.admitted()[0] == first


@pytest.mark.parametrize(("is_on", "preempted"), [(True, ["theirs-4", "theirs-3"]), (False, [])])
def test_fair_sharing_preempts_for_nominal_quota_whatever_the_share(is_on, preempted):
    """The cohort of the preemptor borrows more than the one of its victims."""
    gate = engine_policy("FairSharingPreemptWithinNominal", is_on, fairSharing={})
    cluster = b.Cluster(
        b.cluster_queue("mine", "a", nominal=2, reclaim="LowerPriority"),
        b.cluster_queue("ours", "a", nominal=0),
        b.cluster_queue("theirs", "b", nominal=2),
        b.cluster_queue("lender", "root", nominal=8),
        cohorts=[values.Cohort(name="a", parent="root"), values.Cohort(name="b", parent="root")],
        policy=gate,
    )
    cluster.add(b.workload("busy", "ours", cpu=7, priority=9, admitted_to="default"))
    cluster.add(*(b.workload(f"theirs-{n}", "theirs", admitted_to="default", created=n) for n in range(5)))
    cluster.add(b.workload("urgent", "mine", cpu=2, priority=5, created=9))
    assert [name for name, _ in cluster.preempted()] == preempted


@pytest.mark.parametrize(("is_on", "counted"), [(True, 1000), (False, 2000)])
def test_reclaimable_pods_are_counted_without_the_gate(is_on, counted):
    source = test_workload.obj(reclaimablePods=[{"name": "main", "count": 1}])
    assert read(source, "ReclaimablePods", is_on).pod_sets[0].requests == {"cpu": counted}


@pytest.mark.parametrize("is_on", [True, False])
def test_an_admission_gate_holds_a_workload_back_only_with_its_gate(is_on):
    source = test_workload.obj()
    source["metadata"]["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}
    assert read(source, "AdmissionGatedBy", is_on).admission_gated is is_on


@pytest.mark.parametrize(("is_on", "weights"), [(True, [5]), (False, [])])
def test_preferred_node_affinity_is_respected_with_the_gate(is_on, weights):
    source = test_workload.obj()
    expression = {"key": "zone", "operator": "In", "values": ["a"]}
    term = {"weight": 5, "preference": {"matchExpressions": [expression]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    source["spec"]["podSets"][0]["template"]["spec"]["affinity"] = affinity
    terms = read(source, "TASRespectNodeAffinityPreferred", is_on).pod_sets[0].preferred_terms
    assert [term.weight for term in terms] == weights


@pytest.mark.parametrize(("is_on", "is_fault"), [(True, True), (False, False)])
def test_claims_are_rejected_without_devices_if_the_gate_says_so(is_on, is_fault):
    gates = {"KueueDRAIntegration": False, "KueueDRARejectWorkloadsWhenDRADisabled": is_on}
    rules = policy.device_rules({"featureGates": gates})
    counts = devices.count(test_devices.workload(), rules, test_devices.Inventory(test_devices.exactly()))
    assert isinstance(counts, devices.DeviceFault) is is_fault


@pytest.mark.parametrize("is_on", [True, False])
def test_levels_of_an_elastic_job_are_refused_with_the_gate(is_on):
    source = test_workload.obj()
    source["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    assert read(source, "ElasticJobsViaWorkloadSlicesWithTAS", is_on).refuses_levels is is_on


@pytest.mark.parametrize(("is_on", "first"), [(True, "preemptor"), (False, "greater")])
def test_a_preemptor_takes_the_quota_of_its_victim_with_the_gate(is_on, first):
    """A workload of greater priority arrives in another queue while the victim ends."""
    lower = values.BorrowWithinCohort()
    preempts = {"within": "LowerPriority", "reclaim": "LowerPriority", "borrow_within_cohort": lower}
    queues = [b.cluster_queue(name, "cohort", nominal=1, **preempts) for name in ("a", "b")]
    cluster = b.Cluster(*queues, policy=engine_policy("PrioritizePreemptorWorkloads", is_on))
    victim = b.workload("victim", "a", cpu=2, admitted_to="default")
    cluster.add(victim, b.workload("preemptor", "a", cpu=2, priority=5, created=1))
    assert [name for name, _ in cluster.preempted()] == ["victim"]
    cluster.handle(events.WorkloadGone(key=victim.key))
    cluster.add(b.workload("greater", "b", cpu=2, priority=9, created=2))
    assert cluster.admitted() == [first]


ENGINE_OPTIONS = {
    "SchedulingEquivalenceHashing": "scheduling_equivalence_hashing",
    "FlavorFungibilityPreserveScanProgress": "preserve_scan_progress",
    "RecomputeAssignmentUponPreemptionTargetsOverlap": "recompute_overlapping_targets",
    "TASFailedNodeReplacementFailFast": "failed_replacement_evicts",
    "TASRecomputeAssignmentWithinSchedulingCycle": "recompute_placement_within_cycle",
}
TOPOLOGY_OPTIONS = {
    "TASBalancedPlacement": "balanced_placement",
    "TASHandleOverlappingFlavors": "overlapping_flavors",
    "TASProfileMixed": "mixed_profile",
}


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("gate", [*ENGINE_OPTIONS, *TOPOLOGY_OPTIONS])
def test_a_gate_switches_an_option_of_the_engine(gate, is_on):
    engine = engine_policy(gate, is_on)
    options = {
        **{name: getattr(engine, option) for name, option in ENGINE_OPTIONS.items()},
        **{name: getattr(engine.topology, option) for name, option in TOPOLOGY_OPTIONS.items()},
    }
    assert options[gate] is is_on
