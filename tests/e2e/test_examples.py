"""Every example, run with real kubectl on a server of its own, prints what its transcript says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.conftest import KUBECTL, start_server, stop_server
from tests.e2e.external_cluster import embedded
from tests.e2e.transcripts import masked

EXAMPLES = sorted(path.parent for path in Path(__file__).parents[2].glob("examples/*/play.sh"))
OPTIONS = {"nodes.yaml": "--nodes", "kueue-values.yaml": "--config"}

pytestmark = [
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH"),
    embedded("its simulated pods"),
]


@pytest.fixture
def play(tmp_path):
    started = []

    def run(example):
        options = [(option, str(example / name)) for name, option in OPTIONS.items() if (example / name).exists()]
        server = start_server(tmp_path / "data", "--runtime", "simulated", *(word for pair in options for word in pair))
        started.append(server)
        return subprocess.run(
            ["sh", "-v", "play.sh"],
            cwd=example,
            env={
                **os.environ,
                "KUBECONFIG": str(server.kubeconfig),
                "HOME": str(tmp_path),
                "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=110,
            check=False,
        ).stdout

    yield run
    for server in started:
        stop_server(server)


# Three clusters of real processes: once in a while the second job waits for more than a minute on a
# busy machine, which is not understood yet. The other tests of MultiKueue are in virtual time.
LONG = ("005-multikueue",)


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, marks=[pytest.mark.torture] if path.name in LONG else [], id=path.name) for path in EXAMPLES],
)
def test_an_example_prints_its_transcript(example, play):
    assert masked(play(example)) == masked((example / "expected.txt").read_text())
