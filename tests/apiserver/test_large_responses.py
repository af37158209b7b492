"""A client that does not read costs the server no memory."""

import asyncio
import functools
import http.client
import io
import itertools
import json
import random
import socket
import ssl
import sys
from pathlib import Path

import pytest
from tests.cost.flood import session_of
from tests.cost.raw_client import Server
from tests.e2e.conftest import start_server, stop_server

from pykueue.api import resources
from pykueue.apiserver.http import large_responses, listener
from pykueue.apiserver.http.messages import HttpResponse
from pykueue.apiserver.slices import Slices

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the memory is read from /proc")
COUNT, OBJECT_BYTES = 12, 900_000
CLIENTS = 24
WATCHES = 80
LARGEST_GROWTH_BYTES = 64 * 1024 * 1024
"""Much less than one list for each client, which is 260 MB."""
PATH = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_pieces_are_the_same_bytes(size):
    generator = random.Random(size)
    for _ in range(50):
        parts = [generator.randbytes(generator.choice((0, 1, 6, 7, 8, 200))) for _ in range(generator.randint(0, 9))]
        pieces = list(large_responses.pieces(parts, size))
        assert b"".join(pieces) == b"".join(parts)
        assert all(len(piece) == size for piece in pieces[:-1])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = start_server(tmp_path_factory.mktemp("large") / "data", "--no-controllers")
    yield server
    stop_server(server)


@pytest.fixture
async def session(server):
    session = session_of(server.kubeconfig, 1)
    async with session:
        yield session


@pytest.fixture
async def large_list(session):
    for number in range(COUNT):
        body = {"metadata": {"name": f"large-{number}"}, "data": {"a": chr(97 + number) * OBJECT_BYTES}}
        data = io.BytesIO(json.dumps(body).encode())
        async with session.post(PATH, data=data, headers={"Content-Type": "application/json"}) as answer:
            assert answer.status in (201, 409)


def memory_bytes(server):
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def connected(server):
    access = Server.of(server.kubeconfig)
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(30)
    plain.connect((access.host, access.port))
    return ssl._create_unverified_context().wrap_socket(plain), access.token


def sent(server, path):
    """A connection on which the first bytes of the response have arrived."""
    connection, token = connected(server)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    assert b" 200 " in connection.recv(20)
    return connection


def test_the_response_to_head_has_no_body(server):
    access = Server.of(server.kubeconfig)
    connection = http.client.HTTPSConnection(access.host, access.port, context=ssl._create_unverified_context())
    for method, path in (("HEAD", "/openapi/v2"), ("GET", "/version")):
        connection.request(method, path, headers={"Authorization": f"Bearer {access.token}"})
        answer = connection.getresponse()
        assert answer.status == 200
        body = answer.read()
    connection.close()
    assert "gitVersion" in json.loads(body)


@pytest.mark.usefixtures("large_list")
async def test_lists_that_nobody_reads_take_no_memory(server, session):
    before = memory_bytes(server)
    connections = [sent(server, PATH) for _ in range(CLIENTS)]
    try:
        assert memory_bytes(server) - before < LARGEST_GROWTH_BYTES
        async with session.get(PATH) as answer:
            items = (await answer.json())["items"]
        assert {item["data"]["a"] for item in items if item["metadata"]["name"].startswith("large")} == {
            chr(97 + number) * OBJECT_BYTES for number in range(COUNT)
        }
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.usefixtures("large_list")
async def test_watches_that_nobody_reads_take_no_memory(server, session):
    connections = [sent(server, f"{PATH}?watch=1") for _ in range(WATCHES)]
    before = memory_bytes(server)
    try:
        for number in range(10):
            patch = json.dumps({"metadata": {"labels": {"number": str(number)}}})
            headers = {"Content-Type": "application/merge-patch+json"}
            async with session.patch(f"{PATH}/large-1", data=patch, headers=headers) as answer:
                assert answer.status == 200
        assert memory_bytes(server) - before < LARGEST_GROWTH_BYTES
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.parametrize("query", ["", "?watch=1&timeoutSeconds=1"], ids=["list", "watch"])
async def test_a_client_of_http_1_0_gets_a_large_response_until_the_connection_ends(api, query):
    """Such as a proxy with its default settings."""
    text = 2 * large_responses.LARGE_BYTES * "x"
    body = {"metadata": {"name": "large", "namespace": "default"}, "data": {"a": text}}
    await api.client().create(resources.CONFIG_MAP, body)
    host, port = api.access.server.removeprefix("https://").split(":")
    context = ssl.create_default_context(cafile=api.paths.directory / "pki" / "ca.crt")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    target = f"/api/v1/namespaces/default/configmaps{query}"
    writer.write(f"GET {target} HTTP/1.0\r\nAuthorization: Bearer {api.access.token}\r\n\r\n".encode())
    async with asyncio.timeout(20):
        head, _, content = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert head.split()[1] == b"200"
    assert b"chunked" not in head
    assert any(text in str(json.loads(line)) for line in content.splitlines())


class Chunks:
    """The body of a stream with many chunks, which counts how many of all streams were made."""

    made = 0

    def __init__(self, count):
        self._count = count

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self._count:
            raise StopAsyncIteration
        self._count -= 1
        Chunks.made += 1
        return b"x"


class Client:
    """An exchange with a client that reads everything."""

    method = "GET"

    async def start(self, _status, _headers):
        return self

    def on_disconnect(self, _callback):
        pass

    def cancel(self):
        pass

    def write(self, _data):
        pass

    async def drain(self):
        pass

    async def end(self):
        pass


async def test_pieces_of_streams_are_made_in_turns():
    slices = Slices(4)
    streams = [
        asyncio.ensure_future(
            listener._send_chunks(Client(), HttpResponse(body=Chunks(5)), functools.partial(slices.turn, "jane"))
        )
        for _ in range(30)
    ]
    counts = [0]
    while not all(stream.done() for stream in streams):
        await asyncio.sleep(0)
        counts.append(Chunks.made)
    assert counts[-1] == 150
    assert max(later - former for former, later in itertools.pairwise(counts)) <= 8
