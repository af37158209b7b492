"""The runner gives the loop back during a cycle, and delays events until the cycle ends."""

import asyncio
import itertools

import pytest
from tests.engine import builders as b
from tests.simulate.test_agrees_with_live import CASES, world_of

from pykueue.controllers.scheduler import cycle_runner
from pykueue.controllers.scheduler.cycle_runner import CycleRunner
from pykueue.engine import decisions, events, values


class WorkClock:
    """Every look at the clock takes one millisecond, as if there were work in between."""

    def __init__(self):
        self.now = 0
        self.slept = []

    def now_ns(self):
        self.now += 1_000_000
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)


class Runner:
    """A runner for an engine with many queues, and what it did in order."""

    def __init__(self, queues=40):
        self.cluster = b.Cluster(*(b.cluster_queue(f"queue{number}", nominal=1) for number in range(queues)))
        self.engine = self.cluster.engine
        self.log = []
        self.clock = WorkClock()
        self.runner = CycleRunner(
            self.engine,
            self.clock,
            deliver=self.deliver,
            apply=lambda decision: self.log.append(("apply", decision)),
            measure=lambda decided, seconds: self.log.append(("cycle", len(decided), seconds)),
            notify=lambda name: self.log.append(("notify", name)),
            paused=lambda pause_ns: None,
        )
        self.cluster.add(*(b.workload(f"w{number}", f"queue{number}") for number in range(queues)))

    def deliver(self, event):
        self.log.append(("deliver", event))
        self.engine.handle(event)

    def kinds(self):
        return [entry[0] for entry in self.log]


async def test_other_tasks_run_during_a_cycle():
    runner, turns = Runner(), []

    async def other():
        while True:
            turns.append(runner.clock.now)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await runner.runner.run()
    task.cancel()
    pauses = [after - before for before, after in itertools.pairwise(turns)]
    assert len(turns) > 10
    assert max(pauses) <= cycle_runner.TURN_NS + 4_000_000


async def test_events_wait_for_the_end_of_the_cycle_and_queues_are_notified():
    runner = Runner()
    late = events.WorkloadArrived(workload=b.workload("late", "queue3", created=5))

    async def arrive():
        runner.runner.handle(late)

    task = asyncio.create_task(arrive())
    await runner.runner.run()
    await task
    kinds = runner.kinds()
    assert kinds[0] == "cycle"
    assert kinds.index("deliver") == 1 + 40
    assert ("notify", "queue3") in runner.log
    assert [queue for kind, *queue in runner.log if kind == "notify"] == [["queue3"]]


@pytest.mark.parametrize(
    ("late", "notified"),
    [
        (events.NamespaceChanged(name="another", labels={}), []),
        (events.ClusterQueueChanged(cluster_queue=b.cluster_queue("new")), ["new"]),
        (
            events.LocalQueueChanged(local_queue=values.LocalQueue(key="default/q", cluster_queue="queue7")),
            ["queue7"],
        ),
        (
            events.FlavorChanged(flavor=values.ResourceFlavor(name="another")),
            sorted(f"queue{number}" for number in range(40)),
        ),
    ],
)
async def test_a_late_event_notifies_the_queues_that_it_is_about(late, notified):
    runner = Runner()

    async def arrive():
        runner.runner.handle(late)

    task = asyncio.create_task(arrive())
    await runner.runner.run()
    await task
    assert [name for kind, name, *_ in runner.log if kind == "notify"] == notified


async def test_outside_a_cycle_events_are_delivered_at_once():
    runner = Runner()
    runner.runner.handle(events.WorkloadGone(key="default/w1"))
    assert runner.kinds() == ["deliver"]


async def test_the_decisions_are_those_of_one_undivided_cycle():
    runner, undivided = Runner(), Runner().engine.handle(events.CycleDue(at_ns=10**9))
    await runner.runner.run()
    applied = [decision for kind, decision, *_ in runner.log if kind == "apply"]
    assert [decision.workload for decision in applied if isinstance(decision, decisions.Admit)] == [
        decision.workload for decision in undivided
    ]


async def test_cycles_take_a_fifth_of_the_time():
    runner = Runner(queues=10)
    began = runner.clock.now
    await runner.runner.run()
    ended = runner.clock.now
    await runner.runner.pause()
    assert len(runner.clock.slept) > 1
    assert sum(runner.clock.slept) == pytest.approx(4 * (ended - began) / 10**9, rel=0.2)  # a look takes time, too


async def test_the_first_change_after_a_rest_is_decided_soon():
    runner = Runner()
    await runner.runner.run()
    runner.clock.now += 10**12
    await runner.runner.pause()
    assert runner.clock.slept[-1] == pytest.approx(0.005)


async def test_a_clock_that_is_set_back_ends_the_turn():
    runner = Runner()
    runner.clock.now = 10**15
    runner.runner._turn_started_ns = 2 * 10**15
    assert runner.runner._is_turn_over()


async def test_a_scan_of_flavors_that_ends_in_equal_decisions_goes_on():
    """The head is short of as much in one flavor as in the next; behind it a workload fits."""
    case = next(case for case in CASES if case["id"] == "5-multi-podset/0154")
    world, admitted = world_of(case), []
    runner = CycleRunner(
        world.engine,
        world.clock,
        deliver=world.engine.handle,
        apply=lambda decision: admitted.extend([decision.workload] if isinstance(decision, decisions.Admit) else []),
        measure=lambda _decided, _seconds: None,
        notify=lambda _name: None,
        paused=lambda _pause_ns: None,
    )
    await runner.run()
    assert admitted == ["ns/wl01", "ns/wl03"]
