"""A server without free descriptors: who is connected is served, the next one is refused at once.

It heals without a restart as soon as there are descriptors again.
"""

import contextlib
import os
import resource
import socket
import ssl
import sys
import urllib.parse
from pathlib import Path

import pytest
from tests.e2e.conftest import start_server, stop_server
from tests.e2e.controller_process import wait_for
from tests.faults.api_connection import ApiConnection

MOST_SECONDS = 2.0

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prlimit is of Linux")


@pytest.fixture
def server(tmp_path):
    server = start_server(tmp_path / "data", "--no-controllers")
    yield server
    assert server.process.poll() is None, "the server has ended"
    stop_server(server)
    log = (tmp_path / "data.log").read_text()
    assert "Traceback" not in log, log


def is_refused(server):
    """Whether a new connection is closed, instead of left waiting."""
    with contextlib.closing(ApiConnection(server)) as api:
        try:
            return api.request("GET", "/version")[0] == 0
        except (ConnectionError, ssl.SSLError):
            return True


def processor_seconds(pid):
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def free_descriptor(pid):
    used = {int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()}
    return min(set(range(len(used) + 1)) - used)


@pytest.mark.parametrize("has_reserve", [True, False], ids=["with the reserve", "without the reserve"])
def test_no_descriptor_is_left(server, has_reserve):
    pid = server.process.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with contextlib.closing(ApiConnection(server)) as api, contextlib.ExitStack() as connections:
        assert api.create("before")[0] == 201
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (free_descriptor(pid) if has_reserve else 3, limits[1]))
        if has_reserve:
            assert is_refused(server)
        else:
            address = urllib.parse.urlsplit(server.url)
            connections.enter_context(socket.create_connection((address.hostname, address.port)))
        began = processor_seconds(pid)
        for number in range(20):
            assert api.create(f"a{number}")[0] == 201, "it needs no descriptor to write"
        assert processor_seconds(pid) - began < MOST_SECONDS, "it does not try again and again"
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        wait_for(lambda: not is_refused(server), "a new connection")
        assert api.names() == {"before", *(f"a{number}" for number in range(20))}
