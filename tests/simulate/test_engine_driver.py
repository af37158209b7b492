"""The discrete-event driver: what happens to jobs, and when."""

import random

import pytest
from tests.simulate.worlds import GPU, KUEUE, Jobs, Story, cluster_queue, flavor, local_queue, workload

from pykueue.api.times import SECOND_NS
from pykueue.engine import decisions, events, invariants
from pykueue.simulate.engine_driver.simulation import Simulation, SimulationOptions
from pykueue.simulate.engine_driver.world import World

PREEMPTING = {"preemption": {"withinClusterQueue": "LowerPriority"}}


def one_queue(gpus=4, configuration=None, **spec):
    queues = [flavor(), cluster_queue("team-a", gpus, **spec), local_queue("team-a")]
    return World.from_objects(queues, configuration)


def played(world, jobs, **options):
    story = Story()
    simulation = Simulation(world, jobs.table, options=SimulationOptions(**options), observer=story)
    simulation.run()
    invariants.check(simulation.engine)
    return story.lines


def test_a_job_waits_until_the_quota_is_free():
    world = one_queue(gpus=4)
    jobs = Jobs(world)
    jobs.add("first", 3, run=100)
    jobs.add("second", 2, at=10, run=5)
    assert played(world, jobs) == [
        "0s first queued",
        "0s first reserved",
        "0s first started",
        "10s second queued",
        "100s first finished",
        "100s second reserved",
        "100s second started",
        "105s second finished",
    ]


def test_a_preempted_job_starts_over_after_the_eviction_delay():
    world = one_queue(gpus=4, **PREEMPTING)
    jobs = Jobs(world)
    jobs.add("low", 4, run=100)
    jobs.add("high", 4, at=30, run=10, priority=5)
    lines = played(world, jobs, eviction_delay_ns=5 * SECOND_NS)
    assert lines[4:] == [
        "30s low evicted Preempted by team-a/high lost 30s",
        "35s low released",
        "35s low queued",
        "35s high reserved",
        "35s high started",
        "45s high finished",
        "45s low reserved",
        "45s low started",
        "145s low finished",
    ]


@pytest.mark.parametrize(("collects_changes", "seconds"), [(True, 40), (False, 39)])
def test_after_a_preemption_a_job_waits_for_more_changes(collects_changes, seconds):
    world = one_queue(gpus=4, **PREEMPTING)
    jobs = Jobs(world)
    jobs.add("low", 4, run=100)
    jobs.add("high", 4, at=30, run=8, priority=5)
    lines = played(world, jobs, collects_changes=collects_changes)
    assert "39s high finished" in lines
    assert f"{seconds}s low reserved" in lines


def test_changes_that_were_collected_during_a_cycle_wait_for_its_end():
    world = one_queue(gpus=4, **PREEMPTING)
    jobs = Jobs(world)
    jobs.add("low", 4, run=100)
    jobs.add("high", 4, at=30, run=1, priority=5)
    lines = played(world, jobs, cycle_ns=3 * SECOND_NS)
    assert lines[-1].endswith("low finished")


def test_a_job_with_checkpoints_loses_only_the_work_since_the_last_one():
    world = one_queue(gpus=4, **PREEMPTING)
    jobs = Jobs(world)
    jobs.add("low", 4, run=100)
    jobs.add("high", 4, at=35, run=10, priority=5)
    lines = played(world, jobs, checkpoint_ns=20 * SECOND_NS)
    assert "35s low evicted Preempted by team-a/high lost 15s" in lines
    assert lines[-1] == "126s low finished"


def test_a_job_like_an_adopted_one_arrives_without_its_quota():
    """The two share queue, priority and requests, but not the admission."""
    world = one_queue(gpus=4)
    first = Simulation(world)
    first.submit(world.workload_value(workload("team-a", 4)), run_ns=None, name="running")
    first.run()
    second = Simulation(World.forked(world.engine, now_ns=0))
    second.adopt(first.runs["team-a/running"].workload, run_ns=10 * SECOND_NS)
    second.submit(world.workload_value(workload("team-a", 4)), run_ns=SECOND_NS, name="waiting")
    assert second.run_until_started("team-a/waiting") == 10 * SECOND_NS


