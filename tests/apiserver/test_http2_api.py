"""The API over HTTP/2, as Go clients and httpx use it, and its limits there."""

import asyncio
import contextlib
import json
import ssl

import httpx
import pytest

from pykueue.apiserver.http import connections
from pykueue.apiserver.http import listener as listener_module

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEADLINE_SECONDS = 20


def config_map(name, size=1):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": size * "x"}}


@pytest.fixture
async def client(api):
    context = ssl.create_default_context(cafile=api.paths.directory / "pki" / "ca.crt")
    headers = {"Authorization": f"Bearer {api.access.token}"}
    async with httpx.AsyncClient(
        http1=False, http2=True, verify=context, base_url=api.access.server, headers=headers
    ) as client:
        yield client


async def test_objects_are_written_and_read(client):
    answers = await asyncio.gather(*[client.post(CONFIG_MAPS, json=config_map(f"it-{index}")) for index in range(50)])
    assert {(answer.http_version, answer.status_code) for answer in answers} == {("HTTP/2", 201)}
    items = (await client.get(CONFIG_MAPS)).json()["items"]
    assert {f"it-{index}" for index in range(50)} <= {item["metadata"]["name"] for item in items}


async def test_large_objects_pass_in_both_directions(client):
    assert (await client.post(CONFIG_MAPS, json=config_map("large", 1_000_000))).status_code == 201
    assert len((await client.get(f"{CONFIG_MAPS}/large")).json()["data"]["a"]) == 1_000_000


async def test_a_watch_and_requests_share_the_connection(client):
    async with asyncio.timeout(DEADLINE_SECONDS), client.stream("GET", f"{CONFIG_MAPS}?watch=1") as watch:
        lines = watch.aiter_lines()
        for index in range(20):
            await client.post(CONFIG_MAPS, json=config_map(f"it-{index}"))
        names = []
        while f"it-{19}" not in names:
            names.append(json.loads(await anext(lines))["object"]["metadata"]["name"])
    assert [name for name in names if name.startswith("it-")] == [f"it-{index}" for index in range(20)]


async def test_a_body_that_does_not_arrive_is_given_up(client, monkeypatch):
    monkeypatch.setattr(listener_module, "_BODY_SECONDS", 0.01)
    given_up, send_error = asyncio.Event(), listener_module._send_error

    async def send_and_tell(exchange, error):
        await send_error(exchange, error)
        given_up.set()

    monkeypatch.setattr(listener_module, "_send_error", send_and_tell)

    async def slow():
        yield b"{"
        await asyncio.wait_for(given_up.wait(), DEADLINE_SECONDS)

    assert (await client.post(CONFIG_MAPS, content=slow())).status_code == 408


async def test_requests_without_a_token_are_refused(client):
    answer = await client.get(CONFIG_MAPS, headers={"Authorization": ""})
    assert (answer.status_code, answer.json()["reason"]) == (401, "Unauthorized")


async def test_a_removed_user_loses_the_watch_and_not_the_connection(client, api, monkeypatch):
    async with asyncio.timeout(DEADLINE_SECONDS), client.stream("GET", f"{CONFIG_MAPS}?watch=1") as watch:
        monkeypatch.setattr(api.application, "_authenticate", lambda _token: None)
        api._listener._revocation.check()
        with pytest.raises(httpx.RemoteProtocolError):
            await watch.aread()
    assert (await client.get("/version")).status_code == 401


async def test_the_server_stops_although_watches_are_open(client, api):
    async with asyncio.timeout(DEADLINE_SECONDS), client.stream("GET", f"{CONFIG_MAPS}?watch=1") as watch:
        await api.stop()
        with contextlib.suppress(httpx.RemoteProtocolError):
            await watch.aread()
    await api.start()


async def test_a_handshake_that_does_not_begin_is_given_up(api, monkeypatch):
    monkeypatch.setattr(connections, "HANDSHAKE_SECONDS", 0.1)
    host, port = api.access.server.removeprefix("https://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await reader.read() == b""
    writer.close()
