import gzip
import json
from pathlib import Path

import pytest
from tools.recorder import check

DECISIONS = Path(__file__).parents[1] / "conformance" / "decisions"
FILES = sorted(DECISIONS.glob("*.jsonl.gz"))


@pytest.fixture(scope="module")
def case():
    with gzip.open(FILES[0]) as lines:
        return next(lines)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_recorded_decisions_have_the_documented_format(path):
    count, faults = check.check(path)
    assert count > 200
    assert faults == []


def changed(case, change):
    document = json.loads(case)
    change(document)
    return check.fault(json.dumps(document).encode())


def test_an_unknown_field_is_refused(case):
    assert "unknown field `colour`" in changed(case, lambda document: document["expected"].update(colour="red"))


def test_an_object_of_the_wrong_kind_is_refused(case):
    def swap(document):
        document["scenario"]["cohorts"] = document["scenario"]["clusterQueues"]

    assert "scenario.cohorts holds a ClusterQueue" in changed(case, swap)


def test_a_cycle_of_another_time_is_refused(case):
    def delay(document):
        document["expected"]["cycles"][0]["time"] = "2026-01-15T13:00:00Z"

    assert "cycle 1: time is not now" in changed(case, delay)
