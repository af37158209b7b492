import pytest

from pykueue.api import feature_gates
from pykueue.api.rules.jobs import job_kinds
from pykueue.controllers import settings
from pykueue.translate import policy

JOBS = {"integrations": {"frameworks": ["batch/job"]}}
EXTERNAL = JOBS | {"multiKueue": {"externalFrameworks": [{"name": "Kind.v1.example.com"}]}}
STEPS = JOBS | {"multiKueue": {"incrementalDispatcherConfig": {"stepSize": 7}}}


@pytest.mark.parametrize("name", sorted(job_kinds.JOB_KINDS))
def test_every_kind_that_can_be_held_back_has_a_controller(name):
    configuration = {"integrations": {"frameworks": [name]}}
    assert settings.frameworks(configuration) or settings.manages_pods(configuration)


@pytest.mark.parametrize(
    ("gate", "field", "default"),
    [
        ("AssignQueueLabelsForPods", "labels_queues", True),
        ("FastQuotaReleaseInPodIntegration", "deleted_pods_use_quota", True),
    ],
)
def test_gates_change_the_policy_of_jobs(gate, field, default):
    assert getattr(settings.job_policy({}), field) is default
    is_on = feature_gates.GATES[gate].is_on
    assert getattr(settings.job_policy({"featureGates": {gate: not is_on}}), field) is not default


OPTIONS = {
    "CleanupProvisioningRequestsOnEviction": settings.deletes_requests_on_eviction,
    "DeferRayServiceFinalizationForRedisCleanup": lambda c: settings.job_policy(c).defers_finalization,
    "ElasticJobsViaWorkloadSlices": lambda c: settings.job_policy(c).slices_workloads,
    "FinishOrphanedWorkloads": lambda c: settings.job_policy(c).finish_orphans,
    "MultiKueue": lambda c: settings.dispatch_options(c) is not None,
    "MultiKueueAdaptersForCustomJobs": lambda c: len(settings.dispatch_options(EXTERNAL | c).adapters) > 1,
    "MultiKueueIncrementalDispatcherConfig": lambda c: settings.dispatch_options(STEPS | c).policy.step_size == 7,
    "MultiKueueIncrementalDispatcherRespectConfigOrder": (
        lambda c: settings.dispatch_options(c).policy.nominates_in_order
    ),
    "MultiKueueRemoteSpecSync": lambda c: settings.dispatch_options(c).policy.syncs_spec,
    "ShortWorkloadNames": lambda c: settings.max_name_length(c) == 63,
    "TASFailedNodeReplacement": lambda c: settings.replacement_policy(c).enabled,
    "TASReplaceNodeDueToNotReadyOverFixedTime": lambda c: settings.replacement_policy(c).after_fixed_time,
    "TASReplaceNodeOnNodeTaints": lambda c: settings.replacement_policy(c).on_taints,
    "TASReplaceNodeOnPodTermination": lambda c: settings.replacement_policy(c).on_pod_termination,
    "UnadmittedWorkloadsExplicitStatus": lambda c: settings.unadmitted_status(c).is_explicit,
    "UnadmittedWorkloadsObservability": lambda c: settings.unadmitted_status(c).is_granular,
}


@pytest.mark.parametrize("gate", OPTIONS)
@pytest.mark.parametrize("is_on", [True, False])
def test_a_gate_switches_an_option_of_the_controllers(gate, is_on):
    assert OPTIONS[gate]({"featureGates": {gate: is_on}}) is is_on


READERS = (
    policy.device_rules, policy.encodes_by_hostname_prefix, policy.engine_policy, policy.topology_policy,
    policy.workload_options, settings.admits_concurrently, settings.cache_sync_seconds,
    settings.deletes_requests_on_eviction, settings.dispatch_options, settings.job_policy,
    settings.lifecycle_policy, settings.max_name_length, settings.recovers_from_failures,
    settings.replacement_policy, settings.unadmitted_status, settings.workers_by_kind,
)  # fmt: skip
ALIKE = [name for name, gate in feature_gates.GATES.items() if gate.is_alike]


@pytest.mark.parametrize("gate", ALIKE)
def test_a_gate_of_the_inside_of_kueue_changes_nothing_here(gate):
    on, off = ({"featureGates": {gate: is_on}} for is_on in (True, False))
    assert [read(on) for read in READERS] == [read(off) for read in READERS]


def test_other_gates_change_what_is_read():
    """The readers that the test above compares do show the effect of a gate."""
    on, off = ({"featureGates": {"PartialAdmission": is_on}} for is_on in (True, False))
    assert [read(on) for read in READERS] != [read(off) for read in READERS]


HOUR_NS = 3600 * 10**9
PODS_READY = {
    "timeout": "1h",
    "recoveryTimeout": "2h",
    "requeuingStrategy": {"backoffBaseSeconds": 1, "backoffMaxSeconds": 2, "backoffLimitCount": 3},
}


def test_readiness_of_pods_has_the_times_of_the_configuration():
    pods_ready = settings.lifecycle_policy({"waitForPodsReady": PODS_READY}).pods_ready
    assert (pods_ready.timeout_ns, pods_ready.recovery_timeout_ns) == (HOUR_NS, 2 * HOUR_NS)
    backoff = (pods_ready.backoff_base_seconds, pods_ready.backoff_max_seconds, pods_ready.backoff_limit_count)
    assert backoff == (1, 2, 3)


def test_workloads_are_retained_as_the_configuration_says():
    retention = {"afterFinished": "1h", "afterDeactivatedByKueue": "2h"}
    policy = settings.lifecycle_policy({"objectRetentionPolicies": {"workloads": retention}})
    assert (policy.retain_finished_ns, policy.retain_deactivated_ns) == (HOUR_NS, 2 * HOUR_NS)