def test_an_admission_check_delays_the_start():
    check = {
        "apiVersion": KUEUE,
        "kind": "AdmissionCheck",
        "metadata": {"name": "nodes"},
        "spec": {"controllerName": "example.com/nodes"},
    }
    strategy = {"admissionChecks": [{"name": "nodes"}]}
    queue = cluster_queue("team-a", 4, admissionChecksStrategy=strategy)
    world = World.from_objects([flavor(), check, queue, local_queue("team-a")])
    jobs = Jobs(world)
    jobs.add("train", 1, run=10)
    lines = played(world, jobs, check_delay_ns=60 * SECOND_NS)
    assert lines == ["0s train queued", "0s train reserved", "60s train started", "70s train finished"]


def test_pods_that_are_not_ready_in_time_requeue_with_a_growing_backoff_until_the_limit():
    section = {"timeout": "10s", "requeuingStrategy": {"backoffBaseSeconds": 30, "backoffLimitCount": 2}}
    world = one_queue(configuration={"waitForPodsReady": section})
    jobs = Jobs(world)
    jobs.add("slow", 1, startup=20)
    lines = [line for line in played(world, jobs) if "started" in line or "deactivated" in line]
    assert lines == ["0s slow started", "40s slow started", "110s slow started", "120s slow deactivated"]


def test_a_job_that_is_evicted_too_often_ends():
    world = one_queue(gpus=1)
    jobs = Jobs(world)
    jobs.add("victim", 1, run=1000)
    simulation = Simulation(world, jobs.table, options=SimulationOptions(most_evictions=3))
    simulation.run(until_ns=0)
    for _ in range(3):
        simulation.evict(simulation.runs["team-a/victim"], "Preempted")
        simulation.run(until_ns=simulation.now_ns + 2 * SECOND_NS)
    assert simulation.ended_count == 1


def test_block_admission_starts_one_job_after_the_other():
    section = {"timeout": "10m", "blockAdmission": True}
    world = one_queue(configuration={"waitForPodsReady": section})
    jobs = Jobs(world)
    for name in ("first", "second"):
        jobs.add(name, 1, startup=20)
    lines = [line for line in played(world, jobs) if "started" in line]
    assert lines == ["0s first started", "20s second started"]


def test_jobs_of_one_name_run_side_by_side():
    world = one_queue()
    jobs = Jobs(world)
    for _ in range(2):
        jobs.add("train", 1, run=10)
    assert [line for line in played(world, jobs) if "finished" in line] == [
        "10s train finished",
        "10s train-1 finished",
    ]


def test_a_time_limit_stops_a_job():
    world = one_queue()
    jobs = Jobs(world)
    jobs.add("endless", 1, run=None, limit=50)
    assert played(world, jobs)[-1] == "50s endless stopped"


def topology_world(hosts=2):
    host = "kubernetes.io/hostname"
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number}", "labels": {host: f"node-{number}"}},
            "status": {
                "allocatable": {GPU: "2", "pods": "10"},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            },
        }
        for number in range(hosts)
    ]
    topology = {
        "apiVersion": KUEUE,
        "kind": "Topology",
        "metadata": {"name": "hosts"},
        "spec": {"levels": [{"nodeLabel": host}]},
    }
    queues = [flavor(topologyName="hosts", nodeLabels={}), cluster_queue("team-a", 8), local_queue("team-a")]
    return World.from_objects([*nodes, topology, *queues])


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        (1, ["0s train started", "60s train finished"]),
        (2, ["0s train started", "11s train evicted NodeFailures by None lost 11s", "20s train started"]),
    ],
    ids=["replaced", "evicted"],
)
def test_a_job_on_a_lost_node_moves_or_starts_again_elsewhere(gpus, expected):
    world = topology_world()
    jobs = Jobs(world)
    request = {"topologyRequest": {"required": "kubernetes.io/hostname"}}
    jobs.add("train", gpus, run=60, **request)
    jobs.add("other", 1, run=20, **request)
    story = Story()
    simulation = Simulation(world, jobs.table, observer=story)
    simulation.run(until_ns=10 * SECOND_NS)
    assignment = simulation.runs["team-a/train"].workload.admission.pod_sets[0].topology
    simulation.lose_node(assignment.domains[0].values[-1])
    simulation.run()
    steps = [line for line in story.lines if "train" in line and "queued" not in line]
    assert [line for line in steps if "reserved" not in line and "released" not in line][: len(expected)] == expected


