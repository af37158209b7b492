"""What the controllers show of themselves: pending workloads in order, metrics by Kueue's names."""

from tests.controllers.system.cluster import PYTORCH_JOBS, priority_class, pytorch_job

from pykueue.controllers import kinds


async def with_three_waiting(cluster):
    await cluster.make_queue(cpu="1")
    await cluster.create(kinds.WORKLOAD_PRIORITY_CLASS, priority_class("high", 9))
    await cluster.create(PYTORCH_JOBS, pytorch_job("runs"), "default")
    await cluster.runs("runs")
    for name, priority in (("first", ""), ("second", ""), ("urgent", "high")):
        await cluster.create(PYTORCH_JOBS, pytorch_job(name, priority=priority, cpu="1"), "default")
        await cluster.until(cluster.workload_of, name, "PyTorchJob")

    async def all_wait():
        pending = cluster.controllers.scheduler.engine.world.cluster_queues["cq"].pending
        return len(pending) == 3 and not pending.active_count

    await cluster.until(all_wait)


async def test_metrics_have_kueues_names(cluster):
    await with_three_waiting(cluster)
    metrics = cluster.controllers.metrics
    metrics.look()
    text = metrics.text().decode()
    assert 'kueue_admitted_workloads_total{cluster_queue="cq",priority_class="",replica_role="standalone"} 1.0' in text
    assert 'kueue_admitted_active_workloads{cluster_queue="cq",replica_role="standalone"} 1.0' in text
    assert 'kueue_cluster_queue_status{cluster_queue="cq",replica_role="standalone",status="active"} 1.0' in text
    assert 'kueue_pending_workloads{cluster_queue="cq",replica_role="standalone",status="inadmissible"} 3.0' in text
    assert 'kueue_local_queue_admitted_workloads_total{name="cq",namespace="default",priority_class=""' in text
    assert 'kueue_local_queue_pending_workloads{name="cq",namespace="default",replica_role="standalone"' in text
    assert (
        'kueue_cluster_queue_info{cluster_queue="cq",parent_cohort="",replica_role="standalone",root_cohort=""}' in text
    )
