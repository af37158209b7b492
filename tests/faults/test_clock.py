"""The clock jumps, by an hour and by years, forward and back: the server goes on."""

import contextlib
import datetime as dt
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e import conftest
from tests.e2e.controller_process import environment, wait_for
from tests.faults.api_connection import ApiConnection
from tests.faults.killed_server import JOBS, OBJECTS

from pykueue.cluster.runtimes import simulated

HOUR, YEAR = 3600, 365 * 24 * 3600
JUMPS = [HOUR, -HOUR, 3 * YEAR, -3 * YEAR]
SOURCE = Path(__file__).with_name("shifted_clock.c")
TOKENS = "/api/v1/namespaces/default/serviceaccounts/default/token"


pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None, reason="a C compiler shifts the clock, on Linux"
)


class Clock:
    def __init__(self, path):
        self._path = path
        self._library = path.with_suffix(".so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self._library, SOURCE, "-ldl"], check=True)
        self.set(0)

    def set(self, seconds):
        """Written by rename: the server may read it at any time."""
        new = self._path.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._path)

    def environment(self):
        return {**environment(), "LD_PRELOAD": str(self._library), "PYKUEUE_TEST_CLOCK": str(self._path)}


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path / "clock")


@contextlib.contextmanager
def serving(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(conftest, "environment", clock.environment)
    server = conftest.start_server(tmp_path / "data", "--runtime", "simulated")
    try:
        with contextlib.closing(ApiConnection(server)) as api:
            yield api
        assert server.process.poll() is None, "the server has ended"
    finally:
        conftest.stop_server(server)
    log = (tmp_path / "data.log").read_text()
    assert "Traceback" not in log, log


def run_job(api, name):
    """A job gets quota, runs and completes, with times of its own clock."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    job = {
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
        "spec": {
            "template": {
                "metadata": {"annotations": {simulated.RUNTIME: "10ms"}},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            }
        },
    }
    code, body = api.request("POST", JOBS, job)
    assert code == 201, body

    def completed():
        status = api.request("GET", f"{JOBS}/{name}")[1].get("status", {})
        return any(entry["type"] == "Complete" for entry in status.get("conditions", ()))

    wait_for(completed, f"{name} completes")
    return dt.datetime.fromisoformat(body["metadata"]["creationTimestamp"])


def test_the_clock_jumps_while_it_runs(tmp_path, clock, monkeypatch):
    with serving(tmp_path, clock, monkeypatch) as api:
        for path, obj in OBJECTS:
            assert api.request("POST", path, obj)[0] == 201
        before = run_job(api, "before")
        revision = 0
        for number, jump in enumerate(JUMPS):
            clock.set(jump)
            created = run_job(api, f"job-{number}")
            assert abs((created - before).total_seconds() - jump) < HOUR / 2, "objects have the time of the clock"
            code, body = api.create(f"a{number}")
            assert code == 201
            assert int(body["metadata"]["resourceVersion"]) > revision, "the order does not depend on the clock"
            revision = int(body["metadata"]["resourceVersion"])
            assert api.request("POST", TOKENS, {"spec": {}})[0] == 201
        clock.set(0)
        run_job(api, "after")


def test_it_starts_after_a_jump(tmp_path, clock, monkeypatch):
    for number, jump in enumerate((0, 3 * YEAR, -3 * YEAR)):
        clock.set(jump)
        with serving(tmp_path, clock, monkeypatch) as api:
            assert api.create(f"a{number}")[0] == 201
            assert api.names() == {f"a{index}" for index in range(number + 1)}
