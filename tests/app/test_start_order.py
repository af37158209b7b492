"""Clients of `pykueue up` are answered only when all of it has started."""

import asyncio

import aiohttp
from tests.app.test_controller_fields import loaded

from pykueue.apiserver.paths import ServerPaths
from pykueue.app import components, up


class LastComponent:
    """While it starts, a client asks for a log."""

    def __init__(self, context):
        self.api = context.api

    async def start(self):
        self.call = asyncio.create_task(self.ask(self.api.access))
        done, _ = await asyncio.wait([self.call], timeout=0.3)
        assert not done, "answered by a server that has not started"

    async def ask(self, access):
        url = access.server + "/api/v1/namespaces/default/pods/none/log"
        headers = {"Authorization": f"Bearer {access.token}"}
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=False) as answer:
            return answer.status

    async def stop(self):
        pass


async def test_who_connects_early_waits_for_the_last_component(tmp_path, monkeypatch):
    last = []

    def build(context):
        last.append(LastComponent(context))
        return last[0]

    monkeypatch.setattr("pykueue.app.up.COMPONENTS", [*components.COMPONENTS, build])
    paths = ServerPaths(directory=tmp_path / "data", host="127.0.0.1", port=0)
    async with up.started(up.UpOptions(paths=paths, configuration=loaded(""), runtime="simulated")):
        assert await asyncio.wait_for(last[0].call, 10) == 404
