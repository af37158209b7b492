"""Every recording that we can replay is reproduced. Upstream's tables are used where they lie beside the project."""

from pathlib import Path

import pytest

from pykueue.simulate.replay import corpus, session, suites

PROJECT = Path(__file__).parents[2]
UPSTREAM = PROJECT.parent / "shared" / "conformance" / "upstream"


def replayable(folder):
    return (
        [path for path in corpus.recordings([folder]) if corpus.name_of(path) in suites.RUNNERS]
        if folder.exists()
        else []
    )


@pytest.mark.skipif(not UPSTREAM.exists(), reason="upstream's tables are not beside this clone")
@pytest.mark.parametrize("path", replayable(UPSTREAM), ids=corpus.name_of)
def test_upstream_table(path):
    report = session.replay(path)
    assert [(failure.title, failure.crash, *map(str, failure.differences[:3])) for failure in report.failures] == []
