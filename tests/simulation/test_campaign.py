"""A random user against the whole system, with faults and restarts.

`PYKUEUE_SIMULATION_SEED=N` replays one seed, `PYKUEUE_SIMULATION_STEPS=N` sets how many steps it
takes; a failure prints both.
"""

import os
from collections import Counter

import pytest

from pykueue.simulate import campaign

pytestmark = pytest.mark.untraced

SHORT_STEPS = 20_000
EPISODES_STEPS = 50_000
LONG_STEPS = 1_000_000
STEPS = int(os.environ.get("PYKUEUE_SIMULATION_STEPS", SHORT_STEPS))
REPLAYED = os.environ.get("PYKUEUE_SIMULATION_SEED")
SEEDS = [int(REPLAYED)] if REPLAYED else [*range(1, 13)]


@pytest.fixture
def show(capsys):
    def show_now(text):
        with capsys.disabled():
            print(f"\n{text}")  # noqa: T201 - the figures of a campaign

    return show_now


@pytest.mark.parametrize("seed", SEEDS)
def test_one_seed(seed, show):
    show(campaign.run(seed, STEPS))


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_a_million_steps(show):
    """A million steps over many seeds: a bug that hides from one start may show itself after
    another.
    """
    first = seed = int(REPLAYED or campaign.draw_seed())
    steps, counts = 0, Counter()
    while steps < LONG_STEPS:
        report = campaign.run(seed, EPISODES_STEPS)
        show(report)
        steps, seed = steps + report.steps, seed + 1
        counts.update(report.counts)
    faults = {name: count for name, count in sorted(counts.items()) if name.startswith(("fault", "restart"))}
    show(f"{steps} steps, seeds {first} to {seed - 1}, faults {sum(faults.values())}: {faults}")
