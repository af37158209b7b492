"""A stream ends when its user loses the right to it."""

import asyncio

import aiohttp
import pytest
from tests.apiserver.api_requests import binding, create, namespace, send

from pykueue.apiserver.http import revocation
from pykueue.apiserver.security import tokens


@pytest.fixture
async def watch(api, monkeypatch):
    """The lines of a watch of pods by a user with the role `view`."""
    monkeypatch.setattr(tokens, "_REFRESH_SECONDS", 0)
    monkeypatch.setattr(revocation, "_PAUSE_SECONDS", 0.01)
    await create(api, namespace("ml"))
    await create(api, binding("view", "jane", namespace="ml", name="jane"))
    headers = {"Authorization": f"Bearer {tokens.issue(api.paths.tokens, 'jane')}"}
    url = f"{api.access.server}/api/v1/namespaces/ml/pods?watch=1&allowWatchBookmarks=true&sendInitialEvents=true"
    url += "&resourceVersionMatch=NotOlderThan"
    async with aiohttp.ClientSession(headers=headers) as session, session.get(url, ssl=False) as answer:
        assert answer.status == 200
        yield answer.content


async def is_ended(lines):
    async with asyncio.timeout(10):
        try:
            await lines.read()
        except aiohttp.ClientError:
            return True
    return lines.at_eof()


async def test_a_watch_goes_on_while_it_is_allowed(api, watch):
    await watch.readline()
    api._listener._revocation.check()
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ml"}}
    await create(api, {**pod, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    async with asyncio.timeout(10):
        assert b'"ADDED"' in await watch.readline()


async def test_a_watch_ends_with_the_token_of_its_user(api, watch):
    await watch.readline()
    tokens.remove(api.paths.tokens, "jane")
    assert await is_ended(watch)


async def test_a_watch_ends_with_the_role_binding_of_its_user(api, watch):
    await watch.readline()
    await send(api, "DELETE", "/apis/rbac.authorization.k8s.io/v1/namespaces/ml/rolebindings/jane")
    assert await is_ended(watch)
