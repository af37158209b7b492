"""Which nodes are looked at when a Workload is placed."""

import pytest
from tests.controllers.nodes.test_decide import HOSTNAME, workload

from pykueue.api import resources
from pykueue.controllers.nodes.controller import NodeController
from pykueue.controllers.nodes.decide import ReplacementPolicy
from pykueue.kube.controller.cache import ObjectCache


class StoppedClock:
    def now_ns(self):
        return 0


def node(name, hostname, ready="True"):
    conditions = [{"type": "Ready", "status": ready}]
    metadata = {"name": name, "labels": {HOSTNAME: hostname}, "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {}, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("nodes", "looked_at"),
    [
        ([("a", "a"), ("b", "b")], []),
        ([("a", "a")], ["b"]),
        ([("a", "a"), ("b", "b", "False")], ["b"]),
        ([("rack-1-a", "a"), ("rack-1-b", "b"), ("rack-2-a", "a")], []),
        ([("rack-1-a", "a")], ["b"]),
    ],
    ids=["healthy", "deleted", "not ready", "hostnames", "no such hostname"],
)
async def test_a_node_is_looked_at_if_it_failed_while_the_workload_was_placed(nodes, looked_at):
    cache = ObjectCache()
    controller = NodeController(cache, None, StoppedClock(), ReplacementPolicy())
    for fields in nodes:
        cache.observe(resources.NODE, node(*fields))
    controller.queue._ready.clear()
    placed = workload(nodes=("a", "b"))
    placed["metadata"]["resourceVersion"] = "2"
    cache.observe(resources.WORKLOAD, placed)
    assert list(controller.queue._due) == looked_at
