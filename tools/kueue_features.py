"""The features of Kueue v0.19.2: state in pykueue, and a test of each.

`tools/compatibility.py` writes them into docs/compatibility.md; `tests/tidy` checks that the tests
exist. A row whose feature is not there says so in `state` and has no test.
"""

from typing import NamedTuple


class Feature(NamedTuple):
    name: str
    stage: str
    test: str
    """Below `tests`, as `file::function`; "" if the feature is not there."""
    state: str = "works"


FEATURES = (
    Feature(
        "ClusterQueue", "beta", "engine/test_queueing.py::test_a_queue_without_its_flavor_admits_nothing_until_it_comes"
    ),
    Feature("LocalQueue", "beta", "translate/test_queue_report.py::test_a_local_queue_does_not_borrow"),
    Feature("ResourceFlavor", "beta", "engine/test_flavors.py::test_borrowing_may_try_the_next_flavor_first"),
    Feature("Workload", "beta", "controllers/workloads/test_decide.py::test_a_deactivated_workload_says_so"),
    Feature(
        "WorkloadPriorityClass", "beta", "cli/test_submit.py::test_a_priority_class_that_does_not_exist_is_refused"
    ),
    Feature("Cohort, hierarchical", "GA", "engine/test_quota.py::test_cohorts_in_a_circle_are_cut_off_and_mended"),
    Feature("AdmissionCheck", "beta", "controllers/workloads/test_decide.py::test_a_rejected_check_deactivates"),
    Feature(
        "ProvisioningRequest check",
        "beta",
        "controllers/system/test_provisioning.py::test_a_job_starts_on_provisioned_capacity",
    ),
    Feature("MultiKueue", "beta", "multikueue/test_jobs.py::test_a_job_runs_on_one_worker_and_its_status_comes_back"),
    Feature("MultiKueue: ClusterProfile", "alpha", "multikueue/test_clusters.py::test_a_profile_needs_its_gate"),
    Feature(
        "MultiKueue: dispatchers",
        "beta",
        "multikueue/test_dispatching.py::test_the_incremental_dispatcher_nominates_a_few_more_every_five_minutes",
    ),
    Feature(
        "MultiKueue: custom kinds",
        "beta",
        "multikueue/test_kinds.py::test_a_kind_of_the_configuration_is_copied_without_managed_by",
    ),
    Feature(
        "MultiKueue: orchestrated preemption",
        "alpha",
        "multikueue/test_dispatching.py::test_one_worker_after_another_may_preempt_with_the_gate",
    ),
    Feature(
        "MultiKueue: quota automation",
        "alpha",
        "multikueue/test_elastic.py::test_the_quota_of_the_manager_is_the_sum_of_its_workers_with_the_gate",
    ),
    Feature("Resource groups and flavors", "beta", "engine/test_flavors.py::test_undeclared_resource_is_refused"),
    Feature("Flavor fungibility", "beta", "engine/test_flavors.py::test_scan_goes_on_where_it_stopped"),
    Feature("Borrowing and lending limits", "beta", "engine/test_quota.py::test_lending_limit_keeps_the_rest_private"),
    Feature("StrictFIFO and BestEffortFIFO", "beta", "engine/test_queueing.py::test_strict_fifo_head_blocks_its_queue"),
    Feature(
        "Preemption, with gates",
        "beta",
        "engine/test_preemption.py::test_closed_preemption_gate_holds_back_preemption_only",
    ),
    Feature("Fair sharing", "beta", "engine/test_preemption.py::test_fair_sharing_takes_from_the_greater_share"),
    Feature(
        "Admission fair sharing", "beta", "engine/test_preemption.py::test_admission_fair_sharing_serves_who_used_less"
    ),
    Feature("Partial admission", "beta", "engine/test_flavors.py::test_partial_admission_takes_as_many_pods_as_fit"),
    Feature("Reclaimable pods", "beta", "translate/test_requests.py::test_reclaimable_pods_are_not_counted"),
    Feature(
        "WaitForPodsReady",
        "beta",
        "controllers/workloads/test_decide.py::test_pods_that_are_not_ready_in_time_evict_with_backoff",
    ),
    Feature(
        "stopPolicy", "beta", "controllers/workloads/test_decide.py::test_draining_a_queue_evicts_what_is_admitted"
    ),
    Feature("Deactivation", "beta", "cli/test_queue_commands.py::test_a_workload_is_stopped_and_resumed"),
    Feature(
        "Maximum execution time", "beta", "controllers/workloads/test_decide.py::test_execution_time_counts_former_runs"
    ),
    Feature(
        "Object retention",
        "GA",
        "controllers/workloads/test_decide.py::test_finished_workloads_are_deleted_after_their_retention",
    ),
    Feature(
        "Admission gates by annotation",
        "beta",
        "controllers/workloads/test_decide.py::test_a_gate_releases_quota_until_it_is_cleared",
    ),
    Feature("Priority boost", "alpha", "app/test_side_controllers.py::test_the_booster_lowers_an_admitted_workload"),
    Feature(
        "Default WorkloadPriorityClass",
        "alpha",
        "install/test_suspension.py::test_a_gate_is_the_same_to_policies_and_rules",
    ),
    Feature("Default LocalQueue", "GA", "api/rules/test_jobs.py::test_default_local_queue_is_taken"),
    Feature(
        "manageJobsWithoutQueueName", "beta", "api/rules/test_jobs.py::test_every_job_is_suspended_when_all_are_managed"
    ),
    Feature(
        "Prebuilt workloads", "beta", "controllers/system/test_pods.py::test_a_single_pod_runs_on_its_prebuilt_workload"
    ),
    Feature("Elastic jobs (workload slices)", "beta", "engine/test_slices.py::test_only_the_difference_is_needed"),
    Feature(
        "Elastic jobs with topology",
        "alpha",
        "controllers/system/test_topology.py::test_the_pods_of_a_grown_elastic_job_run",
    ),
    Feature(
        "Concurrent admission",
        "alpha",
        "controllers/system/test_concurrent_admission.py::test_a_job_moves_to_a_better_flavor_when_quota_comes",
    ),
    Feature(
        "Topology aware scheduling",
        "beta",
        "engine/test_topology_placement.py::test_preferred_rack_widens_to_the_block",
    ),
    Feature("Topology: slices in layers", "beta", "engine/test_topology_placement.py::test_slices_stay_within_a_rack"),
    Feature(
        "Topology: pod set groups",
        "beta",
        "engine/test_topology_placement.py::test_leader_is_placed_beside_its_workers",
    ),
    Feature(
        "Topology: node replacement",
        "beta",
        "controllers/system/test_topology.py::test_a_lost_node_is_replaced_and_its_pod_runs_elsewhere",
    ),
    Feature(
        "Topology: balanced placement",
        "alpha",
        "engine/test_topology_placement.py::test_balanced_placement_uses_domains_evenly",
    ),
    Feature(
        "Devices: ResourceClaimTemplates",
        "beta",
        "controllers/system/test_devices.py::test_claimed_devices_are_charged",
    ),
    Feature(
        "Devices: partitions by counters",
        "beta",
        "translate/test_device_sources.py::test_a_class_may_be_charged_for_several_counters",
    ),
    Feature(
        "Devices: consumable capacity",
        "alpha",
        "translate/test_device_sources.py::test_a_claim_takes_the_capacity_that_it_requests",
    ),
    Feature("Resource transformations", "beta", "translate/test_requests.py::test_retain_is_the_default_strategy"),
    Feature(
        "quotaCheckStrategy", "beta", "engine/test_flavors.py::test_undeclared_resource_is_ignored_if_so_configured"
    ),
    Feature(
        "LimitRange and RuntimeClass", "beta", "translate/test_requests.py::test_a_runtime_class_adds_its_overhead"
    ),
    Feature(
        "Failure recovery",
        "alpha",
        "controllers/system/test_failure_recovery.py::test_a_pod_on_an_unreachable_node_is_deleted",
    ),
    Feature(
        "Statuses of unadmitted workloads",
        "beta",
        "controllers/system/test_unadmitted.py::test_admitted_is_false_with_the_reason_of_the_scheduler",
    ),
    Feature("Visibility API", "beta", "e2e/test_waiting.py::test_the_visibility_api_tells_the_place"),
    Feature("Metrics", "beta", "controllers/metrics/test_catalog.py::test_every_metric_of_kueue_is_there_and_no_other"),
    Feature("Events", "beta", "contracts/test_event_recorder.py::test_a_repeat_extends_the_series"),
    Feature("kueuectl", "beta", "cli/test_queue_commands.py::test_a_queue_is_held_and_released"),
    Feature(
        "KueueViz",
        "beta",
        "dashboard/test_browser.py::test_a_job_goes_from_pending_to_finished_without_a_reload",
        "works: the page of pykueue (docs/dashboard.md)",
    ),
    Feature("Importer", "beta", "cli/test_import.py::test_an_imported_pod_has_an_admitted_workload"),
    Feature(
        "Populator, priority booster",
        "alpha",
        "app/test_side_controllers.py::test_the_populator_creates_a_queue_in_a_new_namespace",
    ),
    Feature(
        "Helm chart and certificates",
        "beta",
        "install/test_chart.py::test_the_values_become_the_configuration_of_the_controller",
    ),
    Feature(
        "High availability", "beta", "real_cluster/test_controller.py::test_a_killed_leader_is_replaced_and_quota_holds"
    ),
    Feature(
        "Integrations of job kinds",
        "beta",
        "translate/test_job_frameworks.py::test_what_was_injected_is_taken_out_again",
    ),
)
