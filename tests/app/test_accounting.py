"""The record that `pykueue history` reads."""

import asyncio

import aiohttp
import msgspec
import pytest

from pykueue.api import registry
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.http import routes
from pykueue.apiserver.http.messages import HttpRequest
from pykueue.apiserver.paths import ServerPaths
from pykueue.app import accounting


@pytest.fixture
def record(tmp_path):
    return accounting.AccountingFile(tmp_path / accounting.FILE)


def job(uid):
    return {"metadata": {"uid": uid, "labels": {"kueue.x-k8s.io/queue-name": "q"}}}


def workload_of(uid):
    return {"metadata": {"ownerReferences": [{"uid": uid}]}}


def test_users_of_jobs_outlive_a_restart(record):
    accounting.JobUsers(record).created(job("a"), "jane")
    assert accounting.JobUsers(record).user_of(workload_of("a")) == "jane"


def test_users_of_the_newest_jobs_are_in_memory(record, monkeypatch):
    monkeypatch.setattr(accounting, "MOST_USERS", 2)
    users = accounting.JobUsers(record)
    for uid in "abc":
        users.created(job(uid), "jane")
    assert [users.user_of(workload_of(uid)) for uid in "abc"] == [None, "jane", "jane"]


def test_a_line_that_cannot_be_read_is_skipped(record, tmp_path):
    record.add({"uid": "a", "namespace": "ml"})
    with (tmp_path / accounting.FILE).open("ab") as file:
        file.write(b'{"uid": "b", "names\n[1]\n\xff\xfe\n')
    record.add({"uid": "c", "namespace": "ml"})
    assert [head.uid for head, _ in record.lines()] == ["a", "c"]


async def test_a_large_record_is_read_while_others_are_served(record, tmp_path):
    line = msgspec.json.encode({"uid": "a", "namespace": "ml", "job": "x" * 200}) + b"\n"
    (tmp_path / accounting.FILE).write_bytes(line * 20_000)
    api = EmbeddedApi(ServerPaths(directory=tmp_path / "data", host="127.0.0.1", port=0), registry.scheme())
    access = await api.start()
    part = accounting.Accounting(api, tmp_path)
    await part.start()
    turns = 0
    try:
        headers = {"Authorization": f"Bearer {access.token}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            request = asyncio.ensure_future(session.get(f"{access.server}/history", ssl=False))
            while not request.done():
                turns += part._reading.locked()
                await asyncio.sleep(0)
            answer = msgspec.json.decode(await (await request).read())
    finally:
        await part.stop()
        await api.stop()
    assert len(answer["items"]) == 20_000
    assert turns > 0


async def test_answers_that_are_being_sent_share_their_lines(record, tmp_path):
    """A client that does not read keeps its answer, and the record may be large."""
    api = EmbeddedApi(ServerPaths(directory=tmp_path / "data", host="127.0.0.1", port=0), registry.scheme())
    await api.start()
    await api.stop()
    part = accounting.Accounting(api, tmp_path)
    admin = UserInfo(name="admin", groups=("system:masters",))
    route = routes.parse("GET", accounting.PATH, {})
    request = HttpRequest(method="GET", route=route, user=admin, query={})
    record.add({"uid": "a", "namespace": "ml"})
    first, second = [(await part._serve(request)).body for _ in range(2)]
    assert first[1] is second[1]
    record.add({"uid": "b", "namespace": "ml"})
    third = (await part._serve(request)).body
    assert msgspec.json.decode(b"".join(third)) == {
        "items": [{"uid": "a", "namespace": "ml"}, {"uid": "b", "namespace": "ml"}]
    }
    assert msgspec.json.decode(b"".join(first)) == {"items": [{"uid": "a", "namespace": "ml"}]}
