import copy

from pykueue.api import times
from pykueue.api.labels import ADMISSION_GATED_BY, PRIORITY_BOOST
from pykueue.engine import values
from pykueue.translate import messages, policy, workload

NOON = times.to_ns("2026-01-15T12:00:00Z")


def obj(**status):
    return {
        "metadata": {
            "name": "job-1",
            "namespace": "team",
            "uid": "u1",
            "creationTimestamp": "2026-01-15T12:00:00Z",
            "annotations": {},
        },
        "spec": {
            "queueName": "main",
            "priority": 5,
            "podSets": [
                {
                    "name": "main",
                    "count": 2,
                    "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}},
                }
            ],
        },
        "status": status,
    }


def condition(kind, *, status="True", reason="Because"):
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": "2026-01-15T12:00:00Z"}


def read(source, **options):
    return workload.workload(source, workload.WorkloadOptions(**options))


def test_names_times_and_requests():
    value = read(obj())
    assert (value.key, value.local_queue, value.created_at_ns, value.priority) == ("team/job-1", "team/main", NOON, 5)
    assert value.pod_sets[0].requests == {"cpu": 2000}


def test_an_admission_counts_only_while_quota_is_reserved():
    admission = {
        "clusterQueue": "cq",
        "podSetAssignments": [{"name": "main", "count": 2, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "2"}}],
    }
    assert read(obj(admission=admission)).admission is None
    value = read(obj(admission=admission, conditions=[condition("QuotaReserved")]))
    assert value.admission.pod_sets[0].usage == {"cpu": 2000}
    assert value.reserved_at_ns == NOON


def test_evictions_carry_their_reason_and_time():
    value = read(obj(conditions=[condition("Evicted", reason="PodsReadyTimeout")]))
    assert value.eviction == values.EvictionCondition(reason="PodsReadyTimeout", at_ns=NOON)


def test_a_past_eviction_is_none():
    assert read(obj(conditions=[condition("Evicted", status="False")])).eviction is None


def test_a_workload_on_hold_may_not_queue():
    value = read(obj(conditions=[condition("QuotaReserved", status="False", reason="OnHold")]))
    assert not value.may_queue


def test_an_admission_gate_keeps_it_out_of_the_queue():
    gated = obj()
    gated["metadata"]["annotations"][ADMISSION_GATED_BY] = "example.com/gate"
    assert read(gated).admission_gated


def test_a_preemption_gate_known_only_to_the_spec_is_closed():
    gated = obj()
    gated["spec"]["preemptionGates"] = [{"name": "slow"}]
    assert read(gated).closed_preemption_gate
    gated["status"]["preemptionGates"] = [{"name": "slow", "position": "Open"}]
    assert not read(gated).closed_preemption_gate


def test_equal_pod_sets_have_one_scheduling_hash_whatever_their_names():
    other = obj()
    other["metadata"]["name"] = "job-2"
    assert read(obj()).scheduling_hash == read(other).scheduling_hash


def test_another_request_gives_another_scheduling_hash():
    other = copy.deepcopy(obj())
    other["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    assert read(obj()).scheduling_hash != read(other).scheduling_hash


def test_the_priority_boost_counts_only_when_switched_on():
    boosted = obj()
    boosted["metadata"]["annotations"][PRIORITY_BOOST] = "10"
    assert (read(boosted).priority, read(boosted, honors_priority_boost=True).priority) == (5, 15)


def test_requests_above_limits_are_a_fault_in_words():
    bad = obj()
    bad["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "500m"}
    assert messages.invalid_requests(read(bad).invalid_requests) == (
        'resources validation failed: spec.podSets[0].template.spec.containers[0]: Invalid value: ["cpu"]: '
        "requests must not exceed its limits"
    )


def test_node_affinity_terms_are_alternatives():
    source = obj()
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}, {}]
    source["spec"]["podSets"][0]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    expected = values.LabelRequirement(key="zone", operator=values.Operator.IN, values=("a",))
    assert read(source).pod_sets[0].affinity_terms == ((expected,), ())


def test_a_policy_follows_configuration_and_gates():
    engine_policy = policy.engine_policy(
        {
            "fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]},
            "admissionFairSharing": {"usageHalfLifeTime": "1m30s"},
            "featureGates": {"PartialAdmission": False},
        }
    )
    assert engine_policy.fair_sharing.preemption_strategies == ("LessThanInitialShare",)
    assert engine_policy.admission_fair_sharing.half_life_ns == 90 * 10**9
    assert not engine_policy.partial_admission
    assert engine_policy.flavor_fungibility


def test_an_unknown_operator_matches_nothing():
    source = obj()
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Like", "values": ["a"]}]}]
    source["spec"]["podSets"][0]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    expected = values.LabelRequirement(key="zone", operator=values.Operator.IN)
    assert read(source).pod_sets[0].affinity_terms == ((expected,),)
