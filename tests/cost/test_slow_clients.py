"""Clients that open connections and do nothing with them leave room for the others.

The server has few descriptors, and the clients open more connections than it has.
"""

import asyncio
import contextlib
import json
import resource
import socket
import ssl
import subprocess
import sys
import time
import urllib.parse

import pytest
from tests.cost.flood import session_of
from tests.e2e.controller_process import environment

DESCRIPTORS = 256
LONGEST_SECONDS = 5.0

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="descriptors of POSIX")


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A server that may open few files."""
    directory = tmp_path_factory.mktemp("slow") / "data"
    options = ["up", "--runtime", "none", "--no-controllers", "--data-dir", str(directory), "--listen", "127.0.0.1:0"]
    shell = ["sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh", sys.executable, "-m", "pykueue", *options]
    process = subprocess.Popen(shell, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert "is ready at" in process.stdout.readline()
    yield directory
    assert process.poll() is None, "the server has ended"
    process.terminate()
    _, errors = process.communicate(timeout=30)
    assert "Traceback" not in errors


@pytest.fixture
def descriptors():
    """As many descriptors as the clients need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def address_of(directory):
    config = json.loads((directory / "kubeconfig").read_text())
    parts = urllib.parse.urlsplit(config["clusters"][0]["cluster"]["server"])
    return (parts.hostname, parts.port), config["users"][0]["user"]["token"]


def plain(address, _token):
    return socket.create_connection(address, timeout=10)


def encrypted(address, _token, data=b""):
    context = ssl._create_unverified_context()
    connection = context.wrap_socket(plain(address, ""))
    connection.sendall(data)
    return connection


def half_headers(address, token):
    return encrypted(address, token, b"GET /version HTTP/1.1\r\nHost: x\r\nAccept:")


def slow_body(address, token):
    head = "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900\r\n"
    return encrypted(address, token, f"{head}Authorization: Bearer {token}\r\n\r\n{{".encode())


def unread_watch(address, token):
    head = "GET /api/v1/namespaces?watch=1 HTTP/1.1\r\nHost: x\r\n"
    return encrypted(address, token, f"{head}Authorization: Bearer {token}\r\n\r\n".encode())


async def longest_wait(directory, count):
    """The longest of some requests, each on a connection of its own."""
    waits = []
    for _ in range(count):
        session = session_of(directory / "kubeconfig", 1)
        began = time.monotonic()
        async with session, session.get("/api/v1/namespaces/default") as answer:
            assert answer.status == 200
        waits.append(time.monotonic() - began)
    return max(waits)


@pytest.mark.parametrize(
    ("client", "count"),
    [(plain, 320), (encrypted, 320), (half_headers, 320), (slow_body, 90), (unread_watch, 90)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
async def test_others_are_served_although_clients_do_nothing(url, descriptors, client, count):
    address, token = address_of(url)
    connections = []
    try:
        for _ in range(count):
            with contextlib.suppress(OSError):
                connections.append(await asyncio.to_thread(client, address, token))
        assert await longest_wait(url, 5) < LONGEST_SECONDS
    finally:
        for connection in connections:
            connection.close()
