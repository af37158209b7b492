"""What the controllers show of themselves: metrics by Kueue's names, over a small life story."""

import re

from tests.controllers.system.cluster import (
    CONFIGURATION,
    PYTORCH_JOBS,
    kueue,
    priority_class,
    pytorch_job,
    running_cluster,
)

from pykueue.api import resources
from pykueue.controllers.metrics import catalog


class Scrape:
    """A scrape; `scrape("name", cluster_queue="cq")` is the sum of the samples whose labels
    include these.
    """

    def __init__(self, cluster):
        metrics = cluster.controllers.metrics
        metrics.refresh()
        self.text = metrics.text().decode()

    def __call__(self, metric, /, **labels):
        samples = [
            float(value)
            for text, value in re.findall(rf"^(?:kueue_)?{metric}{{(.*)}} (\S+)$", self.text, re.MULTILINE)
            if labels.items() <= dict(re.findall(r'(\w+)="([^"]*)"', text)).items()
        ]
        return sum(samples) if samples else None

    def names(self):
        return {name for name, _ in re.findall(r"^# TYPE (\S+) (\S+)$", self.text, re.MULTILINE)}


async def with_three_waiting(cluster):
    await cluster.create(resources.COHORT, kueue("Cohort", "team", parentName="company"))
    await cluster.make_queue(cpu="1", cohortName="team")
    await cluster.create(resources.WORKLOAD_PRIORITY_CLASS, priority_class("high", 9))
    await cluster.create(PYTORCH_JOBS, pytorch_job("runs"), "default")
    await cluster.runs("runs")
    for name, priority in (("first", ""), ("second", ""), ("urgent", "high")):
        await cluster.create(PYTORCH_JOBS, pytorch_job(name, priority=priority, cpu="1"), "default")
        await cluster.until(cluster.workload_of, name, "PyTorchJob")

    async def all_wait():
        pending = cluster.controllers.scheduler.engine.view.pending("cq")
        return len(pending) == 3 and all(workload.is_inadmissible for workload in pending)

    await cluster.until(all_wait)


async def test_counts_of_a_queue_follow_its_workloads(cluster):
    await with_three_waiting(cluster)
    scrape = Scrape(cluster)
    assert scrape("admitted_workloads_total", cluster_queue="cq", priority_class="") == 1
    assert scrape("admitted_active_workloads", cluster_queue="cq") == 1
    assert scrape("cluster_queue_status", cluster_queue="cq", status="active") == 1
    assert scrape("pending_workloads", cluster_queue="cq", status="inadmissible") == 3
    assert scrape("workload_creation_latency_seconds_count", job_kind="PyTorchJob") == 4
    assert scrape("local_queue_quota_reserved_wait_time_seconds_count", name="cq", namespace="default") == 1
    assert scrape("local_queue_pending_workloads", name="cq", status="inadmissible") == 3
    assert scrape("local_queue_status", name="cq", active="True") == 1


async def test_cohorts_sum_up_what_is_below_them(cluster):
    await with_three_waiting(cluster)
    scrape = Scrape(cluster)
    assert scrape("cluster_queue_info", cluster_queue="cq", parent_cohort="team", root_cohort="company") == 1
    assert scrape("cohort_info", cohort="team", parent_cohort="company", root_cohort="company") == 1
    assert scrape("cohort_subtree_quota", cohort="company", flavor="default", resource="cpu") == 1
    assert scrape("cohort_subtree_resource_reservations", cohort="company", resource="cpu") == 1
    assert scrape("cohort_subtree_admitted_workloads_total", cohort="company") == 1
    assert scrape("cohort_subtree_admitted_active_workloads", cohort="company") == 1


async def test_a_deleted_queue_leaves_no_sample(cluster):
    await with_three_waiting(cluster)
    for name in ("runs", "first", "second", "urgent"):
        await cluster.client.delete(PYTORCH_JOBS, name, "default")
    await cluster.client.delete(resources.LOCAL_QUEUE, "cq", "default")
    await cluster.client.delete(resources.CLUSTER_QUEUE, "cq")
    await cluster.client.delete(resources.COHORT, "team")

    async def nothing_is_left():
        return '"cq"' not in Scrape(cluster).text and '"team"' not in Scrape(cluster).text

    await cluster.until(nothing_is_left)


async def test_an_eviction_is_timed_and_a_finished_workload_stays_counted(cluster):
    await with_three_waiting(cluster)
    running = await cluster.workload_of("runs", "PyTorchJob")
    name = running["metadata"]["name"]
    await cluster.merge(resources.WORKLOAD, name, {"spec": {"active": False}}, namespace="default")

    async def urgent_runs_instead():
        return await cluster.is_running("urgent")

    await cluster.until(urgent_runs_instead)
    await cluster.merge(
        PYTORCH_JOBS,
        "urgent",
        {"status": {"conditions": [{"type": "Succeeded", "status": "True", "message": "done"}]}},
        namespace="default",
        subresource="status",
    )

    async def is_counted():
        scrape = Scrape(cluster)
        return scrape("finished_workloads", cluster_queue="cq") == 1

    await cluster.until(is_counted)
    scrape = Scrape(cluster)
    assert scrape("finished_workloads_total", cluster_queue="cq", priority_class="high") == 1
    assert scrape("local_queue_finished_workloads", name="cq") == 1
    assert scrape("evicted_workloads_total", cluster_queue="cq", reason="Deactivated") == 1
    assert scrape("local_queue_evicted_workloads_total", name="cq", reason="Deactivated") == 1
    assert scrape("workload_eviction_latency_seconds_count", cluster_queue="cq", reason="Deactivated") == 1


