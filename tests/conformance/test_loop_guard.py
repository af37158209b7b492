"""Scenarios in which workloads preempt each other for ever settle with the loop guard."""

from pathlib import Path

import pytest

from pykueue.conformance import corpus, cycles

DECISIONS = Path(__file__).parent / "decisions"
LIMIT = 100


def unsettled():
    return [
        pytest.param(case["scenario"], id=case["id"])
        for path in corpus.recordings([DECISIONS])
        for case in corpus.cases(path)
        if not case["expected"]["converged"]
    ]


def guarded(scenario):
    return scenario | {"config": scenario["config"] | {"preemptionLoopGuard": True}}


def settles(scenario):
    return len(list(cycles.ScenarioRun(scenario).cycles(LIMIT))) < LIMIT


@pytest.mark.parametrize("scenario", unsettled())
def test_scenario_settles_with_the_guard(scenario):
    assert settles(guarded(scenario))


def test_the_guard_is_off_by_default():
    assert not settles(unsettled()[0].values[0])
