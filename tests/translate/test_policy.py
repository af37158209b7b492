import pytest

from pykueue.engine.policy import QuotaCheckStrategy
from pykueue.translate import policy

IGNORES = {"resources": {"quotaCheckStrategy": "IgnoreUndeclared"}}


@pytest.mark.parametrize(
    ("gates", "strategy"),
    [({}, QuotaCheckStrategy.IGNORE_UNDECLARED), ({"QuotaCheckStrategy": False}, QuotaCheckStrategy.BLOCK_UNDECLARED)],
)
def test_the_quota_check_strategy_needs_its_gate(gates, strategy):
    assert policy.engine_policy(IGNORES | {"featureGates": gates}).quota_check_strategy is strategy


def test_admission_fair_sharing_has_the_weights_and_times_of_the_configuration():
    section = {"usageHalfLifeTime": "1m", "usageSamplingInterval": "2s", "resourceWeights": {"cpu": 2}}
    sharing = policy.engine_policy({"admissionFairSharing": section}).admission_fair_sharing
    times = (sharing.half_life_ns, sharing.sampling_interval_ns)
    assert (*times, sharing.resource_weights) == (60 * 10**9, 2 * 10**9, {"cpu": 2.0})


@pytest.mark.parametrize("timestamp", ["Eviction", "Creation"])
def test_the_time_by_which_evicted_workloads_are_ordered_is_that_of_the_configuration(timestamp):
    pods_ready = {"requeuingStrategy": {"timestamp": timestamp}}
    assert policy.engine_policy({"waitForPodsReady": pods_ready}).requeuing_timestamp.value == timestamp


def test_a_transformation_may_multiply_by_another_resource():
    entry = {"input": "a", "strategy": "Replace", "outputs": {"b": 2}, "multiplyBy": "c"}
    (rule,) = policy.workload_options({"resources": {"transformations": [entry]}}).rules.transformations.values()
    assert rule.multiply_by == "c"


@pytest.mark.parametrize(("gates", "seconds"), [({}, 1), ({"SchedulerLongRequeueInterval": True}, 10)])
def test_the_requeue_interval_has_a_gate(gates, seconds):
    assert policy.requeue_interval_ns({"featureGates": gates}) == seconds * 10**9
