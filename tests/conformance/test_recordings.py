"""Every recording that has a runner is reproduced.

Upstream's tables are used if they lie beside the project.
"""

from pathlib import Path

import pytest

from pykueue.conformance import corpus, session

pytestmark = pytest.mark.untraced

PROJECT = Path(__file__).parents[2]
DECISIONS = Path(__file__).parent / "decisions"
UPSTREAM = PROJECT.parent / "shared" / "conformance" / "upstream"

NOT_REPRODUCED: dict[str, str] = {}
"""`suite/case` to the reason. The list only shrinks."""


def replayable(folder):
    return (
        [path for path in corpus.recordings([folder]) if corpus.name_of(path) in session.RUNNERS]
        if folder.exists()
        else []
    )


@pytest.mark.parametrize("path", corpus.recordings([DECISIONS]), ids=corpus.name_of)
def test_decisions(path):
    """Compares admissions in order, preemptions with reasons, queues and the final conditions."""
    report = session.replay(path)
    assert [(failure.title, failure.crash, *map(str, failure.differences[:3])) for failure in report.failures] == []
    assert report.total > 200


@pytest.mark.skipif(not UPSTREAM.exists(), reason="upstream's tables are not beside this clone")
@pytest.mark.parametrize("path", replayable(UPSTREAM), ids=corpus.name_of)
def test_upstream_table(path):
    report = session.replay(path)
    differing = {
        f"{report.name}/{failure.title}": (failure.crash, *map(str, failure.differences[:3]))
        for failure in report.failures
    }
    assert {name: mismatch for name, mismatch in differing.items() if name not in NOT_REPRODUCED} == {}
    stale = {name for name in NOT_REPRODUCED if name.startswith(f"{report.name}/")} - differing.keys()
    assert not stale, "reproduced after all: take them off the list"
