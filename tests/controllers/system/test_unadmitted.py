"""The status of Workloads that are not admitted, with the gates that make it finer."""

import pytest
from tests.controllers.system.cluster import CONFIGURATION, PYTORCH_JOBS, pytorch_job, running_cluster, status_of

from pykueue.api import conditions

GATES = {"UnadmittedWorkloadsObservability": True, "UnadmittedWorkloadsExplicitStatus": True}


@pytest.fixture
async def cluster():
    async with running_cluster({**CONFIGURATION, "featureGates": GATES}) as running:
        yield running


async def causes(cluster, name):
    """Reason of QuotaReserved, and reason of Admitted, if both are False."""
    workload = await cluster.workload_of(name, "PyTorchJob")
    if workload is None or (status_of(workload, "QuotaReserved"), status_of(workload, "Admitted")) != (
        "False",
        "False",
    ):
        return None
    return tuple(conditions.find(workload, name)["reason"] for name in ("QuotaReserved", "Admitted"))


async def has_causes(cluster, name, *expected):
    return await causes(cluster, name) == expected


async def test_admitted_is_false_with_the_reason_of_the_scheduler(cluster):
    await cluster.make_queue(cpu="2")
    await cluster.create(PYTORCH_JOBS, pytorch_job("big", cpu="3"), "default")
    await cluster.until(has_causes, cluster, "big", "ExceedsMaxQuota", "NoReservation")


async def test_a_missing_queue_is_a_misconfiguration(cluster):
    await cluster.create(PYTORCH_JOBS, pytorch_job("lost", queue="none"), "default")
    await cluster.until(has_causes, cluster, "lost", "Misconfigured", "NoReservation")


async def test_a_workload_that_is_admitted_later_has_no_trace_of_it(cluster):
    await cluster.create(PYTORCH_JOBS, pytorch_job("early"), "default")
    await cluster.until(has_causes, cluster, "early", "Misconfigured", "NoReservation")
    await cluster.make_queue()
    await cluster.runs("early")
    workload = await cluster.workload_of("early", "PyTorchJob")
    assert conditions.find(workload, "Admitted")["reason"] == "Admitted"


async def test_equivalent_workloads_that_are_not_tried_have_a_reason(cluster):
    await cluster.make_queue(cpu="2")
    for name in ("one", "two", "three"):
        await cluster.create(PYTORCH_JOBS, pytorch_job(name, cpu="3"), "default")
    for name in ("one", "two", "three"):
        await cluster.until(has_causes, cluster, name, "ExceedsMaxQuota", "NoReservation")
