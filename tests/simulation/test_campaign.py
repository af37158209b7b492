"""A random user against the whole system, with faults and restarts.

`PYKUEUE_SIMULATION_SEED=N` replays one seed.
"""

import os

import pytest

from pykueue.simulate import campaign

SHORT_STEPS = 20_000
LONG_STEPS = 1_000_000
GIVEN = os.environ.get("PYKUEUE_SIMULATION_SEED")
SEEDS = [int(GIVEN)] if GIVEN else [*range(1, 13)]


def _show(report, capsys):
    with capsys.disabled():
        print(f"\n{report}")  # noqa: T201 - the figures of a campaign


@pytest.mark.parametrize("seed", SEEDS)
def test_short_campaign(seed, capsys):
    report = campaign.run(seed, SHORT_STEPS)
    _show(report, capsys)


@pytest.mark.torture
def test_short_campaign_of_a_drawn_seed(capsys):
    _show(campaign.run(campaign.draw_seed(), SHORT_STEPS), capsys)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_long_campaign(capsys):
    """A million steps over many seeds: a bug that hides from one start may show itself after
    another.
    """
    steps, seed = 0, int(GIVEN or campaign.draw_seed())
    while steps < LONG_STEPS:
        report = campaign.run(seed, LONG_STEPS // 20)
        _show(report, capsys)
        steps, seed = steps + report.steps, seed + 1
