"""Requests that a flood has found: they once got a code of 500, or no answer."""

import asyncio
import json

import pytest
from tests.cost.fuzzer import FuzzedRequest
from tests.cost.raw_client import RawClient, Server

TABLE = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"
JSON = "Content-Type: application/json"
UPGRADE = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: x\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
BOOKMARKS = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"


async def answer(users, line, headers="", body=b"", **options):
    server = Server.of(users["jane"][0])
    head = f"{line} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\nContent-Length: {len(body)}\r\n{headers}"
    client = RawClient(server, [])
    try:
        return await client.send(FuzzedRequest(number=0, sort="", data=f"{head}\r\n\r\n".encode() + body, **options))
    finally:
        client.close()


async def test_a_warning_with_a_control_character(users):
    body = json.dumps({"metadata": {"name": "a"}, "data": {}, "un\x00known\x1b": 1}).encode()
    code, _ = await answer(users, "POST /api/v1/namespaces/of-jane/configmaps", JSON, body)
    assert code == 201


@pytest.mark.parametrize("resource", ["api/v1 pods", "apis/batch/v1 cronjobs", "apis/kueue.x-k8s.io/v1beta2 workloads"])
async def test_a_table_has_bookmarks(users, resource):
    group, plural = resource.split()
    code, body = await answer(users, f"GET /{group}/namespaces/of-jane/{plural}?{BOOKMARKS}", TABLE)
    events = [json.loads(line) for line in body.splitlines()]
    assert (code, events[-1]["type"], events[-1]["object"]["kind"]) == (200, "BOOKMARK", "Table")


async def test_a_handshake_of_another_version(users):
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await answer(users, "POST /api/v1/namespaces/of-jane/pods", JSON, json.dumps(pod).encode())
    for _ in range(100):
        code, body = await answer(
            users, "GET /api/v1/namespaces/of-jane/pods/p/attach?container=c&stdout=true", UPGRADE
        )
        if b"handshake" in body:
            break
        await asyncio.sleep(0.1)  # the pod does not run yet
    assert (code, b"WebSocket handshake failed" in body) == (400, True), body
