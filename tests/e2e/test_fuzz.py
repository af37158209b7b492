"""The server answers every request below 500, logs no traceback, and does not leak memory."""

import asyncio
import http.client
import json
import os
import ssl
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
import yarl
from tests.e2e.conftest import start_server, stop_server
from tests.e2e.external_cluster import embedded
from tests.e2e.fuzz import Fuzzer

pytestmark = embedded("what it makes of broken requests")

SEED = int(os.environ.get("PYKUEUE_FUZZ_SEED", "1"))
MOST_GROWTH_MB = 150
FUTURE_VERSION = 504
"""The code for a resourceVersion that does not exist yet, as in Kubernetes."""
BROKEN_HEADS = (
    b"",
    b"\x00" * 100,
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % (b"a" * 100_000),
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /version HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(2000)) + b"\r\n",
)


def resident_mb(pid):
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) // 1024


@pytest.fixture
def target(tmp_path):
    server = start_server(tmp_path / "data", "--log-level", "error")
    yield server
    stop_server(server)


def tls(server):
    return ssl.create_default_context(cafile=server.directory / "pki" / "ca.crt")


async def send_all(server, count, lanes):
    """Send requests over a few connections; return the number of each code, and the failures."""
    bad, codes = [], Counter()
    headers = {"Authorization": f"Bearer {server.token}"}
    connector = aiohttp.TCPConnector(ssl=tls(server), limit=lanes)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as session:

        async def lane(number):
            fuzzer = Fuzzer(SEED * 1000 + number, "default")
            for _ in range(count // lanes):
                request = fuzzer.request()
                url = yarl.URL(server.url + request.path, encoded=True)
                async with session.request(
                    request.method, url, data=request.body or None, headers=request.headers
                ) as answer:
                    text = await answer.read()
                    codes[answer.status] += 1
                    if answer.status >= 500 and answer.status != FUTURE_VERSION:
                        bad.append((answer.status, request, text[:300]))

        await asyncio.gather(*(lane(number) for number in range(lanes)))
    return codes, bad


def storm(server, count, lanes=8):
    before = resident_mb(server.process.pid)
    codes, bad = asyncio.run(send_all(server, count, lanes))
    log = (server.directory.parent / "data.log").read_text()
    assert bad == [], f"seed {SEED}: {bad[:3]}"
    assert " pykueue.apiserver." not in log, log[-3000:]
    assert resident_mb(server.process.pid) - before < MOST_GROWTH_MB
    assert min(codes[200], codes[201], codes[400], codes[404], codes[422]) > 0, f"the storm is too calm: {codes}"


def test_a_short_storm_of_random_requests(target):
    storm(target, 1_600)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_a_long_storm_of_random_requests(target):
    storm(target, 100_000)


def test_broken_http_is_answered_or_dropped(target):
    host, _, port = target.url.removeprefix("https://").partition(":")
    for head in BROKEN_HEADS:
        connection = http.client.HTTPSConnection(host, int(port), context=tls(target), timeout=10)
        connection.connect()
        connection.sock.sendall(head or b"\r\n\r\n")
        connection.sock.settimeout(5)
        answer = connection.sock.recv(20) if head else b""
        connection.close()
        assert answer == b"" or answer.split()[1] < b"500", head[:60]
    connection = http.client.HTTPSConnection(host, int(port), context=tls(target), timeout=10)
    connection.request("GET", "/version")
    with connection.getresponse() as answer:
        assert json.loads(answer.read())["major"] == "1"
    connection.close()
    assert "Traceback" not in (target.directory.parent / "data.log").read_text()
