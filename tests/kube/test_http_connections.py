"""What the connections do with a server that answers in every way that HTTP/1.1 allows."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from pykueue.kube.http_connections import HttpConnections


class Server:
    """Answers the requests of all connections with the given texts, in order; "" hangs up."""

    def __init__(self, *answers):
        self.answers, self.heads, self.connections = list(answers), [], 0

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((line[15:] for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), b"0")
                self.heads.append((head + await reader.readexactly(int(length))).decode())
                answer = self.answers.pop(0)
                if not answer:
                    break
                writer.write(answer.encode())
                await writer.drain()
                if "connection: close" in answer.lower():
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def connected(server):
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    connections = HttpConnections(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/base", None)
    try:
        yield connections
    finally:
        await connections.close()
        listener.close()


async def body(connections, method="GET", **options):
    options = {"query": {}, "headers": {}, **options}
    async with connections.request(method, "/x", **options) as response:
        return await response.read()


OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_connection_is_used_again():
    server = Server(OK, OK)
    async with connected(server) as connections:
        assert [await body(connections), await body(connections)] == [b"ok", b"ok"]
    assert server.connections == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: r\r\n\r\n", b"abcde"),
        ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end", b"until the end"),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx", b"x"),
        ("HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
async def test_body(answer, text):
    async with connected(Server(answer)) as connections:
        assert await body(connections) == text


async def test_read_is_repeated_if_the_idle_connection_is_gone():
    server = Server(OK, "", OK)
    async with connected(server) as connections:
        await body(connections)
        assert await body(connections) == b"ok"
    assert server.connections == 2


async def test_create_is_never_sent_twice():
    server = Server(OK, "", OK)
    async with connected(server) as connections:
        await body(connections)
        with pytest.raises(ConnectionError, match="before it answered"):
            await body(connections, "POST", body=b"{}")
    assert len(server.heads) == 2


@pytest.mark.parametrize(
    "answer", ["", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nshort", "hello\r\n\r\n"]
)
async def test_broken_answer_is_a_connection_error(answer):
    async with connected(Server(answer)) as connections:
        with pytest.raises(ConnectionError):
            await body(connections)


async def test_large_body_arrives_whole():
    server = Server(OK)
    async with connected(server) as connections:
        await body(connections, "POST", body=b"x" * 3_000_000)
    assert server.heads[0].count("x") >= 3_000_000


async def test_request_line_has_path_and_query():
    server = Server(OK)
    async with connected(server) as connections:
        await body(connections, query={"labelSelector": "a=b,c"})
    assert server.heads[0].startswith("GET /base/x?labelSelector=a%3Db%2Cc HTTP/1.1\r\nHost: 127.0.0.1:")


async def test_header_cannot_begin_another_one():
    async with connected(Server(OK)) as connections:
        with pytest.raises(ValueError, match="line breaks"):
            await body(connections, headers={"Authorization": "Bearer x\r\nImpersonate-User: admin"})


async def test_body_that_is_not_read_leaves_no_connection_behind():
    server = Server("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", OK)
    async with connected(server) as connections:
        async with connections.request("GET", "/x", query={}, headers={}):
            pass
        assert await body(connections) == b"ok"
    assert server.connections == 2


async def test_silent_stream_times_out():
    server = Server("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", OK)
    async with (
        connected(server) as connections,
        connections.request("GET", "/x", query={}, headers={}) as response,
    ):
        with pytest.raises(TimeoutError):
            _ = [chunk async for chunk in response.chunks(idle_seconds=0.01)]
