import io
import re

import pytest
from click.testing import CliRunner
from rich.console import Console
from tests.cli import demo_objects

from pykueue.cli.demo import runner, scenario
from pykueue.cli.demo.command import demo
from pykueue.cli.demo.live_view import LiveView
from pykueue.cli.demo.state import DemoState
from pykueue.kube.informer import Change


class SilentView:
    """Keeps the state and prints nothing."""

    def __init__(self):
        self.state = None

    def start(self, _scenario, state):
        self.state = state

    def show_step(self, _text): ...

    def refresh(self): ...

    def stop(self): ...


@pytest.mark.parametrize("name", scenario.folders())
async def test_every_scenario_ends(name):
    summary = await runner.run(scenario.load(name), SilentView(), pace=0)
    assert summary.jobs >= 2


async def test_team_b_is_preempted_and_comes_back():
    view = SilentView()
    await runner.run(scenario.load(scenario.DEFAULT), view, pace=0)
    messages = [line for line in view.state.messages if "preempted" in line or "again" in line]
    assert messages == [
        "team-b-job is preempted by team-a-job: reclamation within the cohort while borrowing",
        "team-b-job is running again",
    ]


def test_a_scenario_is_found_by_its_number():
    assert scenario.load("003") == scenario.load("gpu-preemption")


def test_an_unknown_scenario_is_refused_with_a_list_of_all():
    done = CliRunner().invoke(demo, ["nothing"])
    assert done.exit_code == 2
    assert "gpu-preemption" in done.output


def test_scenarios_are_listed():
    assert "Two teams" in CliRunner().invoke(demo, ["--list"]).output


def test_the_live_view_draws_bars_and_states():
    state = DemoState()
    state.queue_changed(Change(type="ADDED", object=demo_objects.cluster_queue("small", nominal="4", used="6")))
    state.queue_changed(Change(type="ADDED", object=demo_objects.cluster_queue("large", nominal="8", used="0")))
    state.workload_changed(Change(type="ADDED", object=demo_objects.workload("train", "Admitted", "PodsReady")))
    console = Console(width=100, record=True, file=io.StringIO())
    view = LiveView(console)
    view._state = state
    console.print(view._render())
    text = console.export_text()
    assert "6 of 12, 2 borrowed from team" in text
    assert re.search(r"▶ running +train", text)
