"""The command `pykueue demo`: choose the scenario and the view, and print a summary at the end."""

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykueue.cli import output as outputs
from pykueue.cli.demo import scenario as scenarios

if TYPE_CHECKING:
    from pykueue.cli.demo import runner


def _scenario_names(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in scenarios.folders() if name.startswith(incomplete)]


@click.command()
@click.argument("name", default=scenarios.DEFAULT, shell_complete=_scenario_names)
@click.option("--list", "-l", "is_list", is_flag=True, help="List the scenarios.")
@click.option("--plain", is_flag=True, help="Print lines instead of a live view. Default: if there is no terminal.")
@click.option(
    "--pace",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="The factor of all pauses: 2 is twice as slow, 0 has no pauses.",
)
def demo(*, name: str, is_list: bool, plain: bool, pace: float) -> None:
    """Run the scenario of an example on a simulated cluster.

    NAME is the name or the number of an example. The cluster is removed at the end.
    """
    if is_list:
        for folder in scenarios.folders():
            outputs.echo(f"{folder:24}{scenarios.load(folder).title}")
        return
    scenario = scenarios.load(name)
    from pykueue.app import process
    from pykueue.cli.demo import runner

    logging.basicConfig(level=logging.CRITICAL)
    with asyncio.Runner(loop_factory=process.loop_factory()) as loop_runner:
        summary = loop_runner.run(runner.run(scenario, _view(is_plain=plain), pace=pace))
    preemptions = f"{summary.preemptions} preemption{'' if summary.preemptions == 1 else 's'}"
    jobs = f"{summary.jobs} job{'' if summary.jobs == 1 else 's'}"
    outputs.echo(f"\n{jobs} ran, {preemptions}, {summary.seconds:.0f} seconds. The cluster was removed.")
    outputs.echo(_hint(scenario))


def _view(*, is_plain: bool) -> "runner.DemoView":
    if is_plain or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        from pykueue.cli.demo.runner import PlainView

        return PlainView()
    from pykueue.cli.demo.live_view import LiveView

    return LiveView()


def _hint(scenario: scenarios.Scenario) -> str:
    folder = Path(os.path.relpath(scenario.folder))
    configuration = "" if scenario.configuration is None else f" --config {folder / scenario.configuration.name}"
    return f"""
To run the scenario by hand, start a cluster in one terminal
  pykueue up --runtime simulated --nodes {folder / "nodes.yaml"}{configuration}
and follow {folder / "play.sh"} with kubectl in another. Other scenarios: pykueue demo --list"""
