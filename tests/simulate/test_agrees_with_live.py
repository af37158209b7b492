"""The simulation decides as the live system and as Kueue: recorded scenarios, played by the driver.

A scenario has queues, Workloads and every decision that Kueue made about them, cycle by cycle. The
driver gets the same objects. Its admissions (flavors, counts, borrowing) and preemptions must be
the recorded ones. What the scheduler of the live system decides about these scenarios is tested in
tests/conformance.
"""

import itertools
from pathlib import Path

import pytest

from pykueue.api import times
from pykueue.api.times import SECOND_NS
from pykueue.conformance import corpus
from pykueue.conformance.cluster import scenario_configuration
from pykueue.engine import decisions
from pykueue.simulate.engine_driver.simulation import Simulation, SimulationOptions
from pykueue.simulate.engine_driver.world import World
from pykueue.translate import outcomes

RECORDINGS = Path(__file__).parents[1] / "conformance" / "decisions"
FILES = ("1-single-cq", "2-flat-cohort", "3-hierarchical", "4-fair-sharing", "5-multi-podset", "7-partial-admission")
OF_EACH_FILE = 10
ALSO = ("5-multi-podset/0154",)
"""The scan of a head's flavors goes on with equal decisions, and a job behind it fits."""
AS_RECORDED = SimulationOptions(eviction_delay_ns=1, cycle_ns=SECOND_NS)
"""The recorder ran a cycle a second, and evicted workloads stopped before the next one."""
KINDS = (
    "namespaces", "topologies", "nodes", "resourceFlavors", "admissionChecks", "cohorts", "clusterQueues", "localQueues",
    "otherObjects", "workloads",
)  # fmt: skip


def scenarios():
    """The first scenarios of each class in which nothing happens but decisions."""
    for name in FILES:
        cases = corpus.cases(RECORDINGS / f"{name}.jsonl.gz")
        quiet = (case for case in cases if not case["scenario"].get("timeline") and case["expected"]["converged"])
        yield from itertools.islice(quiet, OF_EACH_FILE)
        yield from (case for case in quiet if case["id"] in ALSO)


CASES = list(scenarios())


def flavors_of(pod_sets):
    return str([(sorted((pods.get("flavors") or {}).items()), pods["count"]) for pods in pod_sets])


def recorded(case):
    admissions, preemptions = [], []
    for cycle in case["expected"]["cycles"]:
        admissions += sorted(
            (entry["workload"], entry["borrows"], flavors_of(entry["podSets"])) for entry in cycle["admissions"]
        )
        preemptions += [(entry["preemptor"], entry["workload"], entry["reason"]) for entry in cycle["preemptions"]]
    return admissions, preemptions


def world_of(case):
    scenario = case["scenario"]
    items = [obj for kind in KINDS for obj in scenario.get(kind) or ()]
    configuration = scenario_configuration(scenario.get("config") or {})
    return World.from_objects(items, configuration, now_ns=times.to_ns(scenario["now"]))


def simulated(case):
    world = world_of(case)
    admissions: list = []
    preemptions: list = []

    def decided(decision):
        match decision:
            case decisions.Admit():
                pod_sets = outcomes.admission(decision.admission)["podSetAssignments"]
                admissions.append((decision.workload, decision.borrowing, flavors_of(pod_sets)))
            case decisions.Preempt():
                preemptions.extend(
                    (decision.workload, target.workload, target.reason.value)
                    for target in decision.targets
                    if not target.already_evicted
                )

    simulation = Simulation(world, options=AS_RECORDED, on_decision=lambda _at, decision: decided(decision))
    for key in sorted(world.engine.view.workload_keys()):
        workload = world.engine.view.workload(key)
        assert workload is not None
        simulation.adopt(workload, run_ns=None)
    simulation.run(until_ns=simulation.now_ns + 600 * SECOND_NS)
    return admissions, preemptions


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_a_recorded_scenario(case):
    expected_admissions, expected_preemptions = recorded(case)
    admissions, preemptions = simulated(case)
    assert sorted(admissions) == sorted(expected_admissions)
    assert sorted(preemptions) == sorted(expected_preemptions)


def test_there_are_enough_scenarios():
    assert len(CASES) >= 50
