"""Probes and hooks on real processes and sockets of this machine."""

import asyncio
import sys

import pytest
from tests.cluster.runtimes.test_process import request

from pykueue.cluster.runtimes.process import ProcessRuntime


@pytest.fixture
def runtime(tmp_path):
    return ProcessRuntime(tmp_path)


@pytest.fixture
async def port():
    """A server that answers every path with its last three letters as the code."""

    async def answer(reader, writer):
        path = (await reader.readline()).split()[1].decode()
        writer.write(f"HTTP/1.1 {path[-3:]} x\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def handled(runtime, handler, **fields):
    return await runtime.handle(request("sleep", "1", **fields), handler)


async def test_a_command_is_judged_by_its_exit_code_and_sees_the_environment(runtime):
    good = {"exec": {"command": ["sh", "-c", 'test "$MODE" = train']}}
    assert await handled(runtime, good, environment={"MODE": "train"}) == ""
    assert await handled(runtime, {"exec": {"command": ["sh", "-c", "echo unwell; exit 1"]}}) == "unwell"
    assert "executable file not found" in await handled(runtime, {"exec": {"command": ["no-such-command"]}})


async def test_http_is_good_below_400(runtime, port):
    assert await handled(runtime, {"httpGet": {"port": port, "path": "/200"}}) == ""
    assert await handled(runtime, {"httpGet": {"port": port, "path": "/302"}}) == ""
    error = await handled(runtime, {"httpGet": {"port": port, "path": "/503"}})
    assert error == "HTTP probe failed with statuscode: 503"


async def test_a_port_may_be_named(runtime, port):
    container = {"ports": [{"name": "web", "containerPort": port}]}
    assert await handled(runtime, {"httpGet": {"port": "web", "path": "/200"}}, container=container) == ""


async def test_a_closed_port_refuses_the_connection(runtime, port):
    assert await handled(runtime, {"tcpSocket": {"port": port}}) == ""
    assert "connect" in await handled(runtime, {"tcpSocket": {"port": 1}})


async def test_a_terminal_is_one(runtime):
    execution = await runtime.execute(request(sys.executable, "-c", "print(__import__('os').isatty(0))"), terminal=True)
    output = b""
    while part := await execution.output():
        output += part
    assert output == b"True\r\n"
    assert await execution.wait() == 0
    execution.close()


async def test_input_reaches_the_command(runtime):
    execution = await runtime.execute(request("cat"), wants_input=True)
    await execution.write(b"hello")
    execution.close_input()
    assert await execution.output() == b"hello"
    assert await execution.wait() == 0
    execution.close()


async def test_a_command_that_never_stops_printing_costs_no_memory(runtime):
    script = "yes | head -c 200000; exit 1"
    error = await handled(runtime, {"exec": {"command": ["sh", "-c", script]}})
    assert len(error) <= 10 * 1024


@pytest.mark.parametrize("line", [b"x" * 200_000, b"HTTP/1.1 " + b"9" * 5000 + b" x\r\n", b"\r\n", b""])
async def test_a_server_may_answer_anything(runtime, line):
    async def answer(_reader, writer):
        writer.write(line)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        for scheme in ("HTTP", "HTTPS"):
            target = {"port": server.sockets[0].getsockname()[1], "scheme": scheme}
            assert await handled(runtime, {"httpGet": target})


@pytest.mark.parametrize("host", ["a" * 300, "x" * 64 + ".example", "a\0b", "\ud800"])
async def test_a_host_may_be_anything(runtime, host):
    for kind in ("httpGet", "tcpSocket"):
        assert await handled(runtime, {kind: {"host": host, "port": 1}})
