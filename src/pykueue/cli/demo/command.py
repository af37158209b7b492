"""The command: chooses the play and the view, and ends with a summary and a hint how to go on."""

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykueue.cli.demo import story as stories

if TYPE_CHECKING:
    from pykueue.cli.demo import player


@click.command()
@click.argument("name", default=stories.DEFAULT)
@click.option("--list", "-l", "is_list", is_flag=True, help="Show the plays there are.")
@click.option("--plain", is_flag=True, help="Lines instead of a live picture, as where there is no terminal.")
@click.option("--pace", type=click.FloatRange(min=0), default=1.0, show_default=True, help="2: twice as slow.")
def demo(*, name: str, is_list: bool, plain: bool, pace: float) -> None:
    """Play one of the examples on a small simulated cluster that ends with it."""
    if is_list:
        for each in stories.folders():
            click.echo(f"{each:24}{stories.load(each).title}")
        return
    story = stories.load(name)
    from pykueue.app import serving
    from pykueue.cli.demo import player

    logging.basicConfig(level=logging.CRITICAL)
    with asyncio.Runner(loop_factory=serving.loop_factory()) as runner:
        summary = runner.run(player.play(story, _view(is_plain=plain), pace=pace))
    preemptions = f"{summary.preemptions} preemption{'' if summary.preemptions == 1 else 's'}"
    jobs = f"{summary.jobs} job{'' if summary.jobs == 1 else 's'}"
    click.echo(f"\n{jobs} ran, {preemptions}, {summary.seconds:.0f} seconds. The cluster is gone.")
    click.echo(_hint(story))


def _view(*, is_plain: bool) -> "player.View":
    if is_plain or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        from pykueue.cli.demo.plain_view import PlainView

        return PlainView()
    from pykueue.cli.demo.live_view import LiveView

    return LiveView()


def _hint(story: stories.Story) -> str:
    here = Path(os.path.relpath(story.folder))
    configuration = "" if story.configuration is None else f" --config {here / story.configuration.name}"
    return f"""
To play it yourself, keep a cluster running in one terminal
  pykueue up --runtime simulated --nodes {here / "nodes.yaml"}{configuration}
and follow {here / "play.sh"} with kubectl in another. Other plays: pykueue demo --list"""
