"""Runs a scenario on a demo cluster, step by step, and shows it in a view."""

import asyncio
import time
from dataclasses import dataclass
from typing import Protocol

from pykueue.cli import output as outputs
from pykueue.cli.demo.cluster import DemoCluster, open_cluster
from pykueue.cli.demo.scenario import Scenario, Step
from pykueue.cli.demo.state import DemoState


class DemoView(Protocol):
    def start(self, scenario: Scenario, state: DemoState) -> None: ...

    def show_step(self, text: str) -> None: ...

    def refresh(self) -> None:
        """Called when the state has changed."""
        ...

    def stop(self) -> None: ...


class PlainView:
    """Prints lines, for logs, pipes and screen readers."""

    def __init__(self) -> None:
        self._state = DemoState()
        self._printed = 0
        self._started = time.monotonic()

    def start(self, scenario: Scenario, state: DemoState) -> None:
        self._state = state
        self._started = time.monotonic()
        outputs.echo(scenario.title)

    def show_step(self, text: str) -> None:
        self.refresh()
        outputs.echo(f"\n{text}")

    def refresh(self) -> None:
        for message in self._state.messages[self._printed :]:
            outputs.echo(f"  {time.monotonic() - self._started:5.1f} s  {message}")
        self._printed = len(self._state.messages)

    def stop(self) -> None:
        self.refresh()


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    jobs: int
    preemptions: int
    seconds: float


async def run(scenario: Scenario, view: DemoView, *, pace: float = 1.0) -> Summary:
    """Run all steps. `pace` scales the pauses between them; with 0 there are none."""
    started = time.monotonic()
    async with open_cluster(scenario) as cluster:
        view.start(scenario, cluster.state)
        try:
            for step in scenario.steps:
                view.show_step(step.say)
                await _run_step(scenario, cluster, step, view)
                await asyncio.sleep(step.hold_seconds * pace)
                view.refresh()
        finally:
            view.stop()
        seconds = time.monotonic() - started
        return Summary(jobs=len(cluster.state.ran), preemptions=cluster.state.preemptions, seconds=seconds)


async def _run_step(scenario: Scenario, cluster: DemoCluster, step: Step, view: DemoView) -> None:
    for file in step.apply:
        for obj in scenario.objects(file):
            await cluster.apply(obj)
    for file in step.delete:
        for obj in scenario.objects(file):
            await cluster.delete(obj)

    def is_reached(state: DemoState) -> bool:
        view.refresh()
        return state.has_jobs(step.until)

    await cluster.until(is_reached)