RESOURCES = CONFIGURATION | {
    "metrics": {
        "enableClusterQueueResources": True,
        "customLabels": [{"name": "team", "sourceLabelKey": "team"}],
    },
    "featureGates": {"UnadmittedWorkloadsObservability": True, "CustomMetricLabels": True},
    "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare"]},
    "admissionFairSharing": {"usageHalfLifeTime": "1m", "usageSamplingInterval": "1s"},
}


async def test_resources_are_shown_when_the_configuration_asks():
    async with running_cluster(configuration=RESOURCES) as cluster:
        await with_three_waiting(cluster)
        await cluster.merge(resources.CLUSTER_QUEUE, "cq", {"metadata": {"labels": {"team": "red"}}})

        async def is_labelled():
            return Scrape(cluster)("cluster_queue_nominal_quota", custom_team="red")

        await cluster.until(is_labelled)
        scrape = Scrape(cluster)
        quota = {"cohort": "team", "cluster_queue": "cq", "flavor": "default", "resource": "cpu"}
        assert scrape("cluster_queue_nominal_quota", **quota) == 1
        assert scrape("cluster_queue_resource_reservation", **quota) == 1
        assert scrape("cluster_queue_resource_usage", **quota) == 1
        assert scrape("cluster_queue_borrowing_limit", **quota) == float("inf")
        assert scrape("cluster_queue_resource_pending", cluster_queue="cq", resource="cpu") == 3
        assert scrape("local_queue_resource_usage", name="cq", flavor="default", resource="cpu") == 1
        assert scrape("cluster_queue_weighted_share", cluster_queue="cq", cohort="team") == 0
        assert scrape("unadmitted_workloads", cluster_queue="cq", reason="NoReservation") == 3
        others = (catalog.BUILD_INFO.name, catalog.LOOP_BLOCKED.name, catalog.AUDIT_DIFFERENCES.name)
        everything = {name.removesuffix("_total") for name in (*catalog.CATALOG, *others)}
        assert {name.removesuffix("_total") for name in scrape.names()} == everything


async def test_local_queues_are_measured_only_where_they_are_chosen():
    selector = {"matchLabels": {"a": "b"}}
    chosen = {"metrics": {"localQueueMetrics": {"enable": True, "localQueueSelector": selector}}}
    async with running_cluster(configuration=chosen) as cluster:
        await cluster.make_queue()
        scrape = Scrape(cluster)
        assert scrape("pending_workloads", cluster_queue="cq", status="active") == 0
        assert scrape("local_queue_pending_workloads", name="cq") is None


async def test_metrics_are_left_out_without_their_gate():
    gates = dict.fromkeys(("MetricForWorkloadCreationLatency", "MetricsForCohorts", "LocalQueueMetrics"), False)
    async with running_cluster(configuration=CONFIGURATION | {"featureGates": gates}) as cluster:
        await with_three_waiting(cluster)
        scrape = Scrape(cluster)
        assert scrape("pending_workloads", cluster_queue="cq", status="inadmissible") == 3
        assert scrape("workload_creation_latency_seconds_count", job_kind="PyTorchJob") is None
        assert scrape("cohort_subtree_quota", cohort="company") is None
        assert scrape("local_queue_pending_workloads", name="cq") is None


async def test_a_cohort_that_is_created_again_counts_from_zero(cluster):
    await cluster.create(resources.COHORT, kueue("Cohort", "team"))
    await cluster.make_queue(cpu="1", cohortName="team")
    await cluster.create(PYTORCH_JOBS, pytorch_job("runs"), "default")
    await cluster.runs("runs")
    assert Scrape(cluster)("cohort_subtree_admitted_workloads_total", cohort="team") == 1
    await cluster.client.delete(resources.COHORT, "team")

    async def is_removed():
        return cluster.controllers.cache.get(resources.COHORT, "team") is None

    await cluster.until(is_removed)
    await cluster.create(resources.COHORT, kueue("Cohort", "team"))
    assert Scrape(cluster)("cohort_subtree_admitted_workloads_total", cohort="team") is None


async def test_a_cohort_whose_last_queue_left_and_came_back_counts_from_zero(cluster):
    await cluster.make_queue(cpu="1", cohortName="team")
    await cluster.create(PYTORCH_JOBS, pytorch_job("runs"), "default")
    await cluster.runs("runs")
    assert Scrape(cluster)("cohort_subtree_admitted_workloads_total", cohort="team") == 1
    for cohort in ("other", "team"):
        queue = await cluster.client.patch(resources.CLUSTER_QUEUE, "cq", "", {"spec": {"cohortName": cohort}})

    async def has_come_back():
        cached = cluster.controllers.cache.get(resources.CLUSTER_QUEUE, "cq")
        return cached["metadata"]["generation"] == queue["metadata"]["generation"]

    await cluster.until(has_come_back)
    assert Scrape(cluster)("cohort_subtree_admitted_workloads_total", cohort="team") is None
