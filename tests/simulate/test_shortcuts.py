"""What the cycle leaves out changes no decision.

Random worlds are played twice: as they are, and with every entry processed in order and charged.
"""

import random

import pytest
from tests.simulate.worlds import GPU, KUEUE, Jobs, cluster_queue, flavor, local_queue

from pykueue.engine import decisions
from pykueue.engine.cycle import cycle, process
from pykueue.engine.reasons import NoFitReason, RequeueReason
from pykueue.simulate.engine_driver.simulation import Simulation, SimulationOptions
from pykueue.simulate.engine_driver.world import World

WITHIN = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")
RECLAIM = ("Never", "LowerPriority", "Any")


def random_world(draw):
    flavors = [f"flavor-{number}" for number in range(draw.randint(1, 2))]
    names = [f"team-{number}" for number in range(draw.randint(2, 6))]
    parents = ["left", "right"] if draw.random() < 0.5 else ["cohort"]
    objects = [flavor(name) for name in flavors]
    if len(parents) > 1:
        spec = {"parentName": "root"}
        objects += [
            {"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": name}, "spec": spec} for name in parents
        ]
    for name in names:
        quotas = []
        for one in flavors:
            quota = {"name": GPU, "nominalQuota": str(draw.randint(0, 6))}
            if draw.random() < 0.3:
                quota["borrowingLimit"] = str(draw.randint(0, 4))
            if draw.random() < 0.3:
                quota["lendingLimit"] = str(draw.randint(0, int(quota["nominalQuota"])))
            quotas.append({"name": one, "resources": [quota]})
        objects += [
            cluster_queue(
                name,
                0,
                cohortName=draw.choice(parents),
                queueingStrategy=draw.choice(["BestEffortFIFO", "StrictFIFO"]),
                resourceGroups=[{"coveredResources": [GPU], "flavors": quotas}],
                preemption={"withinClusterQueue": draw.choice(WITHIN), "reclaimWithinCohort": draw.choice(RECLAIM)},
            ),
            local_queue(name),
        ]
    configuration = {"fairSharing": {}} if draw.random() < 0.4 else {}
    return World.from_objects(objects, configuration), names


def played(seed):
    draw = random.Random(seed)
    world, names = random_world(draw)
    jobs = Jobs(world)
    at = 0
    for number in range(60):
        at += draw.randint(0, 3)
        options = {"namespace": draw.choice(names), "priority": draw.choice([0, 0, 1]), "count": draw.choice([1, 1, 2])}
        jobs.add(f"job-{number}", draw.choice([1, 1, 2, 3]), at=at, run=draw.randint(1, 30), **options)
    decided = []
    simulation = Simulation(
        world,
        jobs.table,
        options=SimulationOptions(most_evictions=10),
        on_decision=lambda at_ns, decision: decided.append((at_ns, decision)),
    )
    simulation.run()
    return decided


def hope_for_all(nominated):
    for entry in nominated:
        entry.is_hopeless = False
        entry.requeue_reason, entry.no_fit_reason = RequeueReason.GENERIC, NoFitReason.NONE
    return len(nominated)


@pytest.mark.parametrize("seed", range(12))
def test_entries_that_get_no_quota_need_no_order(seed, monkeypatch):
    quick = played(seed)
    assert any(isinstance(decision, decisions.MarkInadmissible | decisions.Requeue) for _, decision in quick)
    monkeypatch.setattr(process, "refuse_hopeless", hope_for_all)
    monkeypatch.setattr(cycle, "is_decided", lambda _entry: True)
    assert played(seed) == quick
