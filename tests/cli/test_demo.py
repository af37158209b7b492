import io

import pytest
from click.testing import CliRunner
from rich.console import Console
from tests.cli import demo_objects

from pykueue.cli.demo import player, story
from pykueue.cli.demo.board import Board
from pykueue.cli.demo.command import demo
from pykueue.cli.demo.live_view import LiveView
from pykueue.kube.informer import Change


class Audience:
    """Remembers the board, and looks away."""

    def __init__(self):
        self.board = None

    def opened(self, _story, board):
        self.board = board

    def said(self, _words): ...

    def happened(self): ...

    def closed(self): ...


@pytest.mark.parametrize("name", story.folders())
async def test_a_play_comes_to_its_end(name):
    summary = await player.play(story.load(name), Audience(), pace=0)
    assert summary.jobs >= 2


async def test_team_b_is_preempted_and_comes_back():
    audience = Audience()
    await player.play(story.load(story.DEFAULT), audience, pace=0)
    told = [line for line in audience.board.happenings if "preempted" in line or "again" in line]
    assert told == [
        "team-b-job is preempted by team-a-job: reclamation within the cohort while borrowing",
        "team-b-job is running again",
    ]


def test_a_play_is_found_by_its_number():
    assert story.load("003") == story.load("gpu-preemption")


def test_an_unknown_play_is_refused_with_those_there_are():
    done = CliRunner().invoke(demo, ["nothing"])
    assert done.exit_code == 2
    assert "gpu-preemption" in done.output


def test_plays_are_listed():
    assert "Two teams" in CliRunner().invoke(demo, ["--list"]).output


def test_the_live_view_draws_bars_and_states():
    board = Board()
    board.queue_changed(Change(type="ADDED", object=demo_objects.cluster_queue("small", nominal="4", used="6")))
    board.queue_changed(Change(type="ADDED", object=demo_objects.cluster_queue("large", nominal="8", used="0")))
    board.workload_changed(Change(type="ADDED", object=demo_objects.workload("train", "Admitted", "PodsReady")))
    console = Console(width=100, record=True, file=io.StringIO())
    view = LiveView(console)
    view._board = board
    console.print(view._picture())
    drawn = console.export_text()
    assert "6 of 12, 2 borrowed from team" in drawn
    assert "▶ running  train" in drawn
