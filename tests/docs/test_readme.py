"""The transcript in the README prints what it says."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.conftest import KUBECTL, start_server, stop_server
from tests.e2e.controller_process import environment

README = Path(__file__).parents[2] / "README.md"
CONSOLE = "".join(re.findall(r"```console\n(.*?)```", README.read_text(), re.DOTALL))
PYKUEUE = f"{shlex.quote(sys.executable)} -m pykueue"

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH")


@pytest.fixture
def shell(tmp_path):
    server = start_server(tmp_path / "data", "--runtime", "process")
    settings = {**environment(), "KUBECONFIG": str(server.kubeconfig), "HOME": str(tmp_path)}

    def run(command):
        return subprocess.run(
            re.sub(r"^pykueue\b", PYKUEUE, command),
            shell=True,
            cwd=tmp_path,
            env=settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # on a busy machine it says why a job does not run yet
            text=True,
            timeout=60,
            check=False,
        ).stdout

    yield run
    stop_server(server)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="the transcript needs two CPUs")
def test_the_quick_start_prints_what_it_says(shell):
    for step in CONSOLE.removeprefix("$ ").split("\n$ "):
        command, _, printed = step.partition("\n")
        assert shell(command).rstrip() == printed.rstrip(), command
