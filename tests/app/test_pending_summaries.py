"""The summary of a queue with many pending workloads leaves turns of the event loop to others."""

import asyncio
from types import SimpleNamespace

import pytest
from tests.translate.test_pending_report import workload

from pykueue.app.visibility import api

COUNT = 5000


class Cache:
    def get(self, _resource, name, namespace):
        return {"metadata": {"name": name, "namespace": namespace}, "spec": {"queueName": "main"}}


class View:
    def local_queue(self, _key):
        return SimpleNamespace(cluster_queue="team")

    def pending_in_order(self, _name):
        return [workload(f"w{number}", queue="main" if number == COUNT - 1 else "other") for number in range(COUNT)]


@pytest.mark.parametrize(("name", "namespace", "count"), [("team", "", 1000), ("main", "ns", 1)])
async def test_a_long_queue_is_read_in_several_turns(name, namespace, count):
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(others())
    queues = api.Queues(view=View(), cache=Cache(), estimates=None)
    summary = await api.pending(queues, name, namespace, version="v1beta2", query={})
    task.cancel()
    assert len(summary["items"]) == count
    assert turns >= 8
