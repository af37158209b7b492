"""Runs the cycles of the engine in short turns of the event loop.

A cycle may take seconds when a thousand queues are busy. The runner gives the event loop back
after `TURN_NS`, so that requests are answered, watches flow, signals are heard and leases are
renewed while a cycle runs. A cycle works on the state at its start, as in Kueue: events that
arrive meanwhile wait until its decisions are applied. After `TURN_NS` of cycles there is a pause
of four times their length, so that the scheduler takes a fifth of the time at most, and decides
more changes together when there are many.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from pykueue.api.times import SECOND_NS
from pykueue.engine import decisions, engine, events, values
from pykueue.kube.clock import Clock
from pykueue.recording.ring import RingWriter

TURN_NS = 5_000_000
"""After this time the event loop gets its turn."""
SHORTEST_PAUSE_NS = 5_000_000
"""Changes within this time are decided together."""
PAUSE_FACTOR = 4
LONGEST_PAUSE_NS = SECOND_NS
"""As long as Kueue collects what may let inadmissible workloads in."""
CYCLES_REMEMBERED = 8
"""The run ends when a cycle decides what one of so many last cycles decided.

The decisions must be about the same flavors: a scan of flavors that goes on is something new.
"""


class CycleRunner:
    def __init__(
        self,
        scheduling_engine: engine.Engine,
        clock: Clock,
        *,
        deliver: Callable[[events.EngineEvent], None],
        apply: Callable[[decisions.Decision], None],
        measure: Callable[[list[decisions.Decision], float], None],
        notify: Callable[[values.ClusterQueueName], None],
        paused: Callable[[int], None],
        requeue_interval_ns: int = 0,
        recorder: RingWriter | None = None,
    ) -> None:
        """Make a runner.

        `deliver` gives the engine an event, `apply` writes a decision, `measure` gets the
        decisions of a cycle and its seconds, `notify` a cluster queue that changed late, and
        `paused` the nanoseconds of a pause. Every cycle gets `requeue_interval_ns`.
        """
        self._engine = scheduling_engine
        self._clock = clock
        self._requeue_interval_ns = requeue_interval_ns
        self._deliver = deliver
        self._apply = apply
        self._measure = measure
        self._notify = notify
        self._paused = paused
        self._recorder = recorder
        self._is_running = False
        self._waiting: deque[events.EngineEvent] = deque()
        self._turn_started_ns = 0
        self._past_turns_ns = 0
        """How long the past turns of this cycle took."""
        self._busy_since_pause_ns = 0
        self._next_cycle_ns = 0

    def handle(self, event: events.EngineEvent) -> None:
        """Deliver an event now, or at the end of the cycle that is running."""
        if self._is_running:
            self._waiting.append(event)
        else:
            self._deliver(event)

    async def pause(self) -> None:
        """Wait before the next run."""
        await self._pause(SHORTEST_PAUSE_NS)

    async def _pause(self, shortest_ns: int) -> None:
        pause_ns = min(max(self._next_cycle_ns - self._clock.now_ns(), shortest_ns), LONGEST_PAUSE_NS)
        self._busy_since_pause_ns = 0
        self._paused(pause_ns)
        await self._clock.sleep(pause_ns / SECOND_NS)

    async def run(self) -> None:
        """Run cycles until one decides nothing new."""
        recent: deque[tuple[list[decisions.Decision], Any]] = deque(maxlen=CYCLES_REMEMBERED)
        while await self._run_cycle(recent):
            if self._busy_since_pause_ns >= TURN_NS:
                await self._pause(0)
            else:
                await asyncio.sleep(0)

    async def _run_cycle(self, recent: "deque[tuple[list[decisions.Decision], Any]]") -> bool:
        """Run one cycle; whether it decided what none of the recent cycles did."""
        self._past_turns_ns = 0
        self._turn_started_ns = self._clock.now_ns()
        self._is_running = True
        decided = await self._decide()
        outcome = (decided, self._engine.view.tried_flavors(decided))
        is_new = bool(decided) and outcome not in recent
        if is_new:
            self._measure(decided, self._busy_ns() / SECOND_NS)
            recent.append(outcome)
            await self._apply_all(decided)
        await self._deliver_waiting()
        self._is_running = False
        self._busy_since_pause_ns += self._busy_ns()
        self._next_cycle_ns = self._clock.now_ns() + PAUSE_FACTOR * self._busy_since_pause_ns
        return is_new

    async def _decide(self) -> list[decisions.Decision]:
        event = events.CycleDue(at_ns=self._clock.now_ns(), requeue_interval_ns=self._requeue_interval_ns)
        steps = self._engine.cycle_in_steps(event, self._is_turn_over)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                decided: list[decisions.Decision] = stop.value
                if self._recorder is not None:
                    self._recorder.cycle(event, decided)
                return decided
            await self._end_turn()

    async def _apply_all(self, decided: list[decisions.Decision]) -> None:
        for decision in decided:
            self._apply(decision)
            if self._is_turn_over():
                await self._end_turn()

    async def _deliver_waiting(self) -> None:
        changed: dict[values.ClusterQueueName, None] = {}
        while self._waiting:
            event = self._waiting.popleft()
            changed.update(dict.fromkeys(self._queues_of(event)))
            self._deliver(event)
            changed.update(dict.fromkeys(self._queues_of(event)))
            if self._is_turn_over():
                await self._end_turn()
        for name in changed:
            self._notify(name)

    def _queues_of(self, event: events.EngineEvent) -> list[values.ClusterQueueName]:
        """The cluster queues whose status an event may change."""
        view = self._engine.view
        match event:
            case events.WorkloadArrived() | events.WorkloadChanged():
                name = view.cluster_queue_of(event.workload.key)
            case events.WorkloadGone() | events.AdmissionRefused() | events.EvictionRefused():
                name = view.cluster_queue_of(event.key)
            case events.ClusterQueueChanged():
                name = event.cluster_queue.name
            case events.LocalQueueChanged():
                name = event.local_queue.cluster_queue
            case events.PodBound() | events.PodEnded() | events.LocalQueueUsageSampled() | events.NamespaceChanged():
                name = None
            case _:
                return [queue.value.name for queue in view.cluster_queues()]
        return [] if name is None else [name]

    def _busy_ns(self) -> int:
        return self._past_turns_ns + self._turn_ns()

    def _turn_ns(self) -> int:
        return self._clock.now_ns() - self._turn_started_ns

    def _is_turn_over(self) -> bool:
        """Whether the turn took long enough, or the clock was set back."""
        return not 0 <= self._turn_ns() < TURN_NS

    async def _end_turn(self) -> None:
        self._past_turns_ns += max(0, self._turn_ns())
        await asyncio.sleep(0)
        self._turn_started_ns = self._clock.now_ns()
