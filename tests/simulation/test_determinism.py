"""One seed gives exactly one run, in this process and in another one with other hashes."""

import os
import subprocess
import sys

from pykueue.simulate import campaign

SEED, STEPS = 11, 6000
_SCRIPT = f"from pykueue.simulate import campaign; print(campaign.run({SEED}, {STEPS}).digest)"


def _digest_elsewhere(hash_seed):
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", _SCRIPT], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_one_seed_gives_one_run():
    assert campaign.run(SEED, STEPS).digest == campaign.run(SEED, STEPS).digest


def test_hashes_do_not_change_a_run():
    assert _digest_elsewhere("1") == _digest_elsewhere("2") == campaign.run(SEED, STEPS).digest


def test_another_seed_gives_another_run():
    assert campaign.run(SEED, STEPS).digest != campaign.run(SEED + 1, STEPS).digest