def test_a_job_that_never_fits_stays_pending_with_its_reason():
    world = one_queue(gpus=1)
    jobs = Jobs(world)
    jobs.add("huge", 2)
    simulation = Simulation(world, jobs.table)
    simulation.run()
    assert simulation.runs["team-a/huge"].pending is not None
    assert simulation.engine.view.explain("team-a/huge") is not None


def test_the_start_of_one_job_is_found_without_running_to_the_end():
    world = one_queue(gpus=1)
    jobs = Jobs(world)
    for number in range(10):
        jobs.add(f"job-{number}", 1, run=10)
    simulation = Simulation(world, jobs.table)
    assert simulation.run_until_started("team-a/job-4") == 40 * SECOND_NS
    assert simulation.now_ns == 40 * SECOND_NS


def test_the_start_of_a_job_that_starts_at_once_is_found():
    """Its end is the next event, after which it would be gone."""
    world = one_queue(gpus=1)
    simulation = Simulation(world)
    prototype = world.workload_value(workload("team-a", 1))
    world.engine.handle(events.WorkloadArrived(at_ns=0, workload=prototype))
    simulation.adopt(prototype, run_ns=SECOND_NS)
    assert simulation.run_until_started(prototype.key) == 0


def test_a_live_state_is_taken_over_with_its_remaining_run_times():
    world = one_queue(gpus=1)
    jobs = Jobs(world)
    jobs.add("running", 1, run=100)
    jobs.add("waiting", 1, run=100)
    live = Simulation(world, jobs.table)
    live.run(until_ns=30 * SECOND_NS)

    simulation = Simulation(World.forked(live.engine, now_ns=live.now_ns))
    for job in live.runs.values():
        simulation.adopt(job.workload, run_ns=70 * SECOND_NS)
    assert simulation.run_until_started("team-a/waiting") == 100 * SECOND_NS


def test_a_job_may_be_submitted_and_a_queue_changed_while_the_simulation_runs():
    world = one_queue(gpus=1)
    simulation = Simulation(world)
    simulation.submit(world.workload_value(workload("team-a", 2)), run_ns=SECOND_NS, name="late", at_ns=5 * SECOND_NS)
    simulation.at(9 * SECOND_NS, lambda: world.put(cluster_queue("team-a", 2)))
    assert simulation.run_until_started("team-a/late") == 9 * SECOND_NS


def random_run(seed):
    """The decisions of a random load on two queues that borrow from and preempt each other."""
    draw = random.Random(seed)
    preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    queues = [cluster_queue(name, 6, cohortName="all", preemption=preemption) for name in ("team-a", "team-b")]
    world = World.from_objects([flavor(), *queues, local_queue("team-a"), local_queue("team-b")])
    jobs = Jobs(world)
    for number in range(150):
        jobs.add(
            f"job-{number}",
            draw.randint(1, 8),
            at=draw.randint(0, 400),
            run=draw.randint(1, 60),
            priority=draw.choice((0, 0, 10)),
            namespace=draw.choice(("team-a", "team-b")),
        )
    decided: list[tuple[int, decisions.Decision]] = []
    simulation = Simulation(world, jobs.table, on_decision=lambda at_ns, decision: decided.append((at_ns, decision)))
    simulation.run()
    invariants.check(simulation.engine)
    assert simulation.ended_count == 150
    return repr(decided)


@pytest.mark.parametrize("seed", range(5))
def test_the_same_jobs_give_the_same_run(seed):
    assert random_run(seed) == random_run(seed)
