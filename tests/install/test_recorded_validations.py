"""The policies refuse the writes that Kueue's webhooks refused when they were recorded."""

from pathlib import Path

import pytest
from tests.install import policy_verdicts

from pykueue.conformance import corpus, webhooks

UPSTREAM = Path(__file__).parents[3] / "shared" / "conformance" / "upstream"
RECORDINGS = [UPSTREAM / f"{suite}.jsonl.gz" for suite in webhooks.RUNNERS]


def without_nulls(value):
    """As an API server gives an object to its policies."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def refusals(case):
    gates = (gate if is_on else f"-{gate}" for gate, is_on in corpus.feature_gates(case).items())
    old = case.get("oldObject")
    return policy_verdicts.refusals(
        without_nulls(case["object"]), old and without_nulls(old), policy_verdicts.settings(*gates)
    )


@pytest.mark.skipif(not UPSTREAM.exists(), reason="Kueue's recorded tables do not lie beside the project")
@pytest.mark.parametrize("path", RECORDINGS, ids=corpus.name_of)
def test_recorded_writes_are_refused_as_by_kueue(path):
    cases = list(corpus.cases(path))
    wrong = [corpus.title_of(case) for case in cases if bool(refusals(case)) != bool(case["expect"]["errors"])]
    assert cases
    assert wrong == []
