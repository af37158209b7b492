"""Usage is never below what runs, whatever a user does with objects of their own."""

import os

import pytest
from tests.simulation.hostile_user import story

from pykueue.api import objects, resource_lists
from pykueue.simulate.campaign import Campaign
from pykueue.simulate.monitor import holds_quota

GIVEN = os.environ.get("PYKUEUE_SIMULATION_SEED")
SEEDS = [int(GIVEN)] if GIVEN else [*range(1, 5)]


def stored(system, kind):
    for group, plural in system.store.collections():
        for item in system.store.select(group, plural):
            obj = item.shared_or_decoded()
            if obj["kind"] == kind:
                yield obj


def reserved(system):
    """The cpu of all admissions, in thousandths."""
    return sum(
        resource_lists.amount("cpu", amount)
        for workload in stored(system, "Workload")
        if holds_quota(workload)
        for assignment in workload["status"]["admission"]["podSetAssignments"]
        for name, amount in resource_lists.parse(assignment.get("resourceUsage")).items()
        if name == "cpu"
    )


def requested(pod):
    return resource_lists.amount("cpu", resource_lists.pod_requests(pod["spec"]).get("cpu"))


def running(system):
    return [process.pod for process in system.machine.running() if objects.namespace(process.pod) == "default"]


async def check(campaign, episodes):
    system, users = campaign.system, set()
    async for user in story(campaign, episodes):
        users.add(user)
        used = sum(requested(pod) for pod in running(system))
        names = [f"{objects.name(pod)} {requested(pod)}" for pod in running(system)]
        if used > reserved(system):
            system.monitor.report(f"{used} run, {reserved(system)} are reserved: {names}")
        gated = [pod for pod in running(system) if pod["spec"].get("schedulingGates")]
        if gated:
            system.monitor.report(f"gated pods run: {[objects.name(pod) for pod in gated]}")
    assert all(user.refused and user.accepted for user in users)


@pytest.mark.parametrize("seed", SEEDS)
def test_usage_is_never_below_what_runs(seed):
    Campaign(seed).run(lambda campaign: check(campaign, 4))


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 140))
def test_usage_is_never_below_what_runs_for_long(seed):
    Campaign(seed).run(lambda campaign: check(campaign, 25))
